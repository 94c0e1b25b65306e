#!/usr/bin/env bash
# All tests against the installed server, and the core's own without the server. Ends with the counts.
set -uo pipefail
cd "$(dirname "$0")/.."
. scripts/env.sh

log=$(mktemp)
trap 'rm -f "$log"' EXIT
failed=0
run() {
  echo "== $*"
  "$@" 2>&1 | tee -a "$log" || failed=1
}
run cargo test --locked --no-fail-fast
run cargo test --locked --no-default-features --lib
scripts/test-results.sh "$log" || failed=1
exit $failed
