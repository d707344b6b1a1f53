#!/usr/bin/env bash
# Builds everything and runs every test; the last line is the total.
. "$(dirname "$0")/common.sh"

usage() {
  cat <<'HELP'
usage: tools/test.sh [--preset NAME] [--unit] [--only FLOOR[,FLOOR...]] [--filter PATTERN] [--full] [--no-install]
Installs the packages, builds and runs the tests. The last line reads "N passed, N failed, N skipped"; the exit status
is 0 only when nothing failed.
  --preset NAME     release (default), cpu, asan or tsan; the build is in build/NAME
  --unit            only the unit tests, without the tests that run the program
  --only FLOORS     only the unit tests of these folders of src/, for example comm,train
  --filter PATTERN  GoogleTest's filter, for example 'Threads*:*Tree*'; a test program without a match fails
  --full            the long suites at their full counts, about half an hour; run nothing else meanwhile
  --no-install      do not install system packages
HELP
}

preset=release
packages=yes
unit=no
floors=()
while [ $# -gt 0 ]; do
  case $1 in
    --preset | --only | --filter)
      [ $# -ge 2 ] || usage_error "$1 needs a value"
      case $1 in
        --preset) preset=$2 ;;
        --only) IFS=, read -ra floors <<<"$2" ;;
        --filter) export GTEST_FILTER=$2 ;;
      esac
      shift
      ;;
    --unit) unit=yes ;;
    --full) export CIFAR_TRAIN_FULL=1 CIFAR_TRAIN_KILLS=200 CIFAR_TRAIN_EVALUATIONS=1000 CIFAR_TRAIN_SUPERVISION=full ;;
    --no-install) packages=no ;;
    -h | --help) usage; exit 0 ;;
    *) usage_error "unknown option '$1'" ;;
  esac
  shift
done
case $preset in
  release | cpu | asan | tsan) ;;
  *) usage_error "unknown preset '$preset': one of release, cpu, asan, tsan" ;;
esac

targets=()
select=()
if [ ${#floors[@]} -gt 0 ]; then
  targets=(--target "${floors[@]/#/test_}")
  select=(-R "^($(IFS='|'; echo "${floors[*]}"))(-[0-9]+)?\$" -L unit)
elif [ $unit = yes ]; then
  targets=(--target unit_tests)
  select=(-L unit)
fi

[ $packages = no ] || "$root/tools/install_packages.sh"
if [ "$preset" = release ]; then
  cuda_headers
  ! "$root/tools/cuda_roots.sh" >/dev/null 2>&1 || "$root/tools/install_cuobjdump.sh" || true
fi
cd "$root"
say "building (build/$preset)"
configure_preset "$preset"
cmake --build --preset "$preset" -j "$jobs" ${targets[@]+"${targets[@]}"} >&2 || die "the build failed: see the first error above"

# ThreadSanitizer of g++ 12 and 13 fails with the address randomisation of newer kernels.
launch=()
if [ "$preset" = tsan ] && setarch "$(uname -m)" -R true 2>/dev/null; then
  launch=(setarch "$(uname -m)" -R)
fi

results=$root/build/$preset/test-results
rm -rf "$results"
mkdir -p "$results"
status=0
# One more job than cores, because many tests mostly wait.
${launch[@]+"${launch[@]}"} ctest --preset "$preset" -j $((jobs + 1)) ${select[@]+"${select[@]}"} \
  --test-output-size-passed 65536 --output-junit "$results/ctest.xml" </dev/null || status=$?
[ -s "$results/ctest.xml" ] || die "ctest ran no test (exit $status)"
exec python3 tools/test_report.py "$results" "$status"
