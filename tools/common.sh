# Sourced by the other scripts: the tree's path, error messages, and settings of the build and mpirun.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
script=$(basename "$0")

say() { printf '%s: %s\n' "$script" "$*" >&2; }
die() { printf 'error: %s: %s\n' "$script" "$*" >&2; exit 1; }
usage_error() { printf 'error: %s: %s (see %s --help)\n' "$script" "$*" "$script" >&2; exit 2; }

# Open MPI refuses root, and more ranks than cores, without these variables.
if [ "$(id -u)" -eq 0 ]; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
export OMPI_MCA_rmaps_base_oversubscribe=1

jobs=$(nproc)

# CCACHE_BASEDIR and CCACHE_NOHASHDIR share ccache between clones in different folders. If its folder is not writable,
# the build does not use it.
if [ -z "${CMAKE_CXX_COMPILER_LAUNCHER:-}" ] && cache=$(ccache --get-config cache_dir 2>/dev/null) &&
  mkdir -p "$cache" 2>/dev/null && [ -w "$cache" ]; then
  export CMAKE_CXX_COMPILER_LAUNCHER=ccache CMAKE_CUDA_COMPILER_LAUNCHER=ccache CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1
  export CCACHE_SLOPPINESS=pch_defines,time_macros  # required by precompiled headers
fi

# configure_preset NAME [-DKEY=VALUE...]: quiet unless it fails.
configure_preset() {
  local log
  log=$(mktemp)
  if ! (cd "$root" && cmake --preset "$@" >"$log" 2>&1); then
    cat "$log" >&2
    rm -f "$log"
    die "cannot configure build/$1; if the folder came from elsewhere or another user, delete it and run again"
  fi
  grep -E '^CMake Warning|^-- with(out GPUs)?[ :]' "$log" >&2 || true
  rm -f "$log"
}

# fetch_wheel NAME VERSION HASH FOLDER PART...: downloads a package by pip, checked against its hash, and puts those files
# whose path in it matches a PART, a pattern with *, into .third_party/FOLDER. If they are there, it does nothing. Without
# pip or a network it exits with 77.
fetch_wheel() {
  local name=$1 version=$2 hash=$3 to=$root/.third_party/$4 python=python3 machine
  shift 4
  [ "$(cat "$to/version" 2>/dev/null)" != "$version" ] || return 0
  skip() { say "skipped: $*"; exit 77; }
  machine=$(uname -m)
  [ -n "$hash" ] || skip "there is no package $name for $machine"
  if ! python3 -m pip --version >/dev/null 2>&1; then
    python=$root/.third_party/python/bin/python3
    [ -x "$python" ] || python3 -m venv "$root/.third_party/python" >/dev/null 2>&1 ||
      skip "there is no pip: install python3-venv, and run this again"
  fi

  mkdir -p "$root/.third_party"
  work=$(mktemp -d "$root/.third_party/download.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  echo "$name==$version --hash=sha256:$hash" >"$work/requirements.txt"
  if ! "$python" -m pip download --retries 1 --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
    --require-hashes --python-version 3.11 --implementation cp --abi cp311 --abi none --platform "manylinux_2_28_$machine" \
    --platform "manylinux_2_17_$machine" --dest "$work" --requirement "$work/requirements.txt" >"$work/log" 2>&1; then
    if grep -q 'DO NOT MATCH THE HASHES' "$work/log"; then
      die "$name $version has a different hash from the expected one: compare it with the one in this script"
    fi
    skip "pip cannot download $name $version: $(grep -m 1 '^ERROR' "$work/log" || tail -n 1 "$work/log")"
  fi
  python3 - "$work" "$@" <<'PYTHON' || die "$name $version lacks the expected files"
import fnmatch, pathlib, sys, zipfile

work = pathlib.Path(sys.argv[1])
(wheel,) = work.glob("*.whl")
with zipfile.ZipFile(wheel) as files:
    for part in sys.argv[2:]:
        wanted = [name for name in files.namelist() if fnmatch.fnmatch(name, part)]
        if not wanted:
            sys.exit(1)
        files.extractall(work / "files", wanted)
PYTHON
  echo "$version" >"$work/files/version"
  rm -rf "$to"
  mv "$work/files" "$to"
  say "$name $version is in ${to#"$root"/}"
}

# cuda_headers: if there is a CUDA toolkit, installs cuDNN's frontend. If that fails, the build prints a message and the
# program is built without GPUs.
cuda_headers() {
  ! "$root/tools/cuda_roots.sh" >/dev/null 2>&1 || "$root/tools/install_cudnn_frontend.sh" || true
}
