# Sourced: detects NVIDIA GPUs and their driver from the system's files, because there may be no driver. ROOT is the
# system's root, or a test's imitation of it.

# gpu_here ROOT: has this machine an NVIDIA GPU? Checks device files, WSL's driver and the PCI bus.
gpu_here() {
  local root=${1%/} device
  for device in "$root"/dev/nvidia[0-9]* "$root"/usr/lib/wsl/lib/libcuda.so.1; do
    [ ! -e "$device" ] || return 0
  done
  for device in "$root"/sys/bus/pci/devices/*; do
    if [ "$(cat "$device/vendor" 2>/dev/null)" = 0x10de ] && [[ $(cat "$device/class" 2>/dev/null) == 0x03* ]]; then
      return 0
    fi
  done
  return 1
}

# gpu_driver ROOT: the version of the loaded driver ("580.65.06"), or nothing.
gpu_driver() {
  cat "${1%/}/sys/module/nvidia/version" 2>/dev/null || true
}

# serves_cuda_13 DRIVER: can the driver run programs of toolkit 13? True without a driver, because a new one can be
# installed.
serves_cuda_13() {
  [[ ! $1 =~ ^([0-9]+) ]] || [ "${BASH_REMATCH[1]}" -ge 580 ]
}

# gpu_architectures: the value of CMAKE_CUDA_ARCHITECTURES for the GPUs that nvidia-smi lists ("90a-real"). Nothing
# without a GPU, or with one that needs the default architectures.
gpu_architectures() {
  local found
  found=$(timeout 20 nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null |
    sed -E 's/^8\..*/80-real/; s/^9\.0$/90a-real/; s/^10\..*/100-real/' | sort -u) || return 0
  ! grep -qv -- '-real$' <<<"$found" || return 0
  printf '%s' "${found//$'\n'/;}"
}
