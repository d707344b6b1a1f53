# Sourced by ../gpu_check.sh: the losses against the CPU's, and what may not change a bit.

plan_training() {
  local optimizer
  for optimizer in SGD AdamW; do
    printf '%s\n' "$optimizer, $GPU_CHECK_SEEDS sets, first $short_steps steps, largest|<= 1e-5" \
      "$optimizer, $GPU_CHECK_SEEDS sets, $long_steps steps, median|<= 1e-4" \
      "$optimizer, the same run twice|same bits"
  done
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
      distances "$optimizer-cpu-$seed" "$name" "$short_steps" >>"$work/$optimizer.distances"
    done
    {
      printf '\n%s: largest relative distance of a step loss, CPU against GPU: first %d steps, all; steps\n' \
        "$optimizer" "$short_steps"
      cat "$work/$optimizer.distances"
    } >>"$log"
    if ! awk -v n="$long_steps" '$3 != n {exit 1}' "$work/$optimizer.distances"; then
      row "$optimizer" FAIL "not all runs have $long_steps steps" ""
    fi
    compared "$optimizer, $GPU_CHECK_SEEDS sets, first $short_steps steps, largest" \
      "$(sort -g -k 1,1 "$work/$optimizer.distances" | awk '{x = $1} END {if (NR) print x}')" %.2g 'x <= 1e-5' '<= 1e-5'
    compared "$optimizer, $GPU_CHECK_SEEDS sets, $long_steps steps, median" \
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

plan_bits() {
  echo '1 rank, stages 0-3, recorded or not|same bits'
  echo '2 ranks on one GPU, stages 0-3, recorded or not|same bits'
}

section_bits() {
  local stage record words runs=()
  for stage in 0 1 2 3; do
    for record in record no-record; do
      words=(--config "$configs/default.yaml" --set gradient_clipping=1 --set steps_per_print=1
        --set "train.max_steps=$short_steps" --set "zero_optimization.stage=$stage")
      [ "$record" = record ] || words+=(--no-record)
      runs+=("stage-$stage-$record")
      in_turn train "1-rank-${runs[-1]}" cuda "${words[@]}"
      [ -z "$MPIRUN" ] || in_turn train_on_two "2-ranks-${runs[-1]}" "${words[@]}"
    done
  done
  wait
  alike "1 rank, stages 0-3, recorded or not" "${runs[@]/#/1-rank-}"
  if [ -n "$MPIRUN" ]; then
    alike "2 ranks on one GPU, stages 0-3, recorded or not" "1-rank-${runs[0]}" "${runs[@]/#/2-ranks-}"
  fi
  rest skipped "there is no mpirun"
}
