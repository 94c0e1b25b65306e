#!/usr/bin/env bash
# What the module, its tests and its examples are built from: every lock file committed, every package in it from
# the registry and with its checksum, and what deny.toml says of licences and of versions, where there is
# cargo-deny: scripts/setup.sh lint installs it.
set -uo pipefail
cd "$(dirname "$0")/.."
. scripts/env.sh

failed=0
finding() { echo "supply: $*" >&2; failed=1; }
host=$(rustc -vV | sed -n 's/^host: //p')
# DIRECTORY FLAGS...: without the packages of other systems, which need not be fetched then.
deny() {
  cargo deny --log-level error --config deny.toml --locked --target "$host" --manifest-path "$1/Cargo.toml" \
    check -D warnings "${@:2}" licenses bans sources >/dev/null || finding "$1/Cargo.toml: cargo-deny objects"
}

read -ra places <<<". $packages"
for package in "${places[@]}"; do
  lock=$package/Cargo.lock
  ! git rev-parse --git-dir >/dev/null 2>&1 || git ls-files --error-unmatch "$lock" >/dev/null 2>&1 ||
    finding "$lock is not committed"
  sources=$(grep -c '^source = ' "$lock") sums=$(grep -c '^checksum = ' "$lock")
  [ "$sources" = "$sums" ] || finding "$lock: $sources packages from elsewhere, $sums checksums"
  strange=$(grep '^source = ' "$lock" | grep -v '^source = "registry+' | sort -u)
  [ -z "$strange" ] || finding "$lock: not from a registry: $strange"
done

if cargo deny --version >/dev/null 2>&1; then
  # The versions that may be there twice are those of the module. The others need not have them.
  deny .
  for package in "${places[@]:1}"; do deny "$package" -A unmatched-skip; done
  checked="licences on the list, nothing twice that is not known to be"
else
  checked="no cargo-deny here, licences and versions not checked"
fi

all=$(awk '/^name = / { name = $3 } /^version = / { of = $3 } /^source = / && !seen[name of]++ { n++ } END { print n }' \
  "${places[@]/%//Cargo.lock}")
[ $failed = 1 ] || echo "supply: $all packages, all from the registry; $checked"
exit $failed
