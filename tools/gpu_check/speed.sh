# Sourced by ../gpu_check.sh: measurements.

step_words() {  # step_words CONFIG SETTING...: the command that times a step
  local config=$1 word more
  shift
  mapfile -t more < <(settings)
  printf '%s\n' "$PROGRAM" bench step --config "$configs/$config" --json --windows 3 --seconds "$GPU_CHECK_SECONDS" \
    "${more[@]}" --set device=cuda
  for word in "$@"; do printf -- '--set\n%s\n' "$word"; done
}

rate() { awk -v x="$(number samples_per_sec "$work/$1.out")" 'BEGIN {printf "%.0f images/s", x}'; }

has_torch() {
  quietly has_torch python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())'
}

plan_tutorial() {
  local tf32
  for tf32 in off on; do
    echo "batch 4, TF32 $tf32|"
    echo "to PyTorch, eager, TF32 $tf32|>= 20"
    echo "to PyTorch, its step in a graph, TF32 $tf32|>= 3, aim 4"
  done
}

# By default PyTorch's convolutions use TF32, and those of cifar-train do not: both programs run with it off, then on.
section_tutorial() {
  local tf32
  if has_torch; then
    for tf32 in off on; do beside_torch $tf32; done
    return
  fi
  for tf32 in off on; do alone $tf32; done
  if [ -e "$work/has_torch.cut" ]; then rest "not run" "$(cat "$work/has_torch.cut")"
  else rest skipped "python3 has no PyTorch with CUDA"; fi
}

tutorial_words() {  # tutorial_words off|on
  step_words default.yaml train_batch_size=4 "cuda.tf32=$(truth "$1" on)"
}

beside_torch() {  # beside_torch off|on
  local tf32=$1 words name=torch_tutorial_$1 file=$work/torch_tutorial_$1.out
  mapfile -t words < <(tutorial_words "$tf32")
  if ! quietly "$name" python3 "$peers/torch_tutorial.py" --tf32 "$tf32" --rounds 3 --seconds "$GPU_CHECK_SECONDS" -- \
    "${words[@]}"; then
    failed "to PyTorch, eager, TF32 $tf32" "$name" ">= 20"
    failed "to PyTorch, its step in a graph, TF32 $tf32" "$name" ">= 3, aim 4"
    alone "$tf32"
    return
  fi
  row "batch 4, TF32 $tf32" reported "$(number images_per_s "$file") images/s" ""
  row "batch 4, TF32 $tf32, $(text torch "$file"), fused Adam" reported \
    "eager $(number eager_per_s "$file"), graph $(number graph_per_s "$file") images/s" ""
  compared "to PyTorch, eager, TF32 $tf32" "$(number over_eager "$file")" %.1f 'x >= 20' '>= 20'
  compared "to PyTorch, its step in a graph, TF32 $tf32" "$(number over_graph "$file")" %.2f 'x >= 3' '>= 3, aim 4'
}

alone() {  # alone off|on
  local words
  mapfile -t words < <(tutorial_words "$1")
  timed "batch 4, TF32 $1" "tutorial-$1" "${words[@]}"
}

timed() {  # timed CHECK NAME COMMAND...: bench step's images/s
  if ! quietly "${@:2}"; then failed "$1" "$2" ""
  elif whole "$1" "" "" "$work/$2.out"; then row "$1" reported "$(rate "$2")" ""; fi
}

plan_speed() {
  echo 'copy|'
  echo 'kernels at large sizes|>= 85 %, Adam >= 92 %'
  echo 'Adam, 161 tensors, share of copy|>= 0.92'
  echo "Adam, 161 tensors, us: ours, PyTorch's in a graph|"
}

section_speed() {
  local adam
  [ -n "$KERNEL_BENCHMARK" ] || { rest skipped "there is no kernel_benchmark"; return; }
  # shellcheck disable=SC2086
  if ! quietly kernel_benchmark "$KERNEL_BENCHMARK" --json "$OUT/kernel_benchmark.json" ${GPU_CHECK_BENCHMARK:-}; then
    failed "kernels at large sizes" kernel_benchmark ">= 85 %, Adam >= 92 %"
    return
  fi
  cp "$work/kernel_benchmark.out" "$OUT/kernel_benchmark.txt"
  row copy reported "$(number copy_gb_per_s "$OUT/kernel_benchmark.json") GB/s" ""
  local missed met
  missed=$(grep -c '"MISSED"' "$OUT/kernel_benchmark.json")
  met=$(grep -c '"met"' "$OUT/kernel_benchmark.json")
  if [ "$missed" -eq 0 ] && [ "$met" -gt 0 ]; then
    row "kernels at large sizes" met "$met of $met" ">= 85 %, Adam >= 92 %"
  else row "kernels at large sizes" MISSED "$met of $((met + missed))" ">= 85 %, Adam >= 92 %"; fi
  while IFS=$'\t' read -r kernel share target; do
    row "  $kernel" MISSED "$share" "$target"
  done < <(sed -n 's/.*"kernel": "\([^"]*\)", "type": "\([^"]*\)", "shape": "\([^"]*\)".*"share": \([0-9.]*\), "target": \([0-9.]*\), "verdict": "MISSED".*/\1 \2 \3\t\4\t>= \5/p' \
    "$OUT/kernel_benchmark.json")
  grep '"kernel": "adam", .*161 tensors' "$OUT/kernel_benchmark.json" >"$work/adam.json"
  adam=$(number us "$work/adam.json")
  compared "Adam, 161 tensors, share of copy" "$(number share "$work/adam.json")" %.3f 'x >= 0.92' '>= 0.92'
  if has_torch; then
    if quietly torch_adam python3 "$peers/torch_adam.py"; then
      row "Adam, 161 tensors, us: ours, PyTorch's in a graph" reported \
        "$adam, $(number us "$work/torch_adam.out"): $(awk -v a="$adam" -v b="$(number us "$work/torch_adam.out")" \
          'BEGIN {printf "%.2f", b / a}') times as fast" ""
    else failed "Adam, 161 tensors, us: ours, PyTorch's in a graph" torch_adam ""; fi
  else rest skipped "python3 has no PyTorch with CUDA"; fi
}

plan_step() {
  printf 'resnet18, %s of a batch of 128|\n' 'bf16, '{128,32} 'f32, TF32 off, '{128,32} 'f32, TF32 on, '{128,32}
}

section_step() {
  local type micro words
  for type in 'bf16' 'f32, TF32 off' 'f32, TF32 on'; do
    for micro in 128 32; do
      mapfile -t words < <(step_words resnet18.yaml "bf16.enabled=$(truth "$type" bf16)" \
        "cuda.tf32=$(truth "$type" 'f32, TF32 on')" "train_micro_batch_size_per_gpu=$micro")
      timed "resnet18, $type, $micro of a batch of 128" "step-${type//[, ]/-}-$micro" "${words[@]}"
    done
  done
}

truth() { if [ "$1" = "$2" ]; then echo true; else echo false; fi; }  # truth A B: are they the same?
