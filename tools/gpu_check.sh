#!/usr/bin/env bash
# Checks and measures the program on a machine with a GPU, in nine minutes: see usage. The sections are in gpu_check/.
set -uo pipefail
self=$(readlink -f "${BASH_SOURCE[0]}")
root=$(dirname "$(dirname "$self")")

minutes=9
# The sections in their order, the most informative first, each with its seconds. The sum is less than nine minutes.
sections() {
  cat <<'LIST'
device     40  doctor, selftest, NCCL's collectives on one rank
ladder     50  four networks, small to large: launched, then recorded
feeding    20  several steps by one launch, evaluations amid them, pictures sent beside them
tutorial   50  images/s of the small network and PyTorch's, without and with TF32
step       35  ResNet-18's training step
ops        30  the operations of four networks' steps that take longest
speed      30  every kernel against copy bandwidth, and Adam
kernels    30  the tests of the kernels on the GPU
training   45  the CPU's losses against the GPU's
features   40  bf16, fp16, offload, autotune, resuming, ResNet-18
bits       25  recorded or not, 1 or 2 ranks, stages 0 to 3
peers      70  images/s of two networks and PyTorch's, compiled and in a graph
profile    20  ncu: the kernels of ResNet-18's step that take longest
sanitizer  50  compute-sanitizer: memcheck, racecheck, synccheck
LIST
}

usage() {
  cat <<'HELP'
usage: tools/gpu_check.sh [--minutes N] [SECTION[:SECONDS]]...
Run it from a source tree with a built program and a built target gpu_programs, or from an unpacked bundle of
tools/bundle.sh. Without sections, all run in the order below; what has not begun after N minutes (9) is not run. A
section ends after its seconds, and a program at its limit. Each check has a row, which is printed and added to the
table gpu_check.txt as soon as it is known. The output of all programs is in gpu_check.log.
Exit code 0: all checks ran, passed and met their targets; 1: a check failed or missed its target; 3: neither, but rows
are skipped or not run; 77: nothing could be checked (without a GPU no files are written).

HELP
  sections | sed 's/^/  /'
  cat <<'HELP'

PyTorch is measured if python3 has it; everything else needs only awk, sed and the program. Environment variables:
  OUT                   folder of the results (./gpu_check)
  PROGRAM, MPIRUN, KERNEL_TESTS, KERNEL_BENCHMARK   programs to use instead of those found (empty: none)
  GPU_CHECK_DATA        data.path (default: a new synthetic set)
  GPU_CHECK_SET         more KEY=VALUE settings of all runs, with blanks between them
  GPU_CHECK_STEPS       steps of short and long runs (50 200)
  GPU_CHECK_SEEDS       sets of weights (10)
  GPU_CHECK_BENCHMARK   more words for the kernel benchmark
  GPU_CHECK_SECONDS     of a window in which steps are timed (0.3)
  GPU_CHECK_LIMIT       seconds after which a program is killed (30; three times as many for the first program and for
                        PyTorch's compiler)
HELP
}

first_of() {  # the first of these that can be run
  local file
  for file in "$@"; do
    if command -v "$file" >/dev/null 2>&1; then
      printf '%s' "$file"
      return
    fi
  done
}

: "${PROGRAM:=$(first_of "$root/bin/cifar-train" "$root/build/release/cifar-train")}"
# Empty: none.
: "${MPIRUN=$(first_of "$root/bin/mpirun" mpirun)}"
: "${KERNEL_TESTS=$(first_of "$root/bin/test_kernels_gpu" "$root/build/release/kernels/test_kernels_gpu")}"
: "${KERNEL_BENCHMARK=$(first_of "$root/bin/kernel_benchmark" "$root/build/release/kernels/kernel_benchmark")}"
peers=$root/tools
[ -f "$peers/torch_tutorial.py" ] || peers=$root/tests/bench
configs=$root/configs
: "${OUT:=gpu_check}" "${GPU_CHECK_STEPS:=50 200}" "${GPU_CHECK_SEEDS:=10}" "${GPU_CHECK_SECONDS:=0.3}"
: "${GPU_CHECK_LIMIT:=30}"
read -r short_steps long_steps <<<"$GPU_CHECK_STEPS"
at_once=$(($(nproc) / 2))  # runs that share the GPU
[ "$at_once" -ge 1 ] || at_once=1
[ "$at_once" -le 6 ] || at_once=6

if [ "$(id -u)" -eq 0 ]; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
# The program searches VIRTUAL_ENV's Python for libraries: here that of python3.
if [ -z "${VIRTUAL_ENV:-}" ] && prefix=$(timeout -k 2 10 python3 -c 'import sys; print(sys.prefix)' 2>/dev/null); then
  export VIRTUAL_ENV=$prefix
fi
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
# In libraries these variables override the programs' own TF32 switches, which the checks use.
unset NVIDIA_TF32_OVERRIDE TORCH_ALLOW_TF32_CUBLAS_OVERRIDE

for part in runs table device ladder feeding training features speed; do
  . "$root/tools/gpu_check/$part.sh" || exit 2
done

if [ "${1:-}" = --section ]; then  # a child of the run below, which gave it its files: --section NAME SECONDS
  section=$2
  section_end=$3
  exec 3>&1 >>"$log" 2>&1
  "section_$section"
  rest "not run" "the section ended before"
  exit 0
fi

wanted=()
while [ $# -gt 0 ]; do
  word=$1
  shift
  case $word in
    -h | --help) usage; exit 0 ;;
    --minutes)
      minutes=${1:-}
      if ! [[ $minutes =~ ^[1-9][0-9]{0,3}$ ]]; then
        echo "error: gpu_check.sh: --minutes '$minutes' is not a whole number of minutes" >&2
        exit 2
      fi
      shift
      continue
      ;;
  esac
  seconds=$(sections | awk -v name="${word%%:*}" '$1 == name {print $2}')
  if [ -z "$seconds" ] || ! [[ $word =~ ^[a-z]+(:[0-9]+)?$ ]]; then
    echo "error: gpu_check.sh: there is no section '$word' (see gpu_check.sh --help)" >&2
    exit 2
  fi
  [[ $word == *:* ]] || word+=:$seconds
  wanted+=("$word")
