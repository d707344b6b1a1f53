# Sourced by ../gpu_check.sh: the device, the kernels, and both under compute-sanitizer.

plan_device() {
  echo 'doctor|driver, GPU and libraries are found'
  echo 'selftest, every operation in f32, bf16 and f16|all agree'
  echo "NCCL's collectives, recorded, replayed three times|same bits"
}

section_device() {
  local check target missing
  check=doctor target='driver, GPU and libraries are found'
  if ! quietly doctor "$PROGRAM" doctor --json; then failed "$check" doctor "$target"
  else
    # Each part is {"value": TEXT, "ok": TRUTH, ...}; prints those that are missing or not ok.
    missing=$(tr -d '\n' <"$work/doctor.out" | awk '{
      n = split("NVIDIA driver,CUDA runtime,GPU 0,cuDNN,cuBLASLt,NVRTC,NCCL", part, ",")
      for (i = 1; i <= n; ++i)
        if (!match($0, "\"" part[i] "\": *{[^}]*\"ok\": *true")) printf "%s%s", m++ ? ", " : "", part[i]}
      END {if (!NR) print "it prints nothing"}')
    if [ -z "$missing" ]; then row "$check" pass "see the log" "$target"
    else row "$check" FAIL "not well: $missing" "$target"; fi
  fi

  check='selftest, every operation in f32, bf16 and f16' target='all agree'
  if ! quietly selftest "$PROGRAM" selftest --device cuda; then failed "$check" selftest "$target"
  elif ! grep -qE '^total +[1-9][0-9]* +f32 bf16 f16 ' "$work/selftest.out"; then
    row "$check" FAIL "not in all three types: $(grep -a '^total' "$work/selftest.out")" "$target"
  else row "$check" pass "$(selftested selftest) cases" "$target"; fi

  check="NCCL's collectives, recorded, replayed three times" target='same bits'
  if ! quietly collectives "$PROGRAM" selftest --device cuda --collectives; then failed "$check" collectives "$target"
  elif [ -z "$(selftested collectives)" ]; then row "$check" FAIL "none was run" "$target"
  else row "$check" pass "$(selftested collectives) cases" "$target"; fi
}

selftested() { awk '$1 == "total" && $2 > 0 {print $2}' "$work/$1.out"; }  # selftested NAME: how many cases

plan_kernels() { echo 'tests|all pass'; }

section_kernels() {
  [ -n "$KERNEL_TESTS" ] || { rest skipped "there is no test_kernels_gpu"; return; }
  local status=3 filter='*' passed=0 failed=0 lost=0 name
  # A test that loses the device ends the process: the loop continues with the other tests.
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
  if [ "$status" -eq 124 ]; then failed tests kernels "all pass" "$passed passed; "
  elif [ "$status" -eq 0 ] && [ "$lost" -eq 0 ] && [ "$passed" -gt 0 ]; then
    row tests pass "$passed passed" "all pass"
  else
    row tests FAIL "$passed passed, $failed failed: $(sed -n 's/^\[  FAILED  \] \([^ ,]*\).* (.*/\1/p' \
      "$work/kernels.out" | head -n 3 | tr '\n' ' ')" "all pass"
  fi
}

# checked CHECK NAME SECONDS TOOL COMMAND...
checked() {
  local check=$1 name=$2 limit=$3 tool=$4 status=0 errors
  shift 4
  quietly "$name" "$sanitizer" --tool "$tool" --target-processes all --error-exitcode 99 \
    --report-api-errors no --print-limit 20 "$@" || status=$?
  errors=$(sed -n 's/.*ERROR SUMMARY: \([0-9]*\) .*/\1/p; s/.*RACECHECK SUMMARY: \([0-9]*\) .*/\1/p' \
    "$work/$name.out" | awk '{n += $1} END {if (NR) print n}')
  local found
  found=$(grep -cE 'Invalid __|Race reported|hazard detected|Error: ' "$work/$name.out")
  case $status in
    0)
      if [ "$errors" = 0 ]; then row "$check" pass "0 reports" "0 reports"
      else row "$check" FAIL "${errors:-no summary of} reports" "0 reports"; fi ;;
    124)
      if [ "$found" -gt 0 ]; then row "$check" FAIL "$found reports in at most $limit s" "0 reports"
      elif [ -e "$work/$name.cut" ]; then failed "$check" "$name" "0 reports"
      else row "$check" "not all" "0 reports in $limit s" "0 reports"; fi ;;
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

plan_sanitizer() {
  echo 'memcheck, kernel tests|0 reports'
  echo 'memcheck, training, launched|0 reports'
  echo 'memcheck, training, replayed|0 reports'
  echo 'racecheck, training, replayed|0 reports'
  echo 'racecheck, kernel tests|0 reports'
  echo 'synccheck, kernel tests|0 reports'
}

section_sanitizer() {
  local sanitizer more words
  sanitizer=$(first_of compute-sanitizer "${CUDA_HOME:-/usr/local/cuda}/bin/compute-sanitizer" \
    /usr/local/cuda/bin/compute-sanitizer)
  if [ -z "$sanitizer" ]; then
    rest skipped "no compute-sanitizer in PATH, CUDA_HOME or /usr/local/cuda"
    return
  fi
  mapfile -t more < <(settings)
  local small='-*Large*:*Many*:*TenThousand*'
  [ -z "$KERNEL_TESTS" ] || checked "memcheck, kernel tests" memcheck 18 memcheck "$KERNEL_TESTS"
  # Once several steps are one launch, two such launches and a rest.
  words=("$PROGRAM" train -q --config "$configs/tutorial.yaml" --device cuda "${more[@]}" --set steps_per_print=100
    --set train.eval_batch_size=1000)
  turn; checked "memcheck, training, launched" memcheck_launched 14 memcheck "${words[@]}" --no-record \
    --set train.max_steps=5 --output "$work/memcheck_launched" &
  turn; checked "memcheck, training, replayed" memcheck_replayed 14 memcheck "${words[@]}" \
    --set train.max_steps=24 --output "$work/memcheck_replayed" &
  turn; checked "racecheck, training, replayed" racecheck_replayed 14 racecheck "${words[@]}" \
    --set train.max_steps=24 --output "$work/racecheck_replayed" &
  all_done
  if [ -n "$KERNEL_TESTS" ]; then
    checked "racecheck, kernel tests" racecheck 12 racecheck "$KERNEL_TESTS" "--gtest_filter=$small"
    checked "synccheck, kernel tests" synccheck 10 synccheck "$KERNEL_TESTS" "--gtest_filter=$small"
  fi
  rest skipped "there is no test_kernels_gpu"
}
