# Sourced. Packages of any Debian suite, downloaded and unpacked below $dir and not installed. The mirror is the one that
# the machine's own apt uses; its package lists are kept apart from the machine's.
lib=usr/lib/x86_64-linux-gnu

suite() { # SUITE: apt's options for the package lists of that suite, in apt[]
  local state=$dir/raw/apt/$1 mirror part suites
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Component: main' |
    grep -v security | head -1)
  [ -n "$mirror" ] || { echo "no Debian mirror in this machine's apt"; return 1; }
  case $1 in
    experimental) suites="sid experimental" ;;
    *-backports) suites="${1%-backports} $1" ;;
    *) suites=$1 ;;
  esac
  mkdir -p "$state"/{lists/partial,cache/archives/partial,etc}
  : >"$state/status"
  for part in $suites; do echo "deb $mirror $part main"; done >"$state/etc/sources.list"
  apt=(-o "Dir::Etc::sourcelist=$state/etc/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State=$state"
    -o "Dir::State::status=$state/status" -o "Dir::State::lists=$state/lists" -o "Dir::Cache=$state/cache"
    -o "APT::Default-Release=$1" -o Acquire::Languages=none -o Acquire::Retries=3
    -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false)
  [ "$(id -u)" != 0 ] || apt+=(-o APT::Sandbox::User=root)
  [ -e "$state/fetched" ] || { apt-get "${apt[@]}" -qq update && touch "$state/fetched"; }
}

unpack() { # DIR PACKAGE...
  local to=$1 deb
  shift
  mkdir -p "$to/debs"
  (cd "$to/debs" && apt-get "${apt[@]}" -qq download "$@")
  for deb in "$to"/debs/*.deb; do dpkg -x "$deb" "$to"; done
  rm -rf "$to/debs" "$to"/usr/share/{doc,locale,man}
  # One place for libraries, whether or not the suite has merged /lib into /usr.
  [ ! -d "$to/lib/x86_64-linux-gnu" ] || [ -L "$to/lib" ] || { mkdir -p "$to/$lib" && cp -an "$to"/lib/x86_64-linux-gnu/. "$to/$lib/"; }
}
