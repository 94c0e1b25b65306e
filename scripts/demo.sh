#!/usr/bin/env bash
# A tour: every command on a private server with its real reply, then one burst against the four algorithms.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/env.sh
. scripts/private-server.sh

bold='' dim='' green='' red='' plain=''
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ] && [ "${TERM:-dumb}" != dumb ]; then
  bold=$'\e[1m' dim=$'\e[2m' green=$'\e[32m' red=$'\e[31m' plain=$'\e[0m'
fi

title() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }
note() { printf '%s# %s%s\n' "$dim" "$*" "$plain"; }
cli() { redis-cli -p "$port" "$@"; }
# One call as a terminal shows it.
call() {
  printf '127.0.0.1:%s> %s\n' "$port" "$*"
  cli --no-raw "$@" | sed '/^$/d'
}
# As call, with a word beside each line of the reply.
call_explained() {
  local words=("allowed: 1 yes, 0 no" "remaining: calls that would still pass now" "retry_after_ms: 0 if allowed, -1 if never"
    "reset_after_ms: until it is as good as new" "limit: what was asked for" "delay_ms: how long to wait first (LEAKY)")
  printf '127.0.0.1:%s> %s\n' "$port" "$*"
  local line i=0
  cli --no-raw "$@" | while IFS= read -r line; do
    printf '%-22s %s%s%s\n' "$line" "$dim" "${words[i++]:-}" "$plain"
  done
}

start_server "$((20000 + RANDOM % 5000))"
echo "redis-rl $(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1) on $("$server" --version | cut -d' ' -f1-3), port $port"

title "RL.TOKEN: bursts up to a capacity, refilled evenly"
note "a bucket of 2, refilled with 1 per second; every limiter answers these six integers"
call_explained RL.TOKEN user:1 2 1
call RL.TOKEN user:1 2 1
note "the third call at once is refused: retry_after_ms says when the same call passes, exactly"
call RL.TOKEN user:1 2 1

title "RL.LEAKY: a queue that leaves at an even rate"
note "at most 5 wait, 4 leave per second: the last number is how long this caller is to wait"
call RL.LEAKY mail:out 5 4
call RL.LEAKY mail:out 5 4
call RL.LEAKY mail:out 5 4

title "RL.SLIDE: never more than the limit in any trailing window"
note "1 code a minute"
call RL.SLIDE sms:138 1 60s
call RL.SLIDE sms:138 1 60s
note "a large limit, counted in 60 blocks in place of an exact log"
call RL.SLIDE api:all 1000000 1h BLOCKS 60 COST 500

title "RL.FIXED: a count per window, here per calendar day in UTC+8"
call RL.FIXED export:42 10 1d ALIGN 8h

title "RL.CHARGE: several rules on one key, all or nothing"
note "1 a minute and 5 an hour and 10 a day; after the six come six per rule"
call RL.CHARGE sms:139 SLIDE 1 60s SLIDE 5 1h FIXED 10 1d
note "60 requests a minute and 100000 units of work a day, each with a cost of its own"
call RL.CHARGE llm:7 TOKEN 60 60 PER 1m TOKEN 100000 100000 PER 1d COST 1 2500

title "RL.MCHARGE: one rule per key, all or nothing"
call RL.MCHARGE 2 '{shop}:ip:10.1.1.9' '{shop}:all' TOKEN 20 10 FIXED 5000 1s

title "RL.PEEK: would it pass? nothing is written"
call RL.PEEK sms:139
call RL.PEEK user:1 TOKEN 2 1 COST 2

title "RL.REFUND: gives cost back that was not used"
call RL.REFUND llm:7 COST 0 1500

title "RL.INSPECT: a limiter in plain words"
call RL.INSPECT llm:7

title "RL.POLICY: rules kept by the server, changed at run time"
call RL.POLICY SET signup SLIDE 3 1m FIXED 20 1d
call RL.CHARGE signup:10.1.1.9 POLICY signup
call RL.POLICY GET signup
call RL.POLICY LIST

