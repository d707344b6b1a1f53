#!/usr/bin/env bash
# tests/system/kernel_code_test.py reads the compiled kernels with them.
. "$(dirname "$0")/common.sh"

declare -A hashes=(
  [cuobjdump.x86_64]=38780fee50863252a0b8926357faa91615ca1c8346490563f33a06100cd73f58
  [cuobjdump.aarch64]=f48e3148535365161a268547b285fd01d92c80e4b457275375933825b5fc26b2
  [nvdisasm.x86_64]=d3fdbdd49fa53e2e4aacd3db8259d052bd2b049ececdcb69e92e083c6728e7ca
  [nvdisasm.aarch64]=a3a8248074edb9fba63b74c38a5416b712a91ab09e70b8ab37186c3d293fc605
)

usage() {
  cat <<'HELP'
usage: tools/install_cuobjdump.sh
Downloads NVIDIA's cuobjdump and nvdisasm by pip, checked against fixed hashes, into .third_party/cuobjdump/ and
.third_party/nvdisasm/. Without pip or a network it exits with 77.
HELP
}

case ${1:-} in
  '') ;;
  -h | --help) usage; exit 0 ;;
  *) usage_error "unknown option '$1'" ;;
esac
for tool in cuobjdump nvdisasm; do
  # a process of its own, which removes what it downloaded when it ends
  (fetch_wheel "nvidia-cuda-$tool" 13.5.37 "${hashes[$tool.$(uname -m)]:-}" "$tool" "*/bin/$tool")
  chmod +x "$root/.third_party/$tool/nvidia/cu13/bin/$tool"
done
