# Sourced by ../gpu_check.sh: further features, each with a few steps on a few images.

plan_features() {
  cat <<'PLAN'
NCCL, bench reduce|equal to the tree
two ranks on one GPU, bench reduce|equal to the tree
two micro-steps, losses of the CPU|<= 1e-5
bf16, losses of f32|<= 0.03
fp16, losses of f32|<= 0.01
fp16, a scale too large: steps skipped|some, not the last
fp16, a scale too large: recorded or not|same bits
offload_optimizer: cpu|same bits
autotune, losses without|<= 1e-4
autotune, resumed twice from its plans|same bits
tf32, losses without|<= 0.01
stopped and resumed|same bits
eval, loss of the CPU|<= 1e-5
resnet18 in f32, losses of the CPU|<= 1e-3
resnet18 in bf16, losses of f32|<= 0.1
resnet18 in fp16, losses of f32|<= 0.05
PLAN
}

small() {  # small NAME DEVICE WORD...: the tutorial's network, with AdamW
  train "$1" "$2" --config "$configs/tutorial.yaml" --set "optimizer={type: AdamW, params: {lr: 0.001}}" \
    --set data.on_corrupt=skip --set train.eval_batch_size=50 --set steps_per_print=1 --set train.max_steps=8 "${@:3}"
}

resnet() {  # resnet NAME DEVICE WORD...
  train "$1" "$2" --config "$configs/resnet18.yaml" --set data.on_corrupt=skip --set train.eval_batch_size=50 \
    --set steps_per_print=1 --set train.max_steps=4 --set train_batch_size=16 --set train_micro_batch_size_per_gpu=16 \
    "${@:3}"
}

stop_and_resume() {
  small stopped cuda --set train.max_steps=4 &&
    small stopped cuda --resume must
}

tune_and_resume() {
  local name words=(--set model.name=cnn_plain --set cuda.autotune=true)
  small tuned cuda "${words[@]}" --set train.save_interval=4
  for name in tuned-again tuned-once-more; do
    small $name cuda "${words[@]}" --resume "$work/tuned/ckpt/step-00000004"
  done
}

section_features() {
  if few_images "$work/few"; then data=$work/few; fi
  local two=(--set train_batch_size=8) fp16=(--set fp16.enabled=true --set fp16.initial_scale_power=8)
  local skips=(--set fp16.enabled=true --set fp16.initial_scale_power=26 --set fp16.hysteresis=1
    --set train.max_bad_steps=100 --set train.max_steps=24)
  # The runs that several others are compared with come first.
  turn; resnet resnet18-f32 cuda &
  turn; small f32 cuda &
  turn; small plain cuda --set model.name=cnn_plain &
  all_done
  turn; { resnet resnet18-cpu cpu
    close "resnet18 in f32, losses of the CPU" resnet18-f32 resnet18-cpu 1e-3; } &
  turn; { small two cuda "${two[@]}" && small two-cpu cpu "${two[@]}"
    close "two micro-steps, losses of the CPU" two two-cpu 1e-5; } &
  turn; { small bf16 cuda --set bf16.enabled=true
    close "bf16, losses of f32" bf16 f32 0.03 differ; } &
  turn; { small fp16 cuda "${fp16[@]}"
    close "fp16, losses of f32" fp16 f32 0.01 differ; } &
  turn; { small skips cuda "${skips[@]}"
    skipped "fp16, a scale too large: steps skipped" skips
    small skips-unrecorded cuda "${skips[@]}" --no-record
    alike "fp16, a scale too large: recorded or not" skips skips-unrecorded; } &
  turn; { small offload cuda --set zero_optimization.offload_optimizer.device=cpu
    alike "offload_optimizer: cpu" f32 offload; } &
  turn; { stop_and_resume
    alike "stopped and resumed" f32 stopped; } &
  turn; { small tf32 cuda --set model.name=cnn_plain --set cuda.tf32=true
    close "tf32, losses without" tf32 plain 0.01; } &
  turn; { tune_and_resume
    tuned; } &
  turn; { resnet resnet18-bf16 cuda --set bf16.enabled=true
    close "resnet18 in bf16, losses of f32" resnet18-bf16 resnet18-f32 0.1 differ; } &
  turn; { resnet resnet18-fp16 cuda "${fp16[@]}"
    close "resnet18 in fp16, losses of f32" resnet18-fp16 resnet18-f32 0.05 differ; } &
  turn; evaluated "eval, loss of the CPU" &
  turn; reduced "NCCL, bench reduce" reduce-nccl --ranks 1 --set communication.backend=nccl &
  turn; reduced "two ranks on one GPU, bench reduce" reduce-two --ranks 2 --set communication.share_device=true &
  all_done
}

tuned() {
  close "autotune, losses without" tuned plain 1e-4
  if [ -n "$(weights tuned)" ] && [ -z "$(text plans "$work/tuned/ckpt/step-00000004/state.json")" ]; then
    row "autotune, resumed twice from its plans" FAIL "the checkpoint has no plans" "same bits"
  else alike "autotune, resumed twice from its plans" tuned tuned-again tuned-once-more; fi
}

reduced() {  # reduced CHECK NAME WORD...
  local more
  mapfile -t more < <(settings)
  if quietly "$2" "$PROGRAM" bench reduce --config "$configs/tutorial.yaml" --device cuda --json --windows 3 \
    --seconds "$GPU_CHECK_SECONDS" "${@:3}" "${more[@]}" && grep -q '"equal_to_tree": *true' "$work/$2.out"; then
    row "$1" pass "$(number ms "$work/$2.out") ms" "equal to the tree"
  else failed "$1" "$2" "equal to the tree"; fi
}

skipped() {  # skipped CHECK NAME
  local target='some, not the last' counts
  mapfile -t counts < <(grep -a '"event":"step"' "$work/$2/metrics.jsonl" 2>/dev/null |
    sed 's/.*"skipped":\([0-9]*\).*/\1/')
  ended "$1" "$target" "$2" || return
  if [ ${#counts[@]} -lt 2 ]; then row "$1" FAIL "${#counts[@]} steps" "$target"
  elif [ "${counts[0]}" -gt 0 ] && [ "${counts[-1]}" -eq "${counts[-2]}" ]; then
    row "$1" pass "${counts[-1]} of ${#counts[@]}" "$target"
  else row "$1" FAIL "${counts[-1]} of ${#counts[@]}, the first ${counts[0]}" "$target"; fi
}

evaluated() {  # evaluated CHECK
  local device
  ended "$1" "<= 1e-5" f32 || return
  for device in cuda cpu; do
    if ! quietly "eval-$device" "$PROGRAM" eval --ckpt "$work/f32/last.bin" --device "$device" --json; then
      failed "$1" "eval-$device" "<= 1e-5" "$device: "
      return
    fi
  done
  local cuda=$work/eval-cuda.out cpu=$work/eval-cpu.out
  if [ -z "$(number images "$cuda")" ] || [ "$(number images "$cuda")" != "$(number images "$cpu")" ]; then
    row "$1" FAIL "not of the same number of images" "<= 1e-5"
  else
    compared "$1" "$(awk -v a="$(number loss "$cuda")" -v b="$(number loss "$cpu")" \
      'BEGIN {d = b ? (a - b) / b : 1; printf "%.3g", d < 0 ? -d : d}')" %.2g 'x <= 1e-5' '<= 1e-5'
  fi
}
