#!/usr/bin/env bash
# Installs what building and running need and this machine lacks; says nothing where nothing is missing.
# setup.sh servers: also what fetching the other servers needs. setup.sh clients: also the Python that runs the programs
# of tests/clients, which install the rest. setup.sh sanitize: also what watches a server. setup.sh fuzz: also the C++ that
# the fuzzer is compiled with. setup.sh coverage: also the LLVM of this rustc. setup.sh lint: also cargo-deny, without which
# the lint does less.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/env.sh

has() { command -v "$1" >/dev/null; }
say() { echo "setup: $*" >&2; }
die() { say "$@"; exit 1; }
any() { compgen -G "$1" >/dev/null; }
at_least() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -1)" = "$1" ]; }

rust_needed=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
rust_is_new() { has cargo && has rustc && at_least "$rust_needed" "$(rustc --version 2>/dev/null | cut -d' ' -f2)"; }
# The bindings are made at build time, by libclang and with its headers.
libclang_is_there() {
  [ -n "${LIBCLANG_PATH:-}" ] ||
    { any '/usr/lib*/llvm*/lib*/libclang[.-][s0-9]*' && any '/usr/lib*/llvm*/lib*/clang/*/include/stddef.h'; } ||
    { any '/usr/lib*/libclang[.-][s0-9]*' && any '/usr/lib*/clang/*/include/stddef.h'; }
}

missing=() # packages, by Debian's names
has "$server" || missing+=(redis-server)
has redis-cli || missing+=(redis-tools)
{ has cc && any '/usr/include/stdio.h'; } || missing+=(gcc libc6-dev)
libclang_is_there || missing+=(libclang-dev)
rust_is_new || missing+=(rustc cargo)
any '/etc/ssl/cert*' && { any '/etc/ssl/certs/ca-*' || any '/etc/ssl/cert.pem'; } || missing+=(ca-certificates)
[ "${1:-}" != clients ] || has python3 || missing+=(python3)
if [ "${1:-}" = servers ]; then
  python3 -c 'import importlib.util as u; exit(not u.find_spec("pip"))' 2>/dev/null || missing+=(python3 python3-pip)
fi
[ "${1:-}" != sanitize ] || has valgrind || missing+=(valgrind)
[ "${1:-}" != fuzz ] || has c++ || missing+=(g++)
if [ "${1:-}" = coverage ] && rust_is_new; then
  llvm=$(rustc -vV | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p')
  has "llvm-cov-$llvm" || missing+=("llvm-$llvm")
fi

rustup_word="the Rust here is missing or too old. Rust $rust_needed or later is needed: install it with rustup (https://rustup.rs), or run 'rustup update'"
# Puts the packages of a Rust that is new enough in the place of rustc and cargo. Debian keeps a second, newer
# one under names that end in -web. What formats is for the lint, which goes without where there is none.
rust_packages() {
  local kind offered
  for kind in '' -web; do
    offered=$(LC_ALL=C apt-cache policy "rustc$kind" 2>/dev/null | sed -n 's/^ *Candidate: //p')
    [ -n "$offered" ] && [ "$offered" != '(none)' ] && at_least "$rust_needed" "$offered" || continue
    missing=("${missing[@]/%rustc/rustc$kind}")
    missing=("${missing[@]/%cargo/cargo$kind}")
    [ -z "$(apt-cache search -n "^rustfmt$kind\$")" ] || missing+=("rustfmt$kind")
    return 0
  done
  return 1
}

install() {
  has apt-get || die "missing: ${missing[*]} (Debian's names). Without apt-get nothing is installed here; please install them."
  local root=()
  if [ "$(id -u)" != 0 ]; then
    has sudo || die "missing: ${missing[*]}. Run as root, or install them."
    root=(sudo)
  fi
  say "installing what is missing: ${missing[*]}"
  "${root[@]}" apt-get -qq update || say "apt-get update had errors, going on"
  if ! rust_is_new; then
    ! has rustup || die "$rustup_word"
    rust_packages || die "$rustup_word"
  fi
  # The server must not start as a service: the tests and the demo start their own.
  local policy=/usr/sbin/policy-rc.d log
  if [[ " ${missing[*]} " == *" redis-server "* ]] && [ ! -e $policy ]; then
    printf '#!/bin/sh\nexit 101\n' | "${root[@]}" tee $policy >/dev/null
    "${root[@]}" chmod +x $policy
    trap "${root[*]} rm -f $policy" EXIT
  fi
  log=$(mktemp)
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >"$log" 2>&1 ||
    { tail -20 "$log" >&2; die "apt-get could not install ${missing[*]}"; }
  rm -f "$log"
  if [[ " ${missing[*]} " == *" redis-server "* ]] && [ -d /run/systemd/system ]; then
    "${root[@]}" systemctl disable -q redis-server 2>/dev/null || true
  fi
  hash -r
}

[ ${#missing[@]} = 0 ] || install
rust_is_new || die "$rustup_word"
if [ "${1:-}" = lint ]; then
  deny=0.20.2 # or later
  has_deny=$(cargo deny --version 2>/dev/null | cut -d' ' -f2) || has_deny=0
  if ! at_least $deny "$has_deny"; then
    say "installing cargo-deny $deny, once: a minute or two"
    # Not optimised: it compiles in half the time, and runs for less than a second.
    CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
      cargo install --quiet --locked cargo-deny --version $deny || say "cargo-deny could not be installed, going on without"
  fi
fi
version=$("$server" --version | sed -n 's/.*v=\([0-9.]*\).*/\1/p')
at_least 7.0 "${version:-0}" ||
  die "$server is version ${version:-unknown}; Redis 7.0 or Valkey 7.2 or later is needed (RL_SERVER=path names another)"