done
[ ${#wanted[@]} -gt 0 ] || mapfile -t wanted < <(sections | awk '{print $1 ":" $2}')
if [ -z "$PROGRAM" ]; then
  echo "error: gpu_check.sh: cifar-train is not found: build it, or set PROGRAM" >&2
  exit 2
fi

total=$((60 * minutes))
work=$(mktemp -d)
mkdir "$work/running"
interrupted=
trap 'interrupted=yes' INT TERM HUP
trap 'end_all; rm -rf "$work"' EXIT
log=$work/log
section=start
section_end=$total

device=
! quietly nvidia-smi nvidia-smi --query-gpu=name,driver_version --format=csv,noheader ||
  device=$(head -n 1 "$work/nvidia-smi.out" | sed 's/, /, driver /')
nodes=(/dev/nvidia[0-9]*)
if [ -z "$device" ] && [ ! -e "${nodes[0]}" ] && [ ! -e /dev/dxg ]; then
  # Only a test program may find a GPU here.
  if ! quietly probe "$PROGRAM" bench step --config "$configs/linear.yaml" --set device=cuda --windows 1 \
    --seconds 0.001 --set data.path="$work" --set data.dataset=synthetic; then
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
export OUT PROGRAM MPIRUN KERNEL_TESTS KERNEL_BENCHMARK work log rows table data
export GPU_CHECK_STEPS GPU_CHECK_SEEDS GPU_CHECK_SECONDS GPU_CHECK_LIMIT
if [ -z "${GPU_CHECK_DATA:-}" ] && ! quietly data "$PROGRAM" data synth --out "$data"; then
  cat "$work/data.out" >&2
  exit 1
fi
# The first program that opens the libraries may wait long for their gigabytes.
libraries=()
[ -z "$device" ] || mapfile -t libraries < <(libraries)
[ ${#libraries[@]} -eq 0 ] || limit=$((3 * GPU_CHECK_LIMIT)) quietly libraries sh -c 'cat "$@" >/dev/null' sh "${libraries[@]}"
limit=$((3 * GPU_CHECK_LIMIT)) quietly first "$PROGRAM" doctor
quietly version "$PROGRAM" --version
exec 3>&1
{
  head -n 1 "$work/version.out"
  printf '%s, %s\n\n' "${device:-no nvidia-smi}" "$(date -u '+%Y-%m-%d %H:%M UTC')"
  line section check result figure target
} | tee "$table"

for entry in "${wanted[@]}"; do
  section=${entry%:*}
  budget=${entry#*:}
  begin=$SECONDS
  [ "$budget" -le $((total - SECONDS)) ] || budget=$((total - SECONDS))
  if [ -n "$interrupted" ]; then rest "not run" interrupted
  elif [ "$budget" -lt 1 ]; then rest "not run" "no time left"
  else
    # The section stops its programs in time; 5 s later the section itself is killed.
    status=0
    within $((budget + 5)) bash "$self" --section "$section" "$budget" </dev/null || status=$?
    end_all
    if [ -n "$interrupted" ]; then rest "not run" interrupted
    elif [ "$status" -ne 0 ]; then
      row "" FAIL "the section ended with exit code $status, see the log" ""
      rest "not run" "the section ended before"
    fi
  fi
  printf '%s: %d s\n' "$section" $((SECONDS - begin)) >>"$log"
done

if [ "$(stat -c %s "$log")" -gt $((12 << 20)) ]; then  # limits the size of the log
  { head -c 4M "$log"; printf '\n...\n'; tail -c 8M "$log"; } >"$log.part" && mv "$log.part" "$log"
fi
printf '\n%d pass, met or reported; %d FAIL or MISSED; %d skipped or not run; %d s\n' "$(count "$good")" \
  "$(count "$bad")" "$(count "$unchecked")" "$SECONDS" | tee -a "$table"
if [ "$(count "$bad")" -gt 0 ]; then exit 1
elif [ "$(count "$good")" -eq 0 ]; then exit 77
elif [ "$(count "$unchecked")" -gt 0 ]; then exit 3; fi
