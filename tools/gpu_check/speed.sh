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

# NAME|CONFIG SETTING...: the steps whose operations are timed
ops_steps() {
  cat <<'STEPS'
tutorial|default.yaml train_batch_size=4
resnet18, bf16|resnet18.yaml bf16.enabled=true
vit_tiny, bf16|vit_tiny.yaml bf16.enabled=true train_micro_batch_size_per_gpu=512
cifar_2cores, bf16|cifar_2cores.yaml bf16.enabled=true train_micro_batch_size_per_gpu=256
STEPS
}

plan_ops() { ops_steps | sed 's/|.*/, shares of a step|/'; }

section_ops() {
  local name about words file
  while IFS='|' read -r name about; do
    # shellcheck disable=SC2086
    mapfile -t words < <(step_words $about)
    file=ops-${name%%,*}
    if ! limit=12 quietly "$file" "${words[@]/#--json/--ops}"; then
      failed "$name, shares of a step" "$file" ""
      continue
    fi
    cp "$work/$file.out" "$OUT/$file.txt"
    row "$name, shares of a step" reported "$(shares_of_operations "$work/$file.out")" ""
  done < <(ops_steps)
}

# The lines of `bench step --ops`: two blanks, the operation, its microseconds, ...; after the operations their sum.
shares_of_operations() {
  awk '
    /^  [a-z]/ && $1 == "sum" {sum = $2; exit}
    /^  [a-z]/ && $2 + 0 > 0 {us[$1] += $2}
    END {for (name in us) printf "%d %% %s\n", 100 * us[name] / sum + 0.5, name}' "$1" |
    sort -rn | head -n 5 | paste -sd ';' | sed 's/;/, /g'
}

plan_peers() {
  local network
  for network in vit_tiny resnet18; do echo "$network, bf16, batch 512, to PyTorch|$(peer_target $network)"; done
}
peer_target() { [ "$1" != vit_tiny ] || echo '>= 1.5'; }

# PyTorch's network is compiled, and its step is in a graph.
section_peers() {
  local network check target words ours theirs ratio
  if ! has_torch; then
    rest skipped "python3 has no PyTorch with CUDA"
    return
  fi
  for network in vit_tiny resnet18; do
    check="$network, bf16, batch 512, to PyTorch" target=$(peer_target $network)
    mapfile -t words < <(step_words $network.yaml bf16.enabled=true train_batch_size=512 \
      train_micro_batch_size_per_gpu=512)
    quietly "peers-$network" "${words[@]}" || { failed "$check" "peers-$network" "$target"; continue; }
    limit=$((3 * GPU_CHECK_LIMIT)) quietly "torch-$network" python3 "$peers/torch_networks.py" --compile default \
      --seconds "$GPU_CHECK_SECONDS" $network:512 || { failed "$check" "torch-$network" "$target"; continue; }
    ours=$(number samples_per_sec "$work/peers-$network.out") theirs=$(number images_per_s "$work/torch-$network.out")
    row "$network, images/s: ours, PyTorch's" reported "$ours, $theirs" ""
    ratio=$(awk -v a="$ours" -v b="$theirs" 'BEGIN {if (b) printf "%.2f", a / b}')
    if [ -z "$target" ]; then row "$check" reported "$ratio" ""
    else compared "$check" "$ratio" %.2f "x $target" "$target"; fi
  done
}

plan_profile() { echo 'resnet18, bf16, shares of the kernels|'; }

section_profile() {
  local check='resnet18, bf16, shares of the kernels' ncu words
  ncu=$(first_of ncu "${CUDA_HOME:-/usr/local/cuda}/bin/ncu" /usr/local/cuda/bin/ncu)
  [ -n "$ncu" ] || { rest skipped "no ncu in PATH, CUDA_HOME or /usr/local/cuda"; return; }
  mapfile -t words < <(settings)
  # The first steps choose plans; the others have about 200 kernels each.
  if ! quietly profile "$ncu" --csv --print-units base --kernel-name-base function --target-processes all \
    --metrics gpu__time_duration.sum --launch-skip 600 --launch-count 600 "$PROGRAM" train -q --no-record \
    --output "$work/profiled" --config "$configs/resnet18.yaml" --device cuda --set bf16.enabled=true \
    --set train_micro_batch_size_per_gpu=128 --set train.max_steps=8 "${words[@]}"; then
    failed "$check" profile ""
  else
    times_of_kernels "$work/profile.out" >"$OUT/profile.txt"
    if [ -s "$OUT/profile.txt" ]; then
      row "$check" reported "$(awk '{printf "%s%d %% %s", (NR > 1 ? ", " : ""), $1 + 0.5, $4} NR == 5 {exit}' \
        "$OUT/profile.txt")" ""
    else row "$check" FAIL "ncu has measured no kernel" ""; fi
  fi
}

# The ten kernels that take longest, of ncu's CSV: share in %, ns in all, launches, name.
times_of_kernels() {
  awk -F '","' '
    /^"ID"/ {for (i = 1; i <= NF; ++i) {gsub(/"/, "", $i); column[$i] = i}; next}
    /^"[0-9]/ && column["Kernel Name"] {
      name = $column["Kernel Name"]
      value = $column["Metric Value"]
      gsub(/[",]/, "", value)
      ns[name] += value; ++launches[name]; sum += value}
    END {for (name in ns) printf "%.1f %.0f %d %s\n", 100 * ns[name] / sum, ns[name], launches[name], name}' "$1" |
    sort -rn | head -n 10
}

truth() { if [ "$1" = "$2" ]; then echo true; else echo false; fi; }  # truth A B: are they the same?
