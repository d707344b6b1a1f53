#!/usr/bin/env bash
# Checks and measures everything on a machine with a GPU, in at most eight minutes: see usage.
set -uo pipefail
self=$(readlink -f "${BASH_SOURCE[0]}")
root=$(dirname "$(dirname "$self")")

usage() {
  cat <<'HELP'
usage: tools/gpu_check.sh [SECTION[:SECONDS]]...
Run from an unpacked bundle, or from a source tree with build/cuda (or release) and build/kernels. Without sections: all
of them, each within its time; none keeps the next from its turn. The table, gpu_check.txt, is written again after every section; all that was printed is
in gpu_check.log. Exit code 0: all passed and every target was met; 1: not so; 77: no GPU.

  device     doctor and selftest                              45 s
  kernels    the tests of the kernels on the GPU              45 s
  sanitizer  compute-sanitizer: memcheck, racecheck          120 s
  training   the CPU's losses against the GPU's               80 s
  bits       recorded or not, 1 or 2 ranks, stages 0 to 3     60 s
  tutorial   images/s of the small network, and PyTorch's     45 s
  speed      every kernel against copy bandwidth, and Adam    40 s
  step       ResNet-18's training step                        45 s

PyTorch is measured where python3 has it; awk, sed and the program do the rest. From the environment:
  OUT                   folder of the results (./gpu_check)
  PROGRAM, MPIRUN, KERNEL_TESTS, KERNEL_BENCHMARK   other programs than those found beside this script
  GPU_CHECK_DATA        data.path (a synthetic set, written anew)
  GPU_CHECK_SET         more KEY=VALUE settings of all runs, with blanks between them
  GPU_CHECK_STEPS       steps of short and long runs (50 200)
  GPU_CHECK_SEEDS       sets of weights (10)
  GPU_CHECK_BENCHMARK   more words for the kernel benchmark
  GPU_CHECK_SECONDS     of a window in which steps are timed (0.3)
HELP
}

all_sections=(device:45 kernels:45 sanitizer:120 training:80 bits:60 tutorial:45 speed:40 step:45)
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
: "${MPIRUN:=$(first_of "$root/bin/mpirun" mpirun)}"
: "${KERNEL_TESTS:=$(first_of "$root/bin/test_kernels_gpu" "$root/build/kernels/kernels/test_kernels_gpu")}"
: "${KERNEL_BENCHMARK:=$(first_of "$root/bin/kernel_benchmark" "$root/build/kernels/kernels/kernel_benchmark")}"
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

# ---- what sections are written with; $work, $log and $rows are files of this run

row() {  # row CHECK RESULT FIGURE TARGET: one line of the table
  printf '%s|%s|%s|%s|%s\n' "$section" "$1" "$2" "$3" "$4" >>"$rows"
}

# quietly NAME COMMAND...: output to $work/NAME.out, and to the log when it is all there.
quietly() {
  local name=$1 status=0
  shift
  "$@" >"$work/$name.out" 2>&1 </dev/null || status=$?
  {
    printf '\n==== %s: %s\n' "$section" "$*"
    cat "$work/$name.out"
    printf -- '---- exit code %d\n' "$status"
  } >>"$log"
  return "$status"
}

why() {  # the line of $work/NAME.out that tells most
  { grep -m 1 -aE '^error:|[Ee]rror|FAILED|Killed' "$work/$1.out" || grep -a . "$work/$1.out" | tail -n 1; } 2>/dev/null |
    cut -c 1-160 | tr '|' '/'
}

number() {  # number KEY FILE: the last "KEY": NUMBER of a file of JSON
  grep -oE "\"$1\": ?-?[0-9.eE+-]+" "$2" 2>/dev/null | tail -n 1 | sed 's/.*: *//'
}
text() {  # text KEY FILE
  grep -oE "\"$1\": ?\"[^\"]*\"" "$2" 2>/dev/null | tail -n 1 | sed 's/.*: *"//; s/"$//'
}
compared() {  # compared CHECK VALUE FORMAT CONDITION TARGET: met or MISSED, by an awk condition on x
  local result=MISSED
  if [ -z "$2" ]; then
    row "$1" FAIL "no figure" "$5"
    return
  fi
  ! awk -v x="$2" "BEGIN {exit !($4)}" 2>/dev/null || result=met
  row "$1" "$result" "$(awk -v x="$2" -v f="$3" 'BEGIN {printf f, x}')" "$5"
}

settings() {  # the words of all runs
  local word
  printf -- '--set\ndata.path=%s\n' "$data"
  for word in ${GPU_CHECK_SET:-}; do printf -- '--set\n%s\n' "$word"; done
}

