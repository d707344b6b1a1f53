# Sourced by ../gpu_check.sh: the losses against the CPU's, and checks of equal bits.

plan_training() {
  local optimizer
  for optimizer in SGD AdamW; do
    printf '%s\n' "$(first_check $optimizer)|>= $(enough $optimizer) of $GPU_CHECK_SEEDS" \
      "$(median_check $optimizer)|<= 1e-4" "$optimizer, the same run twice|same bits"
  done
}
first_check() { printf '%s\n' "$1, sets of weights within 1e-5 over $short_steps steps"; }
median_check() { printf '%s\n' "$1, $GPU_CHECK_SEEDS sets, $long_steps steps, median"; }

# enough OPTIMIZER: the required number of weight sets with the CPU's losses. Losses diverge when rounding changes the
# branch of a ReLU or a maximum. AdamW amplifies that, because it scales small gradients up: it needs seven of ten sets.
enough() {
  case $1 in
    SGD) echo "$GPU_CHECK_SEEDS" ;;
    AdamW) echo $(((7 * GPU_CHECK_SEEDS + 9) / 10)) ;;
  esac
}

section_training() {
  local optimizer seed device words runs
  for optimizer in SGD AdamW; do
    words=(--config "$configs/tutorial.yaml" --set steps_per_print=1 --set "train.max_steps=$long_steps")
    [ "$optimizer" = SGD ] || words+=(--set "optimizer={type: AdamW, params: {lr: 0.001}}")
    runs=()
    turn; train "$optimizer-cuda-again" cuda "${words[@]}" --set seed=1 &
    for ((seed = 1; seed <= GPU_CHECK_SEEDS; ++seed)); do
      for device in cuda cpu; do
        runs+=("$optimizer-$device-$seed")
        turn; train "${runs[-1]}" "$device" "${words[@]}" --set "seed=$seed" &
      done
    done
    all_done
    twice "$optimizer"
    if ended "$(first_check $optimizer)" ">= $(enough $optimizer) of $GPU_CHECK_SEEDS" "${runs[@]}"; then
      measured "$optimizer"
    else ended "$(median_check $optimizer)" "<= 1e-4" "${runs[@]}"; fi
  done
}

twice() {  # twice OPTIMIZER
  local check="$1, the same run twice" first=$1-cuda-1 again=$1-cuda-again
  ended "$check" "same bits" "$first" "$again" || return
  if [ "$(weights "$first")" = "$(weights "$again")" ] && [ "$(losses "$first")" = "$(losses "$again")" ]; then
    row "$check" pass "same losses, same weights" "same bits"
  else row "$check" FAIL "they differ" "same bits"; fi
}

measured() {  # measured OPTIMIZER: the distances of its losses from the CPU's
  local optimizer=$1 seed found=$work/$1.distances
  for ((seed = 1; seed <= GPU_CHECK_SEEDS; ++seed)); do
    distances "$optimizer-cpu-$seed" "$optimizer-cuda-$seed" "$short_steps"
  done >"$found"
  {
    printf '\n%s: largest relative distance of a step loss, CPU against GPU: first %d steps, all; steps\n' \
      "$optimizer" "$short_steps"
    cat "$found"
  } >>"$log"
  if ! awk -v n="$long_steps" '$3 != n {exit 1}' "$found"; then
    row "$optimizer" FAIL "not all runs have $long_steps steps" ""
  fi
  local within
  within=$(awk '$1 <= 1e-5 {++n} END {print n + 0}' "$found")
  compared "$(first_check $optimizer)" "$within" \
    "%d, the furthest $(sort -g "$found" | tail -n 1 | cut -d ' ' -f 1)" "x >= $(enough $optimizer)" \
    ">= $(enough $optimizer) of $GPU_CHECK_SEEDS"
  compared "$(median_check $optimizer)" \
    "$(awk '{print $2}' "$found" | sort -g | awk '{x[NR] = $1}
      END {if (NR) print (x[int((NR + 1) / 2)] + x[int(NR / 2) + 1]) / 2}')" \
    %.2g 'x <= 1e-4' '<= 1e-4'
}

plan_bits() {
  echo '1 rank, stages 0-3, recorded or not|same bits'
  echo '2 ranks on one GPU, stages 0-3, recorded or not|same bits'
}

section_bits() {
  local runs
  mapfile -t runs < <(printf -- '-rank-stage-%s\n' {0..3}-record {0..3}-no-record)
  all_stages 1 train cuda
  alike "1 rank, stages 0-3, recorded or not" "${runs[@]/#/1}"
  [ -n "$MPIRUN" ] || { rest skipped "there is no mpirun"; return; }
  all_stages 2 train_on_two
  alike "2 ranks on one GPU, stages 0-3, recorded or not" "1${runs[0]}" "${runs[@]/#/2}"
}

all_stages() {  # all_stages RANKS COMMAND...: into $work/RANKS-rank-stage-STAGE-record, and -no-record
  local stage record words
  for stage in 0 1 2 3; do
    for record in record no-record; do
      words=(--config "$configs/default.yaml" --set gradient_clipping=1 --set steps_per_print=1
        --set "train.max_steps=$short_steps" --set "zero_optimization.stage=$stage")
      [ "$record" = record ] || words+=(--no-record)
      turn; "$2" "$1-rank-stage-$stage-$record" "${@:3}" "${words[@]}" &
    done
  done
  all_done
}
