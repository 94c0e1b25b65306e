#!/usr/bin/env bash
# All tests against the installed server, and the core's own without the server. Ends with the counts.
# A test file that fails is run once more: what fails twice has failed, what passes then is named at the end.
set -uo pipefail
cd "$(dirname "$0")/.."
. scripts/env.sh

log=$(mktemp) again=$(mktemp)
trap 'rm -f "$log" "$again"' EXIT
failed=0 settled=
failing() { sed -n 's/^ *`\(--[a-z]*\( [a-z_]*\)\?\)`$/\1/p' "$1" | sort -u; } # LOG: the files that failed, as flags
run() { # LOG COMMAND...
  local out=$1
  shift
  echo "== $*"
  "$@" 2>&1 | tee -a "$out"
}
if ! run "$log" cargo test --locked --no-fail-fast; then
  first=$(failing "$log")
  if [ -n "$first" ]; then
    read -ra flags -d '' <<<"$first"
    echo "== once more: ${flags[*]}"
    sed -i '/^test result: FAILED/d' "$log"
    if run "$again" cargo test --locked --no-fail-fast "${flags[@]}"; then
      settled=$first
    else
      failed=1
      second=$(failing "$again")
      # Without names the second run did not get as far as the tests.
      [ -z "$second" ] || settled=$(comm -23 <(echo "$first") <(echo "$second"))
    fi
    cat "$again" >>"$log"
  else
    failed=1
  fi
fi
run "$log" cargo test --locked --no-default-features --lib || failed=1
[ -z "$settled" ] || echo "passed only at the second run: $(sed 's/^--test //' <<<"$settled" | paste -sd' ')"
scripts/test-results.sh "$log" || failed=1
exit $failed
