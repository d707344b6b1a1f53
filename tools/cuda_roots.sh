#!/usr/bin/env bash
# Prints the folders that hold CUDA's toolkit or parts of it, one a line; the first has bin/nvcc. They are sought in
# CUDA_HOME, which a module sets, by the nvcc in PATH, in /usr/local/cuda, and in nvidia/* among the packages of
# VIRTUAL_ENV and of the python3 in PATH, where pip puts them. Prints nothing and exits with 1 where there is no nvcc.
set -uo pipefail

candidates() {
  local python
  printf '%s\n' "${CUDA_HOME:-}"
  nvcc --dryrun -x cu /dev/null 2>&1 | sed -n 's/^#\$ TOP=//p'  # where it really is, however it was called
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
  if [ -z "$toolkit" ] && [ -x "$folder/bin/nvcc" ]; then toolkit=$folder; fi
  roots+=("$folder")
done < <(candidates)
[ -n "$toolkit" ] || exit 1
printf '%s\n' "$toolkit" "${roots[@]}" | awk '!seen[$0]++'
