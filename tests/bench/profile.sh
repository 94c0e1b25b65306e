#!/usr/bin/env bash
# Instructions per command, by function: the server under valgrind's callgrind, which no other load on the
# machine disturbs: of each function alone, and with what it calls. CASES="..." picks cases, CALLS the length.
set -euo pipefail
calls=${CALLS:-40000}
keys=5000
module=$(realpath "${RL_MODULE:-${CARGO_TARGET_DIR:-target}/release/libredis_rl.so}")
server=${RL_SERVER:-redis-server}
floor=${FLOOR:-target/bench/release/libredis_rl_floor.so}
modules=(--loadmodule "$module")
[ ! -f "$floor" ] || modules+=(--loadmodule "$(realpath "$floor")")
work=$(mktemp -d)
pid=
trap '[ -z "$pid" ] || kill "$pid" 2>/dev/null || true; rm -rf "$work"' EXIT

case_of() { # sets `warm`, the first calls on each key, and `cmd`
  warm=()
  case $1 in
    incr)            warm=(set k:__rand_int__ 1 ex 10000); cmd=(incr k:__rand_int__) ;;
    token-allowed)   cmd=(rl.token k:__rand_int__ 1000000 1 per 60s) ;;
    token-denied)    cmd=(rl.token k:__rand_int__ 5 1 per 10h); warm=("${cmd[@]}" cost 5) ;;
    leaky-allowed)   cmd=(rl.leaky k:__rand_int__ 1000000 1 per 60s) ;;
    slide-allowed)   cmd=(rl.slide k:__rand_int__ 100000 1h) ;;
    slide-denied)    cmd=(rl.slide k:__rand_int__ 5 1h); warm=("${cmd[@]}" cost 5) ;;
    fixed-allowed)   cmd=(rl.fixed k:__rand_int__ 100000 1h) ;;
    charge3-allowed) cmd=(rl.charge k:__rand_int__ token 1000000 1 per 60s slide 100000 1h fixed 100000 1d) ;;
    charge8-allowed) cmd=(rl.charge k:__rand_int__ token 1000000 1 per 60s token 1000000 1 per 61s leaky 1000000 1 per 62s leaky 1000000 1 per 63s fixed 100000 1d fixed 100000 2d slide 100000 1h fixed 100000 3d) ;;
    mcharge2-allowed) cmd=(rl.mcharge 2 k:__rand_int__ l:__rand_int__ token 1000000 1 per 60s slide 100000 1h) ;;
    floor-nothing)   cmd=(floor.nothing k:__rand_int__ 1000000 1 per 60s) ;;
    floor-allowed)   cmd=(floor.allowed k:__rand_int__ 1000000 1 per 60s) ;;
    floor-denied)    cmd=(floor.denied k:__rand_int__ 5 1 per 10h) ;;
    floor-three)     cmd=(floor.three k:__rand_int__ token 1000000 1 per 60s slide 100000 1h fixed 100000 1d) ;;
    *) echo "no case $1" >&2; exit 1 ;;
  esac
  [ ${#warm[@]} -gt 0 ] || warm=("${cmd[@]}")
}

load() { # calls, then the words of the command
  local n=$1; shift
  redis-benchmark -p "$port" -P 32 -c 50 -n "$n" -r $keys -q "$@" >/dev/null
}

# Shortens a line of callgrind_annotate to: instructions per command, part, function.
readonly SHORT='
  function part() { return /floor\.so/ ? "floor" : /rl\.so/ ? "rl" : /jemalloc/ ? "jemalloc" : /libc/ ? "libc" : "server" }
  /^ *[0-9,]+ \(/ {
    v = $1; gsub(",", "", v); v /= n; p = /TOTALS/ ? "total" : part(); sum[p] += v
    name = $0; sub(/^ *[0-9,]+ \([ 0-9.]+%\) */, "", name); sub(/ \[.*/, "", name); sub(/^[^:]*:/, "", name)
    if (v >= least) printf "%8.0f  %-9s %s\n", v, p, name
  }'

profile() {
  local out=$work/$1.out
  case_of "$1"
  port=$((20000 + RANDOM % 10000))
  valgrind --tool=callgrind --instr-atstart=no --callgrind-out-file="$out" \
    "$server" --port $port --bind 127.0.0.1 --save '' --dir "$work" "${modules[@]}" >"$work/log" 2>&1 &
  pid=$!
  for _ in $(seq 300); do redis-cli -p $port ping 2>/dev/null | grep -q PONG && break; sleep 0.2; done
  load $((keys * 12)) "${warm[@]}"
  callgrind_control -i on $pid >/dev/null
  load "$calls" "${cmd[@]}"
  callgrind_control -i off $pid >/dev/null
  redis-cli -p $port shutdown nosave >/dev/null 2>&1 || true
  wait $pid || true
  pid=
  callgrind_annotate --threshold=100 "$out" >"$work/self" 2>/dev/null
  callgrind_annotate --threshold=100 --inclusive=yes "$out" >"$work/all" 2>/dev/null
  echo "=== $1: instructions per command"
  awk -v n="$calls" -v least=1e9 "$SHORT"' END { for (p in sum) printf "%8.0f  %s\n", sum[p], p }' "$work/self"
  echo "--- self"
  awk -v n="$calls" -v least=25 "$SHORT" "$work/self"
  echo "--- with what it calls"
  awk -v n="$calls" -v least=60 "$SHORT" "$work/all"
}

for name in ${CASES:-incr floor-nothing floor-allowed token-allowed floor-denied token-denied slide-allowed floor-three charge3-allowed}; do
  [[ $name != floor-* || -f $floor ]] || { echo "$name: no floor, make floor builds it" >&2; continue; }
  profile "$name"
done
