#!/usr/bin/env bash
# Which lines of src the tests reach: the core's own tests, and the module built with counters and loaded into
# every server that the server tests start. Counters are mapped into files (%c), so that a server that is
# killed counts too. The installed server takes all tests; one below the floor and a newer one, which asks for
# more (it moves memory, for one), are brought for some. Code of the tests in src is not counted. Fails below
# LEAST percent.
#   LEAST=95
# The lines that nothing reaches are listed in target/coverage/uncovered.txt.
set -uo pipefail
cd "$(dirname "$0")/.."
. scripts/env.sh

llvm=$(rustc -vV | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p')
command -v "llvm-cov-$llvm" >/dev/null || { echo "coverage: llvm-$llvm, the LLVM of this rustc, is needed" >&2; exit 1; }
work=$(realpath -m "$target/coverage")
rm -rf "$work/profiles"
mkdir -p "$work/profiles"

# Only our own package gets counters: the wrapper is not asked for the others. Nor do the programs that talk
# to the servers: they are those of `make check`.
printf '#!/bin/sh\nexec "$@" -Cinstrument-coverage -Cllvm-args=-runtime-counter-relocation\n' >"$work/rustc"
chmod +x "$work/rustc"
counted() { env RUSTC_WORKSPACE_WRAPPER="$work/rustc" CARGO_TARGET_DIR="$work" LLVM_PROFILE_FILE=/dev/null cargo "$@"; }
counted build --locked || exit 1
built=$(counted test --locked --lib --no-run 2>&1) || { echo "$built" >&2; exit 1; }
unit=$(sed -n 's|^ *Executable unittests src/lib.rs (\(.*\))$|\1|p' <<<"$built")
so=$work/debug/libredis_rl.so

export LLVM_PROFILE_FILE=$work/profiles/%c%p.profraw
flags=()
for test in $(grep -l '^mod support;' tests/*.rs | xargs -n1 basename -s .rs); do flags+=(--test "$test"); done
{
  "$unit"
  export RL_MODULE=$so RL_RANDOM_CALLS=${RL_RANDOM_CALLS:-4000}
  cargo test --locked --no-fail-fast "${flags[@]}"
  SERVERS="redis-6.2.14 redis-8.2.3" TESTS="memory persistence catalogue citizen policy_copies" scripts/test-servers.sh
} 2>&1 | tee "$work/tests.log" | grep --line-buffered -aE '^test result|Running|FAILED|panicked'
failed=0
scripts/test-results.sh "$work/tests.log" || failed=1

"llvm-profdata-$llvm" merge -sparse --failure-mode=all -o "$work/all.profdata" "$work"/profiles/*.profraw || exit 1
lines() { "llvm-cov-$llvm" export -format=lcov -instr-profile="$work/all.profdata" "$1" --sources src; }
lines "$so" >"$work/module.lcov" && lines "$unit" >"$work/unit.lcov" || exit 1
# The module says which lines there are; a line is reached if either reaches it.
awk -F '[:,]' -v here="$PWD/" -v list="$work/uncovered.txt" -v least="${LEAST:-95}" '
  BEGIN { printf "" >list }
  $1 == "SF" { file = substr($0, 4); sub(here, "", file) }
  $1 == "DA" && NR == FNR { known[file, $2] = 1; order[++n] = file SUBSEP $2 }
  $1 == "DA" && $3 > 0 { reached[file, $2] = 1 }
  END {
    for (i = 1; i <= n; i++) {
      split(order[i], at, SUBSEP)
      if (seen[order[i]]++) continue
      if (!(at[1] in lines)) names[++files] = at[1]
      lines[at[1]]++; all++
      if (order[i] in reached) { hit[at[1]]++; hits++ } else print at[1] ":" at[2] >list
    }
    for (i = 1; i <= files; i++)
      printf "%-28s %5d of %5d  %5.1f %%\n", names[i], hit[names[i]], lines[names[i]], 100 * hit[names[i]] / lines[names[i]]
    printf "%-28s %5d of %5d  %5.1f %%\n", "src", hits, all, 100 * hits / all
    exit 100 * hits / all < least
  }' "$work/module.lcov" "$work/unit.lcov" || { echo "coverage: below ${LEAST:-95} %" >&2; failed=1; }
exit $failed
