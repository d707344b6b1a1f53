#!/usr/bin/env bash
# Compiles the CUDA kernels and their benchmark with nvcc for every GPU that is supported; with --all their tests on a
# GPU, too. Needs a toolkit of 12.8 or later, but no GPU. Exits with 77 where there is no nvcc.
set -euo pipefail
cd "$(dirname "$0")/.."
targets=(--target ct_kernels --target kernel_benchmark)
case ${1:-} in
  '') ;;
  --all) targets=() ;;
  *) echo "usage: tools/build_kernels.sh [--all]" >&2; exit 2 ;;
esac
if ! PATH="$PATH:${CUDA_HOME:-/usr/local/cuda}/bin" command -v nvcc >/dev/null; then
  echo "skipped: there is no nvcc in PATH, CUDA_HOME or /usr/local/cuda"
  exit 77
fi
cmake --preset kernels
cmake --build --preset kernels ${targets[@]+"${targets[@]}"}
