#!/usr/bin/env bash
# Serves with the module until Ctrl-C. PORT names the port; else 6379 or the next free one.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/env.sh
. scripts/private-server.sh
if [ -n "${PORT:-}" ] && ! port_is_free "$PORT"; then
  echo "port $PORT is taken; another: make run PORT=6390" >&2
  exit 1
fi
start_server "${PORT:-6379}"
trap 'echo; echo "stopped."; exit 0' INT TERM
cat <<TEXT
$("$server" --version | cut -d' ' -f1-3) with the module rl listens on 127.0.0.1:$port (nothing is saved; Ctrl-C ends it).
In another terminal:

  redis-cli -p $port RL.TOKEN user:1 5 1

TEXT
wait "$pid"
