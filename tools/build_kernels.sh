#!/usr/bin/env bash
# Compiles the CUDA kernels with nvcc for every GPU that is supported; needs a toolkit of 12.8 or later, but no GPU.
# Exits with 77 where there is no nvcc.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! PATH="$PATH:${CUDA_HOME:-/usr/local/cuda}/bin" command -v nvcc >/dev/null; then
  echo "skipped: there is no nvcc in PATH, CUDA_HOME or /usr/local/cuda"
  exit 77
fi
cmake --preset kernels
cmake --build --preset kernels