title "RL.TOP: who is refused most (key, how often, database)"
for _ in 1 2 3 4; do cli RL.SLIDE sms:138 1 60s >/dev/null; done
call RL.TOP COUNT 3

title "CL.THROTTLE: redis-cell's command, arguments and reply"
note "its first integer means the opposite: 0 passes, 1 is refused"
call CL.THROTTLE user:9 15 30 60

title "One burst against four limiters: 6 per second, a call every 50 ms while the crowd is there"
columns=64 tick_us=50000
crowd() { [ "$1" = 0 ] || { [ "$1" -ge 12 ] && [ "$1" -lt 29 ]; } || { [ "$1" -ge 44 ] && [ "$1" -lt 61 ]; }; }
rows=(TOKEN LEAKY SLIDE FIXED) lines=('' '' '' '') passed=(0 0 0 0) calls='' leaving=()
# One connection, and no process per call: the picture is to show the limiters' time and not the machine's.
exec {wire}<>"/dev/tcp/127.0.0.1/$port" {never}<> <(:)
now_us() { local now=${EPOCHREALTIME/[.,]/}; elapsed=$((now - start)); }
ask() { # The reply of one call, as numbers in reply[]
  local line i count
  printf '%s\r\n' "$*" >&$wire
  IFS= read -r -u $wire line
  count=${line//[!0-9]/} reply=()
  for ((i = 0; i < count; i++)); do
    IFS= read -r -u $wire line
    reply+=("${line//[!0-9-]/}")
  done
}
start=${EPOCHREALTIME/[.,]/}
while :; do
  now_us
  column=$((elapsed / tick_us))
  [ $column -lt $columns ] || break
  # A column that a busy machine made us miss stays empty.
  while [ ${#calls} -lt $column ]; do
    calls+=' '
    for i in 0 1 2 3; do lines[i]+=' '; done
  done
  if crowd $column; then
    calls+='|'
    for i in 0 1 2 3; do
      case ${rows[i]} in
        TOKEN | LEAKY) ask "RL.${rows[i]} p:${rows[i]} 6 6" ;;
        SLIDE | FIXED) ask "RL.${rows[i]} p:${rows[i]} 6 1s" ;;
      esac
      if [ "${reply[0]}" = 1 ]; then
        lines[i]+='.'
        passed[i]=$((passed[i] + 1))
      else
        lines[i]+='x'
      fi
      # When what LEAKY let in goes ahead, if the caller waits as told.
      if [ "${rows[i]}${reply[0]}" = LEAKY1 ]; then
        now_us
        leaving[(elapsed + reply[5] * 1000) / tick_us]=1
      fi
    done
  fi
  now_us
  wait_us=$(((column + 1) * tick_us - elapsed))
  [ $wait_us -le 0 ] || read -r -t "$(printf '0.%06d' $wait_us)" -u $never || true
done
departures=''
for ((column = 0; column < columns + 20; column++)); do
  [ -n "${leaving[column]:-}" ] && departures+='>' || departures+=' '
done
paint() { local text=${1//./$green.$plain}; printf '%s' "${text//x/${red}x$plain}"; }

printf '\n%-9s' 'seconds'
for ((column = 0; column < columns; column += 20)); do printf '%-20s' "$((column / 20))"; done
printf '\n%-9s%s\n' 'calls' "$calls"
for i in 0 1 2 3; do
  printf '%-9s%s%*s %2d passed\n' "${rows[i]}" "$(paint "${lines[i]}")" $((columns - ${#lines[i]})) '' "${passed[i]}"
  [ ${rows[i]} != LEAKY ] || printf '%-9s%s\n' '  leaves' "${departures%"${departures##*[! ]}"}"
done
printf '\n. passed   x refused   > a LEAKY call goes ahead after its delay\n'
cat <<'TEXT'
TOKEN and LEAKY give room back bit by bit; LEAKY also says when to go ahead, so that its work leaves evenly.
SLIDE holds in any second. FIXED counts from the first call of a window: a crowd across its edge gets twice
the limit in less than a second.

The server is gone again. Yours: make run
TEXT
