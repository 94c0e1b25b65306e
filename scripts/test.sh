#!/usr/bin/env bash
# Everything that must pass before a change goes in: all tests on the installed server, the server tests on others, the
# client programs and middlewares. Ends with the sums of the three, added up.
#   STRICT=1  a server or client that cannot be had is a failure; without it, it is left out by name
set -uo pipefail
cd "$(dirname "$0")/.."
# The installed server has its turn in `make check`; `make test-servers` alone takes all versions there are.
servers="redis-6.2.14 redis-7.4.1 redis-8.2.3 valkey-9.1.2"
strict=${STRICT:+1}

log=$(mktemp)
trap 'rm -f "$log"' EXIT
failed=0
run() { "$@" </dev/null 2>&1 | tee -a "$log" || failed=1; }
run make --no-print-directory check
SERVERS=$servers REQUIRED=${strict:+$servers} RL_RANDOM_CALLS=${RL_RANDOM_CALLS:-4000} run make --no-print-directory test-servers
# The packages that the clients come in are those of this Debian; elsewhere what is missing is skipped by name.
debian=$(. /etc/os-release 2>/dev/null && echo "${ID:-} ${VERSION_ID:-}")
[ "$debian" = "debian 12" ] || strict=
REQUIRED=$strict run make --no-print-directory test-clients

# What was not stable, and the sums.
grep -E '^passed only at the second run: ' "$log" || true
grep -E '^[0-9]+ passed, [0-9]+ failed$' "$log" |
  awk '{ passed += $1; failed += $3 } END { printf "\nin all\n%d passed, %d failed\n", passed, failed }'
exit $failed
