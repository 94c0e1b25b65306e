#!/usr/bin/env bash
# What the module and its tests are built from: every package from the registry with its checksum, under a
# licence that is on the list, and in the built module nothing twice that is not known to be. Needs cargo alone.
set -uo pipefail
cd "$(dirname "$0")/.."
. scripts/env.sh

failed=0
finding() { echo "supply: $*" >&2; failed=1; }
here() { cargo tree --locked --prefix none --target "$(rustc -vV | sed -n 's/^host: //p')" "$@"; }

# Of the alternatives that a package offers one must be on the list; of those that hold together each.
allowed=(MIT Apache-2.0 BSD-2-Clause BSD-3-Clause ISC Unlicense Unicode-3.0 BSL-1.0 Zlib 0BSD NCSA)
licence_ok() { # EXPRESSION
  local part one good
  while read -r part; do
    good=0
    while read -r one; do
      one=$(sed 's/^[( ]*//; s/[) ]*$//; s/ WITH .*//' <<<"$one")
      [[ " ${allowed[*]} " != *" $one "* ]] || good=1
    done < <(sed 's| OR |\n|g; s|/|\n|g' <<<"$part")
    [ $good = 1 ] || return 1
  done < <(sed 's| AND |\n|g' <<<"$1")
}

for lock in Cargo.lock tests/bench/Cargo.lock tests/clients/rust/Cargo.lock tests/fuzz/Cargo.lock examples/rust/Cargo.lock; do
  ! git rev-parse --git-dir >/dev/null 2>&1 || git ls-files --error-unmatch "$lock" >/dev/null 2>&1 ||
    finding "$lock is not committed"
  sources=$(grep -c '^source = ' "$lock") sums=$(grep -c '^checksum = ' "$lock")
  [ "$sources" = "$sums" ] || finding "$lock: $sources packages from elsewhere, $sums checksums"
  strange=$(grep '^source = ' "$lock" | grep -v '^source = "registry+' | sort -u)
  [ -z "$strange" ] || finding "$lock: not from a registry: $strange"
done

checked=0
while IFS='|' read -r package licence; do
  checked=$((checked + 1))
  case $package in redis-rl\ *) continue ;; esac
  licence_ok "$licence" || finding "$package: licence '$licence' is not on the list"
done < <(here -e normal,build,dev -f '{p}|{l}' | sed 's/ (\*)$//; s/ (proc-macro)|/|/' | sort -u)
[ $checked -gt 20 ] || finding "cargo tree lists only $checked packages"

# In the module itself: macros and build scripts may come in two versions, what is linked may not.
twice=$(here -e normal,no-proc-macro -d --depth 0 | sed 's/ (\*)$//; /^$/d' | sort -u)
known='bitflags v1.3.2
bitflags v2.13.2'
[ "$twice" = "$known" ] || finding "packages in two versions: ${twice:-none} (known: $known)"

[ $failed = 1 ] || echo "supply: $checked packages, all from the registry, licences on the list"
exit $failed
