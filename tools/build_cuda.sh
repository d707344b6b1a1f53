#!/usr/bin/env bash
# Builds the program with GPUs into build/cuda, for every GPU that is supported, and tries what can be tried without
# one: it needs no library of CUDA's to start, and says in one line that there is no GPU. Exits with 77 where there is
# no nvcc, or no network to get cuDNN's frontend from.
. "$(dirname "$0")/common.sh"

usage() {
  cat <<'HELP'
usage: tools/build_cuda.sh
Builds build/cuda/cifar-train by the preset cuda and tries it without a GPU. It needs a CUDA toolkit of 12.8 or later
with the headers of cuDNN 9, NCCL, cuBLAS, NVRTC and NVTX; those of cuDNN's frontend it downloads by pip, once. They are
sought in CUDA_HOME, beside the nvcc in PATH, in /usr/local/cuda and in Python's packages (pip install nvidia-cuda-nvcc
nvidia-cuda-runtime nvidia-cuda-cccl nvidia-cuda-nvrtc nvidia-cublas nvidia-nvtx nvidia-cudnn-cu13 nvidia-nccl-cu13).
Exit code 77: there is no nvcc, or no network to get the frontend from.
HELP
}

case ${1:-} in
  '') ;;
  -h | --help) usage; exit 0 ;;
  *) usage_error "unknown option '$1'" ;;
esac

skip() { say "skipped: $*"; exit 77; }

"$root/tools/cuda_roots.sh" >/dev/null ||
  skip "there is no nvcc in CUDA_HOME, PATH, /usr/local/cuda or Python's packages"
"$root/tools/install_cudnn_frontend.sh"

say "building (build/cuda)"
configure_preset cuda
cmake --build "$root/build/cuda" --target cifar-train -j "$jobs" >&2 ||
  die "the build failed: see the first error above"

program=$root/build/cuda/cifar-train
libraries=$(ldd "$program")
if grep -iE 'not found|lib(cuda|cudart|cudnn|cublas|nccl|nvrtc|nvjitlink|nvidia)' <<<"$libraries" >&2; then
  die "$program needs these to start"
fi
# Nor does it look for one to say what it is.
said=$(LD_DEBUG=libs "$program" --version 2>&1) && grep -q '^GPUs: CUDA [0-9.]* for sm_' <<<"$said" ||
  die "$program --version does not tell of CUDA"
if grep -iE '(calling init:.*/|find library=)lib(cuda|cudnn|cublas|nccl|nvrtc|nvidia)' <<<"$said" >&2; then
  die "$program --version opens these"
fi
"$program" --help >/dev/null || die "$program --help fails"

output=$(mktemp -d)
trap 'rm -rf "$output"' EXIT
status=0
words=(train --config "$root/configs/linear.yaml" --device cuda --output "$output/run")
said=$(CUDA_VISIBLE_DEVICES='' "$program" "${words[@]}" 2>&1) || status=$?
[ $status -eq 2 ] && [[ $said == 'error: device: cuda: '* ]] && [ "$(wc -l <<<"$said")" -eq 1 ] ||
  die "without a GPU, $program train --device cuda ended with exit code $status and said: $said"
[ ! -e "$output/run" ] || die "without a GPU, $program train --device cuda has left files behind"
say "$program starts without CUDA's libraries, and without a GPU it says: $said"
