#!/usr/bin/env bash
# The hostile-input and replication tests on the installed server, watched: once with the module built for
# AddressSanitizer, once under valgrind. Any wrong access and any definite leak fails.
#   sanitize.sh [asan|valgrind]     both without a word
#   TESTS="hostile replication"     only these test files
set -uo pipefail
cd "$(dirname "$0")/.."
. scripts/env.sh

read -ra halves <<<"${*:-asan valgrind}"
read -ra tests <<<"${TESTS:-hostile hostile_bytes replication equal_state}"
flags=()
for test in "${tests[@]}"; do flags+=(--test "$test"); done
dir=$(realpath -m "$target/sanitize")
program=$(realpath -s "$(command -v "$server")")

# What the tests start in place of the server. A file there in the end is a finding.
watched() { # HALF LINE...
  rm -rf "${dir:?}/$1"
  mkdir -p "$dir/$1/reports"
  printf '%s\n' '#!/bin/sh' "${@:2}" >"$dir/$1/server"
  chmod +x "$dir/$1/server"
}

host=$(rustc -vV | sed -n 's/^host: //p')
so=$(realpath -m "$target/$host/release/libredis_rl.so")
# With --target the flags are for the module alone and not for what builds it.
build() { # FLAGS
  RUSTFLAGS="$1 -Cdebuginfo=line-tables-only" CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
    cargo build --release --lib --locked --target "$host" --target-dir "$target"
}

asan() {
  local libasan
  libasan=$(realpath "$(cc -print-file-name=libasan.so)")
  # The compiler has the sanitizer built in, but on a stable one it has to be asked for.
  RUSTC_BOOTSTRAP=1 build -Zsanitizer=address || return 1
  grep -q __asan_report "$so" || { echo "sanitize: the module was not built for the sanitizer" >&2; return 1; }
  # Leaks are valgrind's part.
  watched asan "export ASAN_OPTIONS=detect_leaks=0:log_path=$dir/asan/reports/report" \
    "LD_PRELOAD=$libasan:\$LD_PRELOAD exec $program \"\$@\""
}

valgrind() {
  local kind
  # An optimiser looks at fields before it is known whether they are set, where that makes no difference in the
  # end. Valgrind cannot know; it sees the program as it is written.
  CARGO_PROFILE_RELEASE_OPT_LEVEL=0 build "" || return 1
  # The compressor of the server looks at memory that it has not set, and does not mind what it finds there.
  for kind in Cond Value8; do
    printf '{\n lzf\n Memcheck:%s\n fun:lzf_compress\n}\n' $kind
  done >"$target/sanitize-valgrind.supp"
  watched valgrind "exec valgrind --quiet --child-silent-after-fork=yes --leak-check=full --show-leak-kinds=definite \\" \
    "  --errors-for-leak-kinds=definite --suppressions=$(realpath "$target/sanitize-valgrind.supp") \\" \
    "  --log-file=$dir/valgrind/reports/report.%p $program \"\$@\""
  export RL_SHARE=${RL_SHARE:-20} RL_RANDOM_CALLS=${RL_RANDOM_CALLS:-2000}
}

failed=0
for half in "${halves[@]}"; do
  $half || exit 1
  log=$dir/$half/log begin=$SECONDS
  # A server that is killed tells of no leaks: here it ends by itself wherever a test does not want it killed.
  RL_END_GENTLY=1 RL_PATIENCE=10 RL_SERVER=$dir/$half/server RL_MODULE=$so \
    cargo test --locked --no-fail-fast "${flags[@]}" 2>&1 | tee "$log"
  find "$dir/$half/reports" -type f -empty -delete
  reports=("$dir/$half"/reports/*)
  [ -e "${reports[0]}" ] || reports=()
  counts=$(scripts/test-results.sh "$log") || failed=1
  echo "== $half, $("$program" --version | cut -d' ' -f1-3): $counts, ${#reports[@]} reports, $((SECONDS - begin)) s"
  if [ ${#reports[@]} -gt 0 ]; then
    head -60 "${reports[@]}"
    failed=1
  fi
done
exit $failed
