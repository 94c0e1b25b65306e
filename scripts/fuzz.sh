#!/usr/bin/env bash
# Fuzzes the targets of tests/fuzz one after the other, each for TIME seconds on one core. Needs cargo-fuzz,
# which it installs. Starts from the committed corpus; what it adds is kept in target/fuzz.
#   TIME=1200                      seconds per target
#   TARGETS="decode words calls"   only these
#   KEEP=1                         then puts the fewest inputs that reach all that was reached into tests/fuzz/corpus
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/env.sh
version=0.13.2

cargo fuzz --version 2>/dev/null | grep -qF " $version" || cargo install --locked cargo-fuzz --version "$version"
read -ra chosen <<<"${TARGETS:-decode words calls}"
work=$(realpath -m "$target/fuzz")
fuzz() { # TARGET ARGUMENTS...: without a sanitizer, since nothing in there is unsafe
  local name=$1
  shift
  cargo fuzz run --fuzz-dir tests/fuzz --target-dir "$work/build" -s none "$name" "$@"
}

for name in "${chosen[@]}"; do
  kept=tests/fuzz/corpus/$name found=$work/corpus/$name
  mkdir -p "$found" "$work/artifacts"
  flags=(-max_len=2048 -timeout=20 -rss_limit_mb=2048 "-artifact_prefix=$work/artifacts/$name-")
  [ ! -e "tests/fuzz/$name.dict" ] || flags+=("-dict=tests/fuzz/$name.dict")
  echo "== $name, ${TIME:-1200} s"
  fuzz "$name" "$found" "$kept" -- "${flags[@]}" -max_total_time="${TIME:-1200}" -print_final_stats=1
  [ -n "${KEEP:-}" ] || continue
  # Twice: the second pass takes the true fewest, but would be slow on all that was found. Inputs with a name
  # of their own, written by hand, stay.
  rm -rf "$work/few" "$work/fewest"
  mkdir -p "$work/few" "$work/fewest"
  fuzz "$name" "$work/few" "$kept" "$found" -- "${flags[@]}" -merge=1 -use_counters=0
  fuzz "$name" "$work/fewest" "$work/few" -- "${flags[@]}" -set_cover_merge=1 -use_counters=0
  find "$kept" -type f -regextype egrep -not -regex '.*/[0-9a-f]{40}' -exec cp {} "$work/fewest" ';'
  rm -rf "$kept"
  mv "$work/fewest" "$kept"
done
