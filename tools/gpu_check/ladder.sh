# Sourced by ../gpu_check.sh: networks that use more and more of the program, each first launched, then recorded. The
# first failing row locates the fault.

plan_ladder() {
  local rung
  for rung in 'tutorial network' cnn_plain 'linear, batch 2048' 'resnet18, bf16'; do
    printf '%s, launched|ends well\n%s, replayed|same bits\n' "$rung" "$rung"
  done
}

section_ladder() {
  rung 'tutorial network' tutorial --config "$configs/tutorial.yaml"  # our own kernels alone
  rung cnn_plain cnn_plain --config "$configs/tutorial.yaml" --set model.name=cnn_plain  # cuDNN's convolutions
  rung 'linear, batch 2048' linear --config "$configs/linear.yaml" --set train_batch_size=2048 \
    --set train_micro_batch_size_per_gpu=2048  # cuBLASLt's products
  rung 'resnet18, bf16' resnet18 --config "$configs/resnet18.yaml" --set bf16.enabled=true  # all of it, in tensor cores
}

rung() {  # rung CHECK NAME WORD...
  local check=$1 name=$2 limit=14 words
  words=("${@:3}" --set steps_per_print=1 --set train.max_steps=20)
  train "$name-launched" cuda "${words[@]}" --no-record
  ! ended "$check, launched" "ends well" "$name-launched" ||
    row "$check, launched" pass "loss $(losses "$name-launched" | sed -n '1p; $p' | tr '\n' ' ')" "ends well"
  train "$name-replayed" cuda "${words[@]}"
  alike "$check, replayed" "$name-launched" "$name-replayed"
}