# train NAME DEVICE WORD...: into $work/NAME
train() {
  local name=$1 device=$2 more
  shift 2
  mapfile -t more < <(settings)
  quietly "$name" "$PROGRAM" train -q --output "$work/$name" --device "$device" "$@" "${more[@]}"
}

running=0
in_turn() {  # in_turn COMMAND...: beside at most so many others; `wait` for all of them afterwards
  if [ "$running" -ge "$at_once" ]; then
    wait -n
    running=$((running - 1))
  fi
  "$@" &
  running=$((running + 1))
}

losses() { grep -a '"event":"step"' "$work/$1/metrics.jsonl" 2>/dev/null | sed 's/.*"loss":\([^,]*\),.*/\1/'; }
weights() { text weights_sha256 "$work/$1/metrics.jsonl"; }

# ---- the sections

section_device() {
  if quietly doctor "$PROGRAM" doctor; then row doctor pass "see the log" "exit code 0"
  else row doctor FAIL "$(why doctor)" "exit code 0"; fi
  if quietly selftest "$PROGRAM" selftest --device cuda; then
    row "selftest, every operation and type" pass "$(awk '$1 == "total" {print $2 " cases"}' "$work/selftest.out")" \
      "all agree"
  else
    row "selftest, every operation and type" FAIL "$(why selftest)" "all agree"
  fi
}

section_kernels() {
  [ -n "$KERNEL_TESTS" ] || { row tests skipped "there is no test_kernels_gpu" "all pass"; return; }
  local status=3 filter='*' passed=0 failed=0 lost=0 name
  # A test that loses the device ends the process: on with the others.
  while [ "$status" -eq 3 ] && [ "$lost" -lt 5 ]; do
    status=0
    quietly kernels "$KERNEL_TESTS" --gtest_brief=0 "--gtest_filter=$filter" || status=$?
    passed=$(($(grep -c '^\[       OK' "$work/kernels.out")))
    failed=$(($(grep -cE '^\[  FAILED  \] .*\(' "$work/kernels.out")))
    if [ "$status" -eq 3 ]; then
      name=$(sed -n 's/^the device is lost after \(.*\): .*/\1/p' "$work/kernels.out")
      row "$name" FAIL "$(sed -n 's/^the device is lost after .*: //p' "$work/kernels.out")" "the device works on"
      [ "$lost" -gt 0 ] || filter='*-'
      filter+=$name:
      lost=$((lost + 1))
    fi
  done
  if [ "$status" -eq 0 ] && [ "$lost" -eq 0 ]; then
    row tests pass "$passed passed" "all pass"
  else
    row tests FAIL "$passed passed, $failed failed: $(sed -n 's/^\[  FAILED  \] \([^ ,]*\).* (.*/\1/p' \
      "$work/kernels.out" | head -n 3 | tr '\n' ' ')" "all pass"
  fi
}

# checked CHECK NAME SECONDS TOOL COMMAND...
checked() {
  local check=$1 name=$2 seconds=$3 tool=$4 status=0 errors
  shift 4
  quietly "$name" timeout -k 5 "$seconds" "$sanitizer" --tool "$tool" --target-processes all --error-exitcode 99 \
    --report-api-errors no --print-limit 20 "$@" || status=$?
  errors=$(sed -n 's/.*ERROR SUMMARY: \([0-9]*\) .*/\1/p; s/.*RACECHECK SUMMARY: \([0-9]*\) .*/\1/p' \
    "$work/$name.out" | awk '{n += $1} END {if (NR) print n}')
  local found
  found=$(grep -cE 'Invalid __|Race reported|hazard detected|Error: ' "$work/$name.out")
  case $status in
    0) row "$check" pass "${errors:-0} reports" "0 reports" ;;
    124 | 137)
      if [ "$found" -eq 0 ]; then row "$check" "not all" "0 reports in $seconds s" "0 reports"
      else row "$check" FAIL "$found reports in $seconds s" "0 reports"; fi ;;
    99) row "$check" FAIL "${errors:-$found} reports" "0 reports" ;;
    *)
      if grep -qi 'device not supported' "$work/$name.out"; then
        row "$check" "not run" "compute-sanitizer: device not supported" "0 reports"
      else
        row "$check" FAIL "exit code $status; ${errors:-no} reports; $(why "$name")" "0 reports"
      fi
      ;;
  esac
}

