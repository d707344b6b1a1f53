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

# cuda_headers: if there is a CUDA toolkit, installs cuDNN's frontend. If that fails, the build prints a message and the
# program is built without GPUs.
cuda_headers() {
  ! "$root/tools/cuda_roots.sh" >/dev/null 2>&1 || "$root/tools/install_cudnn_frontend.sh" || true
}
