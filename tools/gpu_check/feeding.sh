# Sourced by ../gpu_check.sh: how steps get their images. These runs print few of their steps, as ordinary runs do: a
# step that is printed is launched alone.

plan_feeding() {
  echo 'tutorial network, several steps by one launch|same bits'
  echo 'evaluations amid 64 steps that are sent at once|same bits'
  echo 'their losses, launched or replayed|same bits'
  echo 'resnet18, packed pictures sent beside the steps|same bits'
}

section_feeding() {
  if few_images "$work/few"; then data=$work/few; fi
  local few=(--set data.on_corrupt=skip --set train.eval_batch_size=100 --set train.epochs=100
    --set steps_per_print=100)
  local tutorial=(--config "$configs/tutorial.yaml" "${few[@]}" --set train.max_steps=200)
  local amid=("${tutorial[@]}" --set train.eval_interval=45)
  # A step that takes longer than its pictures, so that these are sent ahead.
  local resnet=(--config "$configs/resnet18.yaml" "${few[@]}" --set train_batch_size=64
    --set train_micro_batch_size_per_gpu=64 --set data.size=32 --set data.resize=32 --set train.max_steps=40
    --set train.eval_interval=40 --set train.save_interval=40)
  turn; train launched cuda "${tutorial[@]}" --no-record &
  turn; train replayed cuda "${tutorial[@]}" &
  turn; train amid-launched cuda "${amid[@]}" --no-record &
  turn; train amid-replayed cuda "${amid[@]}" &
  turn; train resident cuda "${resnet[@]}" &
  if quietly pack "$PROGRAM" data convert --quiet --on-corrupt skip --from "$data" --out "$work/packed/few.ctpack"; then
    turn; data=$work/packed train packed-launched cuda "${resnet[@]}" --no-record &
    turn; data=$work/packed train packed-replayed cuda "${resnet[@]}" &
  else failed "resnet18, packed pictures sent beside the steps" pack "same bits"; fi
  all_done
  alike "tutorial network, several steps by one launch" launched replayed
  alike "evaluations amid 64 steps that are sent at once" launched amid-launched amid-replayed
  evaluated_alike "their losses, launched or replayed" amid-launched amid-replayed
  [ ! -e "$work/packed/few.ctpack" ] ||
    alike "resnet18, packed pictures sent beside the steps" resident packed-launched packed-replayed
}

evaluated_alike() {  # evaluated_alike CHECK NAME NAME: pass, if both runs' evaluations have the same losses
  local found
  ended "$1" "same bits" "$2" "$3" || return
  found=$(evaluations "$2")
  if [ -n "$found" ] && [ "$found" = "$(evaluations "$3")" ]; then
    row "$1" pass "$(wc -l <<<"$found") evaluations" "same bits"
  else row "$1" FAIL "they differ" "same bits"; fi
}
