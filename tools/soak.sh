#!/usr/bin/env bash
# Disturbs training for a long time and compares every checkpoint with those of an undisturbed run.
. "$(dirname "$0")/common.sh"

usage() {
  cat <<'HELP'
usage: tools/soak.sh [--minutes N] [--seed N] [--build DIR]
Trains one configuration again and again. Each start has other numbers of ranks and ZeRO stages, and is killed, stopped,
suspended, short of disk space or set to another time of day at a random moment. Every checkpoint must have the tensors of
an undisturbed run at its step, and memory, descriptors, /dev/shm and the run's folder may not grow (memory: by more than
5 %, which the medians of few samples differ anyway). The last line is the result, and says what there were too few
samples of; the exit status is 0 if nothing failed.
  --minutes N  how long (60)
  --seed N     of the random moments (1)
  --build DIR  the build folder (build/release)
As root the run's folder is on a small tmpfs, which is filled from time to time; otherwise a limit of file sizes takes
its place. Jumps of the clock need libfaketime (Debian: faketime).
HELP
}

build=$root/build/release
words=()
while [ $# -gt 0 ]; do
  case $1 in
    --minutes | --seed | --build)
      [ $# -ge 2 ] || usage_error "$1 needs a value"
      if [ "$1" = --build ]; then build=$2; else words+=("$1" "$2"); fi
      shift
      ;;
    -h | --help) usage; exit 0 ;;
    *) usage_error "unknown option '$1'" ;;
  esac
  shift
done
[ -x "$build/cifar-train" ] || die "there is no $build/cifar-train: build it first, or give --build DIR"
CIFAR_TRAIN=$build/cifar-train exec python3 "$root/tests/soak/soak.py" "${words[@]}"