section_sanitizer() {
  local sanitizer more
  sanitizer=$(first_of compute-sanitizer "${CUDA_HOME:-/usr/local/cuda}/bin/compute-sanitizer" \
    /usr/local/cuda/bin/compute-sanitizer)
  if [ -z "$sanitizer" ]; then
    row memcheck skipped "no compute-sanitizer in PATH, CUDA_HOME or /usr/local/cuda" "0 reports"
    return
  fi
  mapfile -t more < <(settings)
  local small='-*Large*:*Many*:*TenThousand*'
  [ -z "$KERNEL_TESTS" ] || checked "memcheck, kernel tests" memcheck 45 memcheck "$KERNEL_TESTS"
  checked "memcheck, training" memcheck_training 40 memcheck "$PROGRAM" train -q --output "$work/memcheck_training" \
    --config "$configs/tutorial.yaml" --device cuda --no-record "${more[@]}" --set train.max_steps=5 \
    --set train.eval_batch_size=1000
  [ -z "$KERNEL_TESTS" ] ||
    checked "racecheck, kernel tests" racecheck 30 racecheck "$KERNEL_TESTS" "--gtest_filter=$small"
}

section_training() {
  local optimizer seed device name words
  for optimizer in SGD AdamW; do
    words=(--config "$configs/tutorial.yaml" --set steps_per_print=1 --set "train.max_steps=$long_steps")
    [ "$optimizer" = SGD ] || words+=(--set "optimizer={type: AdamW, params: {lr: 0.001}}")
    for ((seed = 1; seed <= GPU_CHECK_SEEDS; ++seed)); do
      for device in cuda cpu; do
        in_turn train "$optimizer-$device-$seed" "$device" "${words[@]}" --set "seed=$seed"
      done
    done
    in_turn train "$optimizer-cuda-again" cuda "${words[@]}" --set seed=1
  done
  wait
  for optimizer in SGD AdamW; do
    : >"$work/$optimizer.distances"
    for ((seed = 1; seed <= GPU_CHECK_SEEDS; ++seed)); do
      name=$optimizer-cuda-$seed
      if [ -z "$(weights "$name")" ] || [ -z "$(weights "$optimizer-cpu-$seed")" ]; then
        [ -n "$(weights "$name")" ] || row "$optimizer, seed $seed, GPU" FAIL "$(why "$name")" "ends well"
        [ -n "$(weights "$optimizer-cpu-$seed")" ] ||
          row "$optimizer, seed $seed, CPU" FAIL "$(why "$optimizer-cpu-$seed")" "ends well"
        continue
      fi
      paste <(losses "$optimizer-cpu-$seed") <(losses "$name") | awk -v short="$short_steps" '
        NF < 2 {exit}
        {++n
         d = $1 + 0 == 0 || $2 + 0 == 0 ? 1 : ($1 - $2) / $1
         if (d < 0) d = -d
         if (n <= short && d > a) a = d
         if (d > b) b = d}
        END {printf "%.3g %.3g %d\n", a, b, n}' >>"$work/$optimizer.distances"
    done
    {
      printf '\n%s: largest relative distance of a step loss, CPU against GPU: first %d steps, all; steps\n' \
        "$optimizer" "$short_steps"
      cat "$work/$optimizer.distances"
    } >>"$log"
    local runs
    runs=$(wc -l <"$work/$optimizer.distances")
    if ! awk -v n="$long_steps" '$3 != n {exit 1}' "$work/$optimizer.distances"; then
      row "$optimizer" FAIL "not all runs have $long_steps steps" ""
    fi
    compared "$optimizer, $runs sets, first $short_steps steps, largest" \
      "$(sort -g -k 1,1 "$work/$optimizer.distances" | awk '{x = $1} END {if (NR) print x}')" %.2g 'x <= 1e-5' '<= 1e-5'
    compared "$optimizer, $runs sets, $long_steps steps, median" \
      "$(awk '{print $2}' "$work/$optimizer.distances" | sort -g | awk '{x[NR] = $1}
        END {if (NR) print (x[int((NR + 1) / 2)] + x[int(NR / 2) + 1]) / 2}')" \
      %.2g 'x <= 1e-4' '<= 1e-4'
    if [ -n "$(weights "$optimizer-cuda-1")" ] &&
      [ "$(weights "$optimizer-cuda-1")" = "$(weights "$optimizer-cuda-again")" ] &&
      [ "$(losses "$optimizer-cuda-1")" = "$(losses "$optimizer-cuda-again")" ]; then
      row "$optimizer, the same run twice" pass "same losses, same weights" "same bits"
    else
      row "$optimizer, the same run twice" FAIL "they differ" "same bits"
    fi
  done
}

