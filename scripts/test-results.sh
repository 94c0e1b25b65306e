#!/usr/bin/env bash
# Adds up what the test runner says in the given logs. Fails where a test failed, or none ran.
set -euo pipefail
grep -ah '^test result:' "$@" | awk '
  { for (i = 1; i < NF; i++) { if ($(i + 1) ~ /^passed/) passed += $i; if ($(i + 1) ~ /^failed/) failed += $i } }
  END { printf "%d passed, %d failed\n", passed, failed; exit failed > 0 || passed == 0 }'
