#!/usr/bin/env bash
# go-redis.sh DIR: brings go-redis and a Go that is new enough for it into DIR and builds the library. DIR/go then behaves
# like go, and what it runs can import github.com/redis/go-redis/v9. Nothing is installed on the machine. Debian packages
# go-redis in a suite that moves: the version is what it is that day, and some day it may need a newer Go than this.
set -euo pipefail

here=$(dirname "$(realpath "$0")")
dir=$(mkdir -p "$1" && cd "$1" && pwd)
. "$here/../../debian.sh"
root=$dir/files
if [ ! -e "$root/complete" ]; then
  rm -rf "$root"
  suite sid
  unpack "$root" golang-github-redis-go-redis-dev golang-github-dgryski-go-rendezvous-dev
  suite bookworm-backports
  unpack "$root" golang-1.23-go golang-1.23-src golang-github-cespare-xxhash-dev
  touch "$root/complete"
fi

modules=$root/usr/share/gocode/src/github.com
[ -e "$modules/dgryski/go-rendezvous/go.mod" ] || echo 'module github.com/dgryski/go-rendezvous' >"$modules/dgryski/go-rendezvous/go.mod"
cat >"$dir/go.mod" <<END
module clients
go 1.18
require github.com/redis/go-redis/v9 v9.0.0
replace github.com/redis/go-redis/v9 => $modules/redis/go-redis
require github.com/cespare/xxhash/v2 v2.0.0
replace github.com/cespare/xxhash/v2 => $modules/cespare/xxhash
require github.com/dgryski/go-rendezvous v0.0.0
replace github.com/dgryski/go-rendezvous => $modules/dgryski/go-rendezvous
END
cat >"$dir/go" <<END
#!/bin/sh
export GOROOT=$root/usr/lib/go-1.23 GOPATH=$dir/path GOCACHE=$dir/cache GOENV=off GO111MODULE=on
export GOFLAGS=-mod=mod GOPROXY=off GOSUMDB=off GOTOOLCHAIN=local CGO_ENABLED=0
cd $dir && exec $root/usr/lib/go-1.23/bin/go "\$@"
END
chmod +x "$dir/go"
"$dir/go" build github.com/redis/go-redis/v9
