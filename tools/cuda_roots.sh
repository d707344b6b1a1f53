#!/usr/bin/env bash
# Prints the folders with CUDA's toolkit or parts of it, one per line. The first folder has the nvcc of the build: the
# first nvcc found of version 12.8 or later (for sm_100). The search order is .third_party/cuda (from
# tools/install_cuda.sh), CUDA_HOME (set by modules), the folder of the nvcc in PATH, /usr/local/cuda, and nvidia/* in
# the packages of VIRTUAL_ENV and of the python3 in PATH (from pip). Without a toolkit the exit status is 1. Toolkits
# that are too old are listed on stderr.
set -uo pipefail
least=12.8

candidates() {
  local python own
  own=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/.third_party/cuda
  [ ! -f "$own/packages.txt" ] || printf '%s\n' "$own"/lib/python3*/site-packages/nvidia/*  # else incomplete
  printf '%s\n' "${CUDA_HOME:-}"
  nvcc --dryrun -x cu /dev/null 2>&1 | sed -n 's/^#\$ TOP=//p'  # the real folder, also for a link or a wrapper
  printf '%s\n' /usr/local/cuda
  for python in ${VIRTUAL_ENV:+"$VIRTUAL_ENV/bin/python3"} python3; do
    "$python" - 2>/dev/null <<'PYTHON'
import glob, os, sys
for packages in filter(os.path.isabs, sys.path):
    print(*sorted(glob.glob(os.path.join(glob.escape(packages), "nvidia", "*"))), sep="\n")
PYTHON
  done
}

roots=()
toolkit=
while read -r folder; do
  folder=$(realpath -q "$folder") && [ -d "$folder" ] || continue
  roots+=("$folder")
  if [ -z "$toolkit" ] && [ -x "$folder/bin/nvcc" ]; then
    version=$("$folder/bin/nvcc" --version 2>/dev/null | sed -n 's/.*, V\([0-9]*\.[0-9]*\).*/\1/p')
    if [ "$(printf '%s\n' $least "${version:-0}" | sort -V | head -n 1)" = $least ]; then
      toolkit=$folder
    else
      echo "$folder has nvcc ${version:-of unknown version}" >&2
    fi
  fi
done < <(candidates)
[ -n "$toolkit" ] || exit 1
printf '%s\n' "$toolkit" "${roots[@]}" | awk '!seen[$0]++'
