#!/usr/bin/env bash
# Format, warnings, and the rules that no compiler knows. Goes on after a finding, fails at the end.
set -uo pipefail
cd "$(dirname "$0")/.."
. scripts/env.sh

failed=0
finding() { echo "lint: $*" >&2; failed=1; }
files() { git ls-files --cached --others --exclude-standard 2>/dev/null || find . -type f -not -path './target/*' -not -path './.git/*'; }
# Text files that people write: the lock file names where packages come from.
mapfile -t texts < <(files | grep -v '^Cargo\.lock$' | while read -r f; do [ ! -f "$f" ] || echo "$f"; done)

if cargo fmt --version >/dev/null 2>&1; then
  cargo fmt --check || finding "not formatted: make fmt"
  for package in $packages; do
    cargo fmt --all --check --manifest-path "$package/Cargo.toml" || finding "$package is not formatted: make fmt"
  done
else
  echo "lint: no rustfmt here, format not checked"
fi

if cargo clippy --version >/dev/null 2>&1; then
  cargo clippy --quiet --locked --all-targets -- -D warnings || finding "clippy has warnings"
  cargo clippy --quiet --locked --workspace --all-targets --manifest-path tests/bench/Cargo.toml \
    --target-dir "$target/bench" -- -D warnings || finding "clippy has warnings in the benchmark"
else
  echo "lint: no clippy here, checked by the compiler alone"
  RUSTFLAGS="${RUSTFLAGS:-} -D warnings" cargo check --quiet --locked --lib || finding "the compiler has warnings"
fi
# The targets as the fuzzer takes them. Checking links nothing: any path spares compiling the fuzzer itself.
CUSTOM_LIBFUZZER_PATH=$PWD/tests/fuzz/libfuzzer.a RUSTFLAGS="${RUSTFLAGS:-} -D warnings" cargo check --quiet --locked \
  --manifest-path tests/fuzz/Cargo.toml --target-dir "$target/fuzz-check" || finding "the fuzz targets do not build"
cargo check --quiet --locked --lib --no-default-features || finding "the core does not build without the server"

for rule in 'deny(unsafe_code)' clippy::unwrap_used clippy::expect_used clippy::indexing_slicing \
  clippy::arithmetic_side_effects clippy::panic; do
  grep -qF "$rule" src/lib.rs || finding "src/lib.rs no longer says $rule"
done

# Words in comments do not count.
unsafe=$(grep -rnw --include='*.rs' -e unsafe -e 'allow(unsafe_code)' src | grep -v '^src/server/' | grep -vE '^[^:]+:[0-9]+: *//')
[ -z "$unsafe" ] || finding "unsafe outside src/server:"$'\n'"$unsafe"

paths=$(grep -nIE '(^|[^A-Za-z0-9_.$})*])/(wor[k]|roo[t]|hom[e]/[a-z]|tmp/targe[t]|User[s])(/|\b)' -- "${texts[@]}")
[ -z "$paths" ] || finding "paths of one machine:"$'\n'"$paths"
hosts=$(grep -nIE '(index|static)\.crate[s]\.io|pyp[i]\.org|pythonhoste[d]|registry\.np[m]js|deb\.debia[n]\.org|archive\.ubunt[u]' -- "${texts[@]}")
[ -z "$hosts" ] || finding "names of registries:"$'\n'"$hosts"

markers=$(grep -nIE '^(<{7}|>{7}) ' -- "${texts[@]}")
[ -z "$markers" ] || finding "a merge left its marks:"$'\n'"$markers"

for script in $(printf '%s\n' "${texts[@]}" | grep -E '\.sh$|^\.ci/run$'); do
  bash -n "$script" || finding "$script is no shell script"
done

scripts/supply.sh || failed=1

[ $failed = 0 ] && echo "lint: clean"
exit $failed
