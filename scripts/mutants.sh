#!/usr/bin/env bash
# Changes the pure core in one place at a time and asks whether a test notices: first the core's own quick tests,
# then, for what they let pass, the sequences against the exact model (tests/fuzz). Needs cargo-mutants, which
# it installs. What both let pass is in target/mutants/mutants.out/missed.txt; fails if there is any.
#   FILES="level slide log/mod"   only these of src/limit
#   SHARD=0/8                     only every eighth mutant, from the first on
set -uo pipefail
cd "$(dirname "$0")/.."
. scripts/env.sh
version=25.0.0
cargo mutants --version 2>/dev/null | grep -qF " $version" || cargo install --locked cargo-mutants --version "$version" || exit 1

work=$(realpath -m "$target/mutants")
mkdir -p "$work"
rm -rf "$work/mutants.out"
chosen=()
for name in ${FILES:-algorithm blocks bytes change codec checksum few fixed inspect layers leaky level limiter log/mod log/ring log/store mod position refund slide solo steady time token write}; do
  chosen+=(--file "src/limit/$name.rs")
done
# Changes that cannot show: `^` joins bits that are apart as `|` does; the others only make work longer (a log
# entered piece by piece where whole blocks would do, a copy made where a look would do, a false length found at
# the end of the bytes and not at their beginning, a large number written as one for longer than it must be) or are output for debugging.
same=(
  --exclude-re '(bytes|codec|change|log/mod)\.rs:.* replace \|=? with \^=? in '
  --exclude-re 'blocks\.rs:.* replace (&&|>|==) with .* in reshape'
  --exclude-re 'change\.rs:.* replace > with .* in leaves_some'
  --exclude-re 'codec\.rs:.* replace >> with << in read_log'
  --exclude-re 'bytes\.rs:.* replace >> with << in Bytes::u128'
  --exclude-re 'impl Debug for'
)
# Nobody reads the traces of mutants.
export CARGO_TARGET_DIR=$work CARGO_PROFILE_DEV_DEBUG=false CARGO_PROFILE_TEST_DEBUG=false RL_FUZZ_RUNS=${RL_FUZZ_RUNS:-30}
mutants() { cargo mutants --output "$work" --jobs 1 --no-default-features --no-shuffle --iterate "${chosen[@]}" "${same[@]}" ${SHARD:+--shard "$SHARD"} "$@"; }
mutants --timeout 30 --cargo-arg=--lib -- -- --skip large_log --skip damaged
# A test that no longer ends has noticed.
cat "$work/mutants.out/timeout.txt" >>"$work/mutants.out/caught.txt"
mutants --timeout 30 --cargo-arg=--test=fuzz -- -- replay
