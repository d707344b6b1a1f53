#!/usr/bin/env bash
# Only a build with GPUs needs these headers.
. "$(dirname "$0")/common.sh"

# Hashes of the package of one Python version; all have the same headers.
declare -A hashes=(
  [x86_64]=c6006556017a4d1c914c52a556c71b1267f2d6a0500f742e7b4edef539878df0
  [aarch64]=15736b7f9eb12ea04bd78ebcc64ae654891ae496d8cb3788e721330ac7b07b9b
)

usage() {
  cat <<'HELP'
usage: tools/install_cudnn_frontend.sh
Downloads the headers of cuDNN's C++ frontend by pip, checked against a fixed hash, into .third_party/cudnn-frontend/,
where CMake finds them. Without pip or a network it exits with 77.
HELP
}

case ${1:-} in
  '') ;;
  -h | --help) usage; exit 0 ;;
  *) usage_error "unknown option '$1'" ;;
esac
fetch_wheel nvidia-cudnn-frontend 1.32.0 "${hashes[$(uname -m)]:-}" cudnn-frontend \
  'include/cudnn_frontend.h' 'include/*' '*.dist-info/licenses/*'
