#!/usr/bin/env bash
# Compiles the CUDA kernels and what runs them on a GPU, by the preset kernels. Exits with 77 where there is no nvcc.
. "$(dirname "$0")/common.sh"

usage() {
  cat <<'HELP'
usage: tools/build_kernels.sh [--all]
Compiles the CUDA kernels and their benchmark with nvcc for every GPU that is supported, into build/kernels. It needs a
CUDA toolkit of 12.8 or later, but no GPU. The toolkit is the first of CUDA_HOME, nvcc in PATH, /usr/local/cuda and
Python's packages (pip install nvidia-cuda-nvcc nvidia-cuda-runtime nvidia-cuda-cccl). Exit code 77: there is none.
  --all    their tests on a GPU, too (they need GoogleTest)
HELP
}

targets=(--target ct_kernels --target kernel_benchmark)
case ${1:-} in
  '') ;;
  --all) targets=() ;;
  -h | --help) usage; exit 0 ;;
  *) usage_error "unknown option '$1'" ;;
esac

if ! "$root/tools/cuda_roots.sh" >/dev/null; then
  say "skipped: there is no nvcc in CUDA_HOME, PATH, /usr/local/cuda or Python's packages"
  exit 77
fi
configure_preset kernels
cmake --build "$root/build/kernels" ${targets[@]+"${targets[@]}"} -j "$jobs" >&2 ||
  die "the build failed: see the first error above"
