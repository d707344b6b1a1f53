# Sourced: NVIDIA GPUs and their driver, asked of the system's files, for there may be no driver. ROOT is the system's
# root, or a folder that imitates it.

# gpu_here ROOT: has this machine an NVIDIA GPU? By its device file (WSL's, too), or on the PCI bus.
gpu_here() {
  local root=${1%/} device
  for device in "$root"/dev/nvidia[0-9]* "$root"/dev/dxg; do
    [ ! -e "$device" ] || return 0
  done
  for device in "$root"/sys/bus/pci/devices/*; do
    if [ "$(cat "$device/vendor" 2>/dev/null)" = 0x10de ] && [[ $(cat "$device/class" 2>/dev/null) == 0x03* ]]; then
      return 0
    fi
  done
  return 1
}

# gpu_driver ROOT: the version of the driver that runs ("580.65.06"), or nothing.
gpu_driver() {
  cat "${1%/}/sys/module/nvidia/version" 2>/dev/null || true
}

# serves_cuda_13 DRIVER: can the driver run what toolkit 13 makes? One that is not there yet may be one that can.
serves_cuda_13() {
  [ -z "$1" ] || [ "${1%%.*}" -ge 580 ]
}

# gpu_architectures: for CMAKE_CUDA_ARCHITECTURES, what the GPUs that nvidia-smi shows can run ("90a-real"), or nothing
# where there is none or one that needs more than one kind of machine code or PTX.
gpu_architectures() {
  local capability found=() IFS=';'
  while read -r capability; do
    case $capability in
      8.*) [ "${found[*]-}" = 80-real ] || found+=(80-real) ;;
      9.0) found+=(90a-real) ;;
      10.*) [[ ${found[*]-} == *100-real ]] || found+=(100-real) ;;
      *) return 0 ;;
    esac
  done < <(timeout 20 nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | sort -u)
  printf '%s' "${found[*]-}"
}