train_on_two() {  # train_on_two NAME WORD...
  local name=$1 more
  shift
  mapfile -t more < <(settings)
  quietly "$name" "$MPIRUN" -np 2 "$PROGRAM" train -q --output "$work/$name" --device cuda "$@" "${more[@]}" \
    --set communication.backend=mpi --set communication.share_device=true
}

section_bits() {
  local stage record words name expected same=0 runs=()
  for stage in 0 1 2 3; do
    for record in record no-record; do
      words=(--config "$configs/default.yaml" --set gradient_clipping=1 --set steps_per_print=1
        --set "train.max_steps=$short_steps" --set "zero_optimization.stage=$stage")
      [ "$record" = record ] || words+=(--no-record)
      runs+=("1-rank-stage-$stage-$record")
      in_turn train "${runs[-1]}" cuda "${words[@]}"
      if [ -n "$MPIRUN" ]; then
        runs+=("2-ranks-stage-$stage-$record")
        in_turn train_on_two "${runs[-1]}" "${words[@]}"
      fi
    done
  done
  wait
  [ -n "$MPIRUN" ] || row "2 ranks" skipped "there is no mpirun" "same bits"
  expected=$(weights "${runs[0]}")
  for name in "${runs[@]}"; do
    printf '%s %s\n' "$(weights "$name")" "$name" >>"$log"
    if [ -z "$(weights "$name")" ]; then row "$name" FAIL "$(why "$name")" "ends well"
    elif [ "$(weights "$name")" != "$expected" ]; then row "$name" FAIL "differs from ${runs[0]}" "same bits"
    else same=$((same + 1)); fi
  done
  if [ "$same" -eq ${#runs[@]} ]; then row "1 and 2 ranks, stages 0-3, recorded or not" pass "$same runs" "same bits"
  else row "1 and 2 ranks, stages 0-3, recorded or not" FAIL "$same of ${#runs[@]} runs alike" "same bits"; fi
}

step_words() {  # step_words CONFIG SETTING...: the command that times a step
  local config=$1 word more
  shift
  mapfile -t more < <(settings)
  printf '%s\n' "$PROGRAM" bench step --config "$configs/$config" --json --windows 3 --seconds "$GPU_CHECK_SECONDS" \
    "${more[@]}" --set device=cuda
  for word in "$@"; do printf -- '--set\n%s\n' "$word"; done
}

rate() { awk -v x="$(number samples_per_sec "$work/$1.out")" 'BEGIN {printf "%.0f images/s", x}'; }

section_tutorial() {
  local words
  mapfile -t words < <(step_words default.yaml train_batch_size=4)
  if command -v python3 >/dev/null && python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' \
    >/dev/null 2>&1; then
    if quietly torch_tutorial python3 "$peers/torch_tutorial.py" --seconds "$GPU_CHECK_SECONDS" -- "${words[@]}"; then
      local file=$work/torch_tutorial.out
      row "batch 4" reported "$(number images_per_s "$file") images/s" ""
      row "batch 4, $(text torch "$file")" reported \
        "eager $(number eager_per_s "$file"), graph $(number graph_per_s "$file") images/s" ""
      compared "to PyTorch, eager" "$(number over_eager "$file")" %.1f 'x >= 20' '>= 20'
      compared "to PyTorch, its step in a graph, fused Adam" "$(number over_graph "$file")" %.2f 'x >= 3' '>= 3, aim 4'
      return
    fi
    row PyTorch FAIL "$(why torch_tutorial)" ">= 20, >= 3"
  else
    row PyTorch skipped "python3 has no PyTorch with CUDA" ">= 20, >= 3"
  fi
  if quietly tutorial "${words[@]}"; then
    row "batch 4" reported "$(rate tutorial)" ""
  else row "batch 4" FAIL "$(why tutorial)" "ends well"; fi
}

section_speed() {
  local adam
  [ -n "$KERNEL_BENCHMARK" ] || { row kernels skipped "there is no kernel_benchmark" ">= 85 %"; return; }
  # shellcheck disable=SC2086
  if ! quietly kernel_benchmark "$KERNEL_BENCHMARK" --json "$OUT/kernel_benchmark.json" ${GPU_CHECK_BENCHMARK:-}; then
    row kernels FAIL "$(why kernel_benchmark)" ">= 85 %"
    return
  fi
  cp "$work/kernel_benchmark.out" "$OUT/kernel_benchmark.txt"
  row copy reported "$(number copy_gb_per_s "$OUT/kernel_benchmark.json") GB/s" ""
  local missed met
  missed=$(grep -c '"MISSED"' "$OUT/kernel_benchmark.json")
  met=$(grep -c '"met"' "$OUT/kernel_benchmark.json")
  if [ "$missed" -eq 0 ]; then row "kernels at large sizes" met "$met of $met" ">= 85 %, Adam >= 92 %"
  else row "kernels at large sizes" MISSED "$met of $((met + missed))" ">= 85 %, Adam >= 92 %"; fi
  while IFS=$'\t' read -r kernel share target; do
    row "  $kernel" MISSED "$share" "$target"
  done < <(sed -n 's/.*"kernel": "\([^"]*\)", "type": "\([^"]*\)", "shape": "\([^"]*\)".*"share": \([0-9.]*\), "target": \([0-9.]*\), "verdict": "MISSED".*/\1 \2 \3\t\4\t>= \5/p' \
    "$OUT/kernel_benchmark.json")
  grep '"kernel": "adam", .*161 tensors' "$OUT/kernel_benchmark.json" >"$work/adam.json"
  adam=$(number us "$work/adam.json")
  compared "Adam, 161 tensors, share of copy" "$(number share "$work/adam.json")" %.3f 'x >= 0.92' '>= 0.92'
  if command -v python3 >/dev/null && python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' \
    >/dev/null 2>&1; then
    if quietly torch_adam python3 "$peers/torch_adam.py"; then
      row "Adam, 161 tensors, us: ours, PyTorch's in a graph" reported \
        "$adam, $(number us "$work/torch_adam.out"): $(awk -v a="$adam" -v b="$(number us "$work/torch_adam.out")" \
          'BEGIN {printf "%.2f", b / a}') times as fast" ""
    else row "PyTorch's Adam" FAIL "$(why torch_adam)" ""; fi
  else row "PyTorch's Adam" skipped "python3 has no PyTorch with CUDA" ""; fi
}

section_step() {
  local bf16 micro words name
  for bf16 in true false; do
    for micro in 128 32; do
      name=resnet18-$([ $bf16 = true ] && echo bf16 || echo f32)-$micro
      mapfile -t words < <(step_words resnet18.yaml bf16.enabled=$bf16 train_micro_batch_size_per_gpu=$micro)
      if quietly "$name" "${words[@]}"; then
        row "$name of a batch of 128" reported "$(rate "$name")" ""
      else row "$name" FAIL "$(why "$name")" "ends well"; fi
    done
  done
}

# ---- the run

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
[ -n "$PROGRAM" ] || { echo "error: gpu_check.sh: there is no cifar-train beside it: build it, or set PROGRAM" >&2; exit 2; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
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
if [ -z "${GPU_CHECK_DATA:-}" ] && ! quietly data "$PROGRAM" data synth --out "$data"; then
  cat "$work/data.out" >&2
  exit 1
fi

print_table() {
  {
    printf '%s\n%s, %s\n\n' "$("$PROGRAM" --version 2>/dev/null | head -n 1)" "${device:-no nvidia-smi}" \
      "$(date -u '+%Y-%m-%d %H:%M UTC')"
    printf '%-10s %-52s %-9s %-50s %s\n' section check result figure target
    while IFS='|' read -r name check result figure target; do
      printf '%-10s %-52s %-9s %-50s %s\n' "$name" "$check" "$result" "$figure" "$target"
    done <"$rows"
  } >"$table.part"
  mv "$table.part" "$table"
}

for entry in "${wanted[@]}"; do
  section=${entry%:*}
  budget=${entry#*:}
  begin=$SECONDS
  [ "$budget" -le $((total - SECONDS)) ] || budget=$((total - SECONDS))
  if [ "$budget" -lt 1 ]; then
    row "" "not run" "no time left" ""
  else
    status=0
    timeout -k 5 "$budget" bash "$self" --section "$section" >>"$log" 2>&1 </dev/null || status=$?
    case $status in
      0) ;;
      124 | 137) row "" FAIL "stopped after its $budget s" "" ;;
      *) row "" FAIL "ended with exit code $status, see the log" "" ;;
    esac
  fi
  print_table
  printf '%s: %d s\n' "$section" $((SECONDS - begin)) | tee -a "$log"
done

if [ "$(stat -c %s "$log")" -gt $((12 << 20)) ]; then  # what may come back from a lent machine
  { head -c 4M "$log"; printf '\n...\n'; tail -c 8M "$log"; } >"$log.part" && mv "$log.part" "$log"
fi
cat "$table"
! grep -qE '\|(FAIL|MISSED)\|' "$rows"
