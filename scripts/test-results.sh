#!/usr/bin/env bash
# Adds up what the test runner says in the given logs. Fails where a test failed, or none ran.
# Before the sum come the tests that could not run: they end early, so the runner counts them as passed.
set -euo pipefail
for log in "$@"; do
  # One that was run twice is one. Of several logs it is told which.
  from=$([ $# = 1 ] || echo " ($(basename "$log" .log))")
  grep -ao 'skipped: [^:]*: .*' "$log" | sort -u | sed "s|\$|$from|" || true
done | awk '{ print } END { if (NR) printf "%d skipped, and counted as passed\n", NR }'
grep -ah '^test result:' "$@" | awk '
  { for (i = 1; i < NF; i++) { if ($(i + 1) ~ /^passed/) passed += $i; if ($(i + 1) ~ /^failed/) failed += $i } }
  END { printf "%d passed, %d failed\n", passed, failed; exit failed > 0 || passed == 0 }'
