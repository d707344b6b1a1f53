#!/usr/bin/env bash
# Checks and measures everything on a machine with a GPU, in at most eight minutes: see usage. The sections are in
# gpu_check/.
set -uo pipefail
self=$(readlink -f "${BASH_SOURCE[0]}")
root=$(dirname "$(dirname "$self")")

usage() {
  cat <<'HELP'
usage: tools/gpu_check.sh [SECTION[:SECONDS]]...
Run from a source tree after tools/build_cuda.sh and tools/build_kernels.sh --all, or from the unpacked bundle that
tools/bundle.sh --build build/cuda then makes. Without sections: all of them, each within its time; none keeps the next
from its turn. The table, gpu_check.txt, is written again after every section, with a row for all that was to be
checked; all that was printed is in gpu_check.log.
Exit code 0: everything was checked, passed and met its target; 1: something failed or missed its target; 3: neither,
but rows are skipped or not run; 77: nothing could be checked (without a GPU nothing is written either).

  device     doctor and selftest                              45 s
  kernels    the tests of the kernels on the GPU              40 s
  sanitizer  compute-sanitizer: memcheck, racecheck           90 s
  training   the CPU's losses against the GPU's               75 s
  bits       recorded or not, 1 or 2 ranks, stages 0 to 3     50 s
  features   NCCL, bf16, fp16, offload, autotune, ResNet-18   60 s
  tutorial   images/s of the small network, and PyTorch's     40 s
  speed      every kernel against copy bandwidth, and Adam    40 s
  step       ResNet-18's training step                        40 s

PyTorch is measured where python3 has it; awk, sed and the program do the rest. From the environment:
  OUT                   folder of the results (./gpu_check)
  PROGRAM, MPIRUN, KERNEL_TESTS, KERNEL_BENCHMARK   other programs than those found beside this script (empty: none)
  GPU_CHECK_DATA        data.path (a synthetic set, written anew)
  GPU_CHECK_SET         more KEY=VALUE settings of all runs, with blanks between them
  GPU_CHECK_STEPS       steps of short and long runs (50 200)
  GPU_CHECK_SEEDS       sets of weights (10)
  GPU_CHECK_BENCHMARK   more words for the kernel benchmark
  GPU_CHECK_SECONDS     of a window in which steps are timed (0.3)
HELP
}

all_sections=(device:45 kernels:40 sanitizer:90 training:75 bits:50 features:60 tutorial:40 speed:40 step:40)
total=480

first_of() {  # the first of these that can be run
  local file
  for file in "$@"; do
    if command -v "$file" >/dev/null 2>&1; then
      printf '%s' "$file"
      return
    fi
  done
}

: "${PROGRAM:=$(first_of "$root/bin/cifar-train" "$root/build/cuda/cifar-train" "$root/build/release/cifar-train")}"
# Empty: there is none.
: "${MPIRUN=$(first_of "$root/bin/mpirun" mpirun)}"
: "${KERNEL_TESTS=$(first_of "$root/bin/test_kernels_gpu" "$root/build/kernels/kernels/test_kernels_gpu")}"
: "${KERNEL_BENCHMARK=$(first_of "$root/bin/kernel_benchmark" "$root/build/kernels/kernels/kernel_benchmark")}"
peers=$root/tools
[ -f "$peers/torch_tutorial.py" ] || peers=$root/tests/bench
configs=$root/configs
: "${OUT:=gpu_check}" "${GPU_CHECK_STEPS:=50 200}" "${GPU_CHECK_SEEDS:=10}" "${GPU_CHECK_SECONDS:=0.3}"
read -r short_steps long_steps <<<"$GPU_CHECK_STEPS"
at_once=$(($(nproc) / 2))  # runs that share the GPU
[ "$at_once" -ge 1 ] || at_once=1
[ "$at_once" -le 6 ] || at_once=6

