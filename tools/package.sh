#!/usr/bin/env bash
# Makes packages that install the program without a compiler.
. "$(dirname "$0")/common.sh"

usage() {
  cat <<'HELP'
usage: tools/package.sh deb|wheel|bundle|all [--build DIR] [--output DIR] [--quick]
Builds the program, packs it, and prints the packages' paths.
  deb              a package for this distribution, whose libraries it uses; it needs dpkg-dev
  bundle           an archive for any folder of any distribution: tools/bundle.sh
  wheel            the bundle for pip, with the Python module cifar_train
  --build DIR      a build folder, which is packed as it is (build/release, which is built)
  --output DIR     where the packages go (the build folder)
  --quick          compress little, for tests
HELP
}

kinds=()
build=
output=
deb_compression=xz
wheel_compression=9
while [ $# -gt 0 ]; do
  case $1 in
    deb | wheel | bundle) kinds+=("$1") ;;
    all) kinds+=(deb bundle wheel) ;;
    --build | --output)
      [ $# -ge 2 ] || usage_error "$1 needs a value"
      mkdir -p "$2" || die "cannot write to $2"
      case $1 in
        --build) build=$(realpath "$2") ;;
        --output) output=$(realpath "$2") ;;
      esac
      shift
      ;;
    --quick) deb_compression=gzip wheel_compression=1 ;;
    -h | --help) usage; exit 0 ;;
    *) usage_error "unknown word '$1'" ;;
  esac
  shift
done
[ ${#kinds[@]} -gt 0 ] || usage_error "which package? deb, wheel, bundle or all"

if [ -z "$build" ]; then
  build=$root/build/release
  cuda_headers
  configure_preset release
  cmake --build "$build" --target cifar-train -j "$jobs" >&2 || die "the build failed: see the first error above"
fi
[ -x "$build/cifar-train" ] || die "there is no $build/cifar-train: build it first, or leave --build out"
: "${output:=$build}"
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT

# The date of all packed files, so that the same commit gives the same packages.
SOURCE_DATE_EPOCH=$(git -C "$root" log -1 --format=%ct 2>/dev/null) || SOURCE_DATE_EPOCH=$(stat -c %Y "$build/cifar-train")
export SOURCE_DATE_EPOCH

deb() {
  local tool
  for tool in cpack dpkg-deb dpkg-shlibdeps; do
    command -v "$tool" >/dev/null 2>&1 || die "there is no $tool: install cmake and dpkg-dev (Debian or Ubuntu)"
  done
  cpack -G DEB --config "$build/CPackConfig.cmake" -D "CPACK_DEBIAN_COMPRESSION_TYPE=$deb_compression" \
    -B "$temporary/deb" >"$temporary/log" 2>&1 ||
    { cat "$temporary/log" >&2; die "cpack failed: see above"; }
  put "$temporary"/deb/*.deb
}

archive=
bundle() {
  local version
  read -r _ version _ < <("$build/cifar-train" --version)
  archive=$output/cifar-train-$version-linux-$(uname -m).tar.xz
  "$root/tools/bundle.sh" --build "$build" --output "$archive"
}

wheel() {
  if [ -z "$archive" ]; then
    archive=$temporary/bundle.tar
    "$root/tools/bundle.sh" --build "$build" --output "$archive" >/dev/null
  fi
  put "$(python3 "$root/tools/package/wheel.py" "$archive" "$temporary" $wheel_compression)"
}

put() {  # put FILE: into the folder of the packages
  local to=$output/${1##*/}
  [ "$1" -ef "$to" ] || { cp "$1" "$to.part" && mv "$to.part" "$to"; } || die "cannot write $to"
  printf '%s\n' "$to"
}

for kind in "${kinds[@]}"; do "$kind"; done
