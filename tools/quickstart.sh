#!/usr/bin/env bash
# From a fresh machine to a trained network in one command.
. "$(dirname "$0")/common.sh"

usage() {
  cat <<'HELP'
usage: tools/quickstart.sh [--no-install] [--fresh]
Installs the packages, builds and installs cifar-train, trains the default configuration into runs/quickstart and
evaluates it. Run again, it continues or repeats the evaluation.
  --no-install   do not touch the system's packages
  --fresh        forget the earlier run in runs/quickstart and train anew
Environment: PREFIX=DIR installs there (default: /usr/local as root, otherwise ~/.local).
HELP
}

packages=yes
resume=()
for argument in "$@"; do
  case $argument in
    --no-install) packages=no ;;
    --fresh) resume=(--reset) ;;
    -h | --help) usage; exit 0 ;;
    *) usage_error "unknown option '$argument'" ;;
  esac
done

if [ -n "${PREFIX:-}" ]; then
  prefix=$PREFIX
elif [ "$(id -u)" -eq 0 ]; then
  prefix=/usr/local
else
  prefix=${HOME:?error: HOME is not set: give PREFIX=DIR}/.local
fi

[ $packages = no ] || "$root/tools/install_packages.sh"
cd "$root"
say "building (build/release)"
configure_preset release
cmake --build --preset release --target cifar-train -j "$jobs" >&2 || die "the build failed: see the first error above"
cmake --install build/release --prefix "$prefix" >/dev/null ||
  die "cannot install into $prefix: give a folder that you may write, PREFIX=DIR"
say "installed $prefix/bin/cifar-train"

program=$prefix/bin/cifar-train
name=$program
[ "$(command -v cifar-train || true)" != "$program" ] || name=cifar-train
launcher=mpirun
[ "$(id -u)" -ne 0 ] || launcher="OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun"
run=runs/quickstart

"$program" train --config default.yaml --output "$run" ${resume[@]+"${resume[@]}"} || {
  status=$?
  say "training ended with exit code $status; if $run holds a run of other data or settings: tools/quickstart.sh --fresh"
  exit $status
}
"$program" eval --ckpt "$run/best.bin"

cat <<DONE

The run lies in $root/$run:
  best.bin, last.bin   weights (safetensors)
  metrics.jsonl        one record a line: steps, evaluations, checkpoints
  config.yaml          the configuration that was used
Next:
  $name eval --ckpt $run/best.bin
  $name --config tutorial.yaml --output runs/tutorial
  $launcher -np 2 $name --config default.yaml --output runs/two
  $name --help
Real CIFAR-10 goes into data/cifar-10-batches-bin: see data/README.md.
DONE
if [ "$name" != cifar-train ]; then
  say "notice: $prefix/bin is not (first) on your PATH; put it there with: export PATH=\"$prefix/bin:\$PATH\""
fi
