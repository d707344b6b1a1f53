#!/usr/bin/env bash
# Installs a CUDA toolkit for the build, on machines with a GPU but without a toolkit.
. "$(dirname "$0")/common.sh"

usage() {
  cat <<'HELP'
usage: tools/install_cuda.sh
Installs NVIDIA's toolkit 13.0 with cuDNN, cuBLAS, NCCL and NVRTC (packages and hashes: tools/cuda_packages.txt) by pip
into .third_party/cuda/, a virtual environment: 1.2 GB to download, 1.8 GB on the disk. A program that is built with it
finds its libraries there. If they are installed, the script does nothing. It needs python3 with venv; its programs need
an NVIDIA driver 580 or later.
HELP
}

case ${1:-} in
  '') ;;
  -h | --help) usage; exit 0 ;;
  *) usage_error "unknown option '$1'" ;;
esac

packages=$root/tools/cuda_packages.txt
to=$root/.third_party/cuda
if cmp -s "$packages" "$to/packages.txt"; then
  exit 0
fi

rm -rf "$to"
mkdir -p "$root/.third_party"
python3 -m venv "$to" >&2 || die "python3 cannot make a virtual environment: install python3-venv, and run this again"
say "downloading CUDA's toolkit and libraries (1.2 GB)"
"$to/bin/python3" -m pip install --quiet --disable-pip-version-check --no-deps --only-binary=:all: --require-hashes \
  --requirement "$packages" >&2 || die "pip cannot install the packages of tools/cuda_packages.txt: see above"
cp "$packages" "$to/packages.txt"
say "CUDA's toolkit is in ${to#"$root"/}"
