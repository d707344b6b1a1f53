#!/usr/bin/env bash
# Builds the program in two folders and compares the results.
. "$(dirname "$0")/common.sh"

usage() {
  cat <<'HELP'
usage: tools/reproducible_build.sh [--without-cuda]
Builds cifar-train of the committed tree twice, in two clones with paths of different length and without ccache, and
prints one hash if both programs are equal. It takes as long as two full builds.
  --without-cuda  the program for CPUs alone
HELP
}

options=()
while [ $# -gt 0 ]; do
  case $1 in
    --without-cuda) options=(-DCT_WITH_CUDA=OFF) ;;
    -h | --help) usage; exit 0 ;;
    *) usage_error "unknown option '$1'" ;;
  esac
  shift
done

temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
programs=()
for folder in "$temporary/a" "$temporary/another folder with a longer name"; do
  git clone -q "$root" "$folder"
  if [ -d "$root/.third_party" ]; then ln -s "$root/.third_party" "$folder/.third_party"; fi
  say "building in $folder"
  CCACHE_DISABLE=1 cmake -S "$folder" -B "$folder/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCT_UNITY=ON \
    -DCT_BUILD_TESTS=OFF ${options[@]+"${options[@]}"} >&2 || die "cmake failed in $folder"
  CCACHE_DISABLE=1 cmake --build "$folder/build" -j "$jobs" --target cifar-train >&2 || die "the build failed in $folder"
  programs+=("$folder/build/cifar-train")
done
if ! cmp "${programs[@]}"; then
  die "the two programs differ"
fi
sha256sum "${programs[0]}" | cut -d' ' -f1
