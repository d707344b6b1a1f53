# Sourced by the scripts beside it: where the tree is, how errors look, what the build and mpirun want to hear.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
script=$(basename "$0")

say() { printf '%s: %s\n' "$script" "$*" >&2; }
die() { printf 'error: %s: %s\n' "$script" "$*" >&2; exit 1; }
usage_error() { printf 'error: %s: %s (see %s --help)\n' "$script" "$*" "$script" >&2; exit 2; }

# OpenMPI refuses root, and more ranks than cores, unless told otherwise.
if [ "$(id -u)" -eq 0 ]; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
export OMPI_MCA_rmaps_base_oversubscribe=1

jobs=$(nproc)

# ccache serves every clone on a machine alike, so paths above the tree do not count. Where it cannot write, we build
# without it.
if [ -z "${CMAKE_CXX_COMPILER_LAUNCHER:-}" ] && cache=$(ccache --get-config cache_dir 2>/dev/null) &&
  mkdir -p "$cache" 2>/dev/null && [ -w "$cache" ]; then
  export CMAKE_CXX_COMPILER_LAUNCHER=ccache CMAKE_CUDA_COMPILER_LAUNCHER=ccache CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1
  export CCACHE_SLOPPINESS=pch_defines,time_macros  # what precompiled headers need
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

# cuda_headers: where there is a toolkit, what its packages lack. Without it the program is built without GPUs, and the
# build says so.
cuda_headers() {
  ! "$root/tools/cuda_roots.sh" >/dev/null 2>&1 || "$root/tools/install_cudnn_frontend.sh" || true
}
