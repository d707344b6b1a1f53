# Sourced by ../gpu_check.sh: what is measured.

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
  python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' >/dev/null 2>&1
}

plan_tutorial() {
  echo 'batch 4|'
  echo 'to PyTorch, eager|>= 20'
  echo 'to PyTorch, its step in a graph, fused Adam|>= 3, aim 4'
}

section_tutorial() {
  local words
  mapfile -t words < <(step_words default.yaml train_batch_size=4)
  if has_torch; then
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
    row "to PyTorch, eager" skipped "python3 has no PyTorch with CUDA" ">= 20"
    row "to PyTorch, its step in a graph, fused Adam" skipped "python3 has no PyTorch with CUDA" ">= 3, aim 4"
  fi
  if quietly tutorial "${words[@]}"; then
    row "batch 4" reported "$(rate tutorial)" ""
  else row "batch 4" FAIL "$(why tutorial)" "ends well"; fi
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
    row "kernels at large sizes" FAIL "$(why kernel_benchmark)" ">= 85 %, Adam >= 92 %"
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
    else row "PyTorch's Adam" FAIL "$(why torch_adam)" ""; fi
  else rest skipped "python3 has no PyTorch with CUDA"; fi
}

plan_step() {
  printf 'resnet18-%s of a batch of 128|\n' bf16-128 bf16-32 f32-128 f32-32
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