if [ "$(id -u)" -eq 0 ]; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
# The program looks for libraries in the Python of VIRTUAL_ENV: here in the one that python3 is.
if [ -z "${VIRTUAL_ENV:-}" ] && prefix=$(python3 -c 'import sys; print(sys.prefix)' 2>/dev/null); then
  export VIRTUAL_ENV=$prefix
fi
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none

for part in table device training features speed; do
  . "$root/tools/gpu_check/$part.sh" || exit 2
done

if [ "${1:-}" = --section ]; then  # a child of the run below, which gave it its files
  section=$2
  "section_$section"
  exit
fi

wanted=()
for word in "$@"; do
  case $word in
    -h | --help) usage; exit 0 ;;
    *)
      entry=$(printf '%s\n' "${all_sections[@]}" | grep -E "^${word%:*}:[0-9]+$")
      if [ -z "$entry" ] || ! [[ $word =~ ^[a-z]+(:[0-9]+)?$ ]]; then
        echo "error: gpu_check.sh: there is no section '$word' (see gpu_check.sh --help)" >&2
        exit 2
      fi
      [[ $word != *:* ]] || entry=$word
      wanted+=("$entry")
      ;;
  esac
done
[ ${#wanted[@]} -gt 0 ] || wanted=("${all_sections[@]}")
if [ -z "$PROGRAM" ]; then
  echo "error: gpu_check.sh: there is no cifar-train beside it: build it, or set PROGRAM" >&2
  exit 2
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
log=$work/log
section=start

device=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null) || device=
device=$(head -n 1 <<<"$device" | sed 's/, /, driver /')
nodes=(/dev/nvidia[0-9]*)
if [ -z "$device" ] && [ ! -e "${nodes[0]}" ] && [ ! -e /dev/dxg ]; then
  # Only a program for tests finds a GPU here.
  if ! quietly probe timeout 60 "$PROGRAM" bench step --config "$configs/linear.yaml" --set device=cuda --windows 1 \
    --seconds 0.001 --set data.path="$work"; then
    why probe
    exit 77
  fi
fi

mkdir -p "$OUT" || exit 2
OUT=$(readlink -f "$OUT")
log=$OUT/gpu_check.log
table=$OUT/gpu_check.txt
rows=$work/rows
data=${GPU_CHECK_DATA:-$work/data}
: >"$log"
: >"$rows"
export OUT PROGRAM MPIRUN KERNEL_TESTS KERNEL_BENCHMARK work log rows data
export GPU_CHECK_STEPS GPU_CHECK_SEEDS GPU_CHECK_SECONDS
if [ -z "${GPU_CHECK_DATA:-}" ] && ! quietly data "$PROGRAM" data synth --out "$data"; then
  cat "$work/data.out" >&2
  exit 1
fi

for entry in "${wanted[@]}"; do
  section=${entry%:*}
  budget=${entry#*:}
  begin=$SECONDS
  [ "$budget" -le $((total - SECONDS)) ] || budget=$((total - SECONDS))
  if [ "$budget" -lt 1 ]; then
    rest "not run" "no time left"
  else
    status=0
    timeout -k 5 "$budget" bash "$self" --section "$section" >>"$log" 2>&1 </dev/null || status=$?
    case $status in
      0) ;;
      124 | 137) row "" FAIL "stopped after its $budget s" "" ;;
      *) row "" FAIL "ended with exit code $status, see the log" "" ;;
    esac
    rest "not run" "the section ended before"
  fi
  print_table
  printf '%s: %d s\n' "$section" $((SECONDS - begin)) | tee -a "$log"
done

if [ "$(stat -c %s "$log")" -gt $((12 << 20)) ]; then  # what may come back from a lent machine
  { head -c 4M "$log"; printf '\n...\n'; tail -c 8M "$log"; } >"$log.part" && mv "$log.part" "$log"
fi
cat "$table"
if [ "$(count "$bad")" -gt 0 ]; then exit 1
elif [ "$(count "$good")" -eq 0 ]; then exit 77
elif [ "$(count "$unchecked")" -gt 0 ]; then exit 3; fi
