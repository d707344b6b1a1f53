#!/usr/bin/env bash
# tests/system/kernel_code_test.py reads the compiled kernels with it.
. "$(dirname "$0")/common.sh"

declare -A hashes=(
  [x86_64]=38780fee50863252a0b8926357faa91615ca1c8346490563f33a06100cd73f58
  [aarch64]=f48e3148535365161a268547b285fd01d92c80e4b457275375933825b5fc26b2
)

usage() {
  cat <<'HELP'
usage: tools/install_cuobjdump.sh
Downloads NVIDIA's cuobjdump by pip, checked against a fixed hash, into .third_party/cuobjdump/. Without pip or a network
it exits with 77.
HELP
}

case ${1:-} in
  '') ;;
  -h | --help) usage; exit 0 ;;
  *) usage_error "unknown option '$1'" ;;
esac
fetch_wheel nvidia-cuda-cuobjdump 13.5.37 "${hashes[$(uname -m)]:-}" cuobjdump '*/bin/cuobjdump'
chmod +x "$root"/.third_party/cuobjdump/nvidia/cu13/bin/cuobjdump
