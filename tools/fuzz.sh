#!/usr/bin/env bash
# Runs the targets of tests/fuzz/ with libFuzzer, two at a time.
. "$(dirname "$0")/common.sh"

usage() {
  cat <<'HELP'
usage: tools/fuzz.sh [--minutes N] [TARGET...]
Builds the targets of tests/fuzz/ with clang-16 (package libclang-rt-16-dev) in build/fuzz, and runs each, or those
given, for N minutes (10). What a run learns stays in build/fuzz/corpus/TARGET, its output in build/fuzz/TARGET.log. An
input that finds a fault stays in build/fuzz/found/: mend the fault, and add the input to tests/fuzz/cases/TARGET/. The
exit status is 0 only if nothing was found, and 77 without clang-16.
HELP
}

minutes=10
targets=()
while [ $# -gt 0 ]; do
  case $1 in
    --minutes)
      [ $# -ge 2 ] || usage_error "$1 needs a value"
      minutes=$2
      shift
      ;;
    -h | --help) usage; exit 0 ;;
    -*) usage_error "unknown option '$1'" ;;
    *) targets+=("$1") ;;
  esac
  shift
done
[[ $minutes =~ ^[0-9]+$ ]] || usage_error "--minutes $minutes is no whole number"
command -v clang++-16 >/dev/null || { echo "clang++-16 is not installed (packages clang-16 and libclang-rt-16-dev)"; exit 77; }

cd "$root"
known=()
for folder in tests/fuzz/cases/*/; do known+=("$(basename "$folder")"); done
[ ${#targets[@]} -gt 0 ] || targets=("${known[@]}")
for target in "${targets[@]}"; do
  [[ " ${known[*]} " == *" $target "* ]] || usage_error "unknown target '$target': one of ${known[*]}"
done

configure_preset fuzz
cmake --build build/fuzz -j "$jobs" --target "${targets[@]/#/fuzz_}" >&2 || die "the build failed: see the first error above"

# ASan's memory for freed blocks counts as the program's, so it is small.
export ASAN_OPTIONS=quarantine_size_mb=16 UBSAN_OPTIONS=print_stacktrace=1
if [ -w /dev/shm ]; then export TMPDIR=/dev/shm; fi
run() {
  mkdir -p "build/fuzz/corpus/$1" build/fuzz/found
  local status=0
  "build/fuzz/tests/fuzz/fuzz_$1" "build/fuzz/corpus/$1" "tests/fuzz/cases/$1" -max_total_time=$((60 * $2)) \
    -max_len=65536 -timeout=60 -rss_limit_mb=2048 "-artifact_prefix=build/fuzz/found/$1-" >"build/fuzz/$1.log" 2>&1 || status=$?
  printf '%-16s %s\n' "$1" "$([ $status -eq 0 ] && grep -a '^Done' "build/fuzz/$1.log" || echo "FOUND: see build/fuzz/$1.log")"
  return $status
}
export -f run
printf '%s\n' "${targets[@]}" | xargs -P 2 -I{} bash -c "run {} $minutes"
