#!/usr/bin/env bash
# All tests against the installed server, and the core's own without the server. Ends with the counts.
# A test file that fails is run once more: what fails twice has failed, what passes then is named.
set -uo pipefail
cd "$(dirname "$0")/.."
. scripts/env.sh

log=$(mktemp) again=$(mktemp)
trap 'rm -f "$log" "$again"' EXIT
failed=0
run() { # LOG COMMAND...
  local out=$1
  shift
  echo "== $*"
  "$@" 2>&1 | tee -a "$out"
}
if ! run "$log" cargo test --locked --no-fail-fast; then
  mapfile -t flags < <(sed -n 's/^ *`\(--[a-z]*\( [a-z_]*\)\?\)`$/\1/p' "$log" | tr ' ' '\n')
  if [ ${#flags[@]} -gt 0 ]; then
    echo "== once more: ${flags[*]}"
    sed -i '/^test result: FAILED/d' "$log"
    run "$again" cargo test --locked --no-fail-fast "${flags[@]}" || failed=1
    cat "$again" >>"$log"
  else
    failed=1
  fi
fi
run "$log" cargo test --locked --no-default-features --lib || failed=1
[ ! -s "$again" ] || echo "run twice: ${flags[*]}"
scripts/test-results.sh "$log" || failed=1
exit $failed
