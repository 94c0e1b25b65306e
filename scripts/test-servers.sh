#!/usr/bin/env bash
# The tests that start a server, against every version that can be had, and the refusal below the floor.
#   SERVERS="redis-7.4.1 valkey-9.1.2"  only these (see tests/servers.sh; installed: the machine's own)
#   REQUIRED="..."                      these must not be left out
#   TESTS="cases effects"               only these test files
#   SERVERS_DIR=target/servers          where the servers are kept
set -uo pipefail
cd "$(dirname "$0")/.."
. scripts/env.sh

all=(redis-6.2.14 installed redis-7.2.4 redis-7.4.1 redis-8.0 redis-8.2.3 redis-next valkey-8.0 valkey-8.1.8 valkey-9.1.2)
read -ra chosen <<<"${SERVERS:-${all[*]}}"
read -ra required <<<"${REQUIRED:-}"
read -ra tests <<<"${TESTS:-$(grep -l '^mod support;' tests/*.rs | xargs -n1 basename -s .rs | tr '\n' ' ')}"
servers=$(realpath -m "${SERVERS_DIR:-$target/servers}")
so=$(realpath "$module")
logs=$target/server-logs
rm -rf "$logs"
mkdir -p "$logs"

tests/servers.sh "$servers" "${chosen[@]}" || exit 1

# Each test is built once; a line of cargo's names its program.
flags=()
for test in "${tests[@]}"; do flags+=(--test "$test"); done
built=$(cargo test --locked --no-run "${flags[@]}" 2>&1) || { echo "$built" >&2; exit 1; }
declare -A program
while read -r name path; do program[$name]=$path; done < <(
  sed -n 's|^ *Executable tests/\([a-z_]*\)\.rs (\(.*\))$|\1 \2|p' <<<"$built")
for test in "${tests[@]}"; do
  [ -x "${program[$test]:-}" ] || { echo "test $test was not built" >&2; exit 1; }
done

version() { "$1" --version | sed -n 's/.*v=\([0-9.]*\).*/\1/p'; }

# Below the floor: the server gives up, and one line of ours says why.
refuses() { # SERVER
  local log=$logs/refusal.txt dir
  dir=$(mktemp -d)
  timeout 20 "$1" --port 0 --unixsocket "$dir/socket" --dir "$dir" --save '' --loadmodule "$so" >"$log" 2>&1
  local ended=$?
  rm -rf "$dir"
  [ $ended = 1 ] && [ "$(grep -c 'rl needs Redis 7.0 or later or Valkey 7.2 or later' "$log")" = 1 ]
}

table=() second=() failed=0
row() { table+=("$(printf '%-14s %-8s %-8s %6ss  %s' "$1" "$2" "$3" "$4" "$5")"); }
for name in "${chosen[@]}"; do
  bin=$servers/bin/$name
  [ "$name" != installed ] || bin=$(command -v "$server")
  if [ ! -x "$bin" ]; then
    row "$name" - "left out" 0 ""
    [[ " ${required[*]} " != *" $name "* ]] || { row "$name" - "REQUIRED" 0 "but not to be had"; failed=1; }
    continue
  fi
  said=$(version "$bin") begin=$SECONDS
  if [ "$name" = redis-6.2.14 ]; then
    if refuses "$bin"; then
      row "$name" "$said" ok $((SECONDS - begin)) "refuses the module with one clear line"
      echo "test result: ok. 1 passed; 0 failed" >"$logs/$name.log"
    else
      row "$name" "$said" FAILED $((SECONDS - begin)) "does not refuse the module as it should: $logs/refusal.txt"
      echo "test result: FAILED. 0 passed; 1 failed" >"$logs/$name.log"
      failed=1
    fi
    continue
  fi
  log=$logs/$name.log bad=()
  : >"$log"
  for test in "${tests[@]}"; do
    printf '== %s %s: %s\n' "$name" "$said" "$test"
    run() { RL_SERVER=$bin RL_MODULE=$so "${program[$test]}" >"$log.part" 2>&1; }
    if ! run; then
      cat "$log.part"
      echo "== $name: $test once more"
      if run; then
        second+=("$test ($name)")
      else
        bad+=("$test")
        cat "$log.part"
        grep -q '^test result:' "$log.part" || echo "test result: FAILED. 0 passed; 1 failed" >>"$log.part"
      fi
    fi
    cat "$log.part" >>"$log"
  done
  rm -f "$log.part"
  # The last line is the sum.
  results=$(scripts/test-results.sh "$log")
  counts=${results##*$'\n'}
  skipped=$(grep -c '^skipped: ' <<<"$results")
  [ "$skipped" = 0 ] || counts+=", $skipped skipped"
  if [ ${#bad[@]} = 0 ]; then
    row "$name" "$said" ok $((SECONDS - begin)) "$counts"
  else
    row "$name" "$said" FAILED $((SECONDS - begin)) "$counts: ${bad[*]}"
    failed=1
  fi
done

printf '\n%-14s %-8s %-8s %7s\n' server version result time
printf '%s\n' "${table[@]}"
present=()
for name in "${chosen[@]}"; do [ ! -e "$logs/$name.log" ] || present+=("$logs/$name.log"); done
[ ${#second[@]} = 0 ] || echo "passed only at the second run: ${second[*]}"
scripts/test-results.sh /dev/null "${present[@]}" || failed=1
exit $failed
