#!/usr/bin/env bash
# From a fresh machine to a trained network in one command.
. "$(dirname "$0")/common.sh"
. "$root/tools/gpu.sh"

usage() {
  cat <<'HELP'
usage: tools/quickstart.sh [--gpu] [--no-install] [--fresh]
Installs the packages, builds and installs cifar-train, trains the default configuration into runs/quickstart and
evaluates it. A second call resumes the training, or repeats the evaluation if the training is complete. With a CUDA
toolkit, the program is built with GPUs: for those of this machine, or without one for all supported GPUs.
  --gpu          without a CUDA toolkit, install one with pip: tools/install_cuda.sh (1.2 GB)
  --no-install   do not install system packages
  --fresh        replace the run in runs/quickstart by a new one
Environment: PREFIX=DIR installs there (default: /usr/local as root, otherwise ~/.local).
HELP
}

packages=yes
gpu=no
resume=()
for argument in "$@"; do
  case $argument in
    --gpu) gpu=yes ;;
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

# configure [-DKEY=VALUE]: for the GPUs of this machine, or without one for all supported GPUs; `said` is CMake's
# result.
configure() {
  local found architectures=-UCMAKE_CUDA_ARCHITECTURES
  found=$(gpu_architectures)
  [ -z "$found" ] || architectures=-DCMAKE_CUDA_ARCHITECTURES=$found
  said=$(configure_preset release "$architectures" "$@" 2>&1) ||
    { printf '%s\n' "$said" >&2; exit 1; }
}

if [ $packages = yes ] && { [ $gpu = yes ] || "$root/tools/cuda_roots.sh" >/dev/null 2>&1; }; then
  "$root/tools/install_packages.sh" --cuda || say "continuing without python3-venv"
fi
cuda_headers
configure
offer=
if [[ $said == *'-- without GPUs'* ]] && { [ $gpu = yes ] || gpu_here /; }; then
  driver=$(gpu_driver /)
  if ! serves_cuda_13 "$driver"; then
    offer="the NVIDIA driver $driver is older than 580, which the toolkit of --gpu needs: update it, or install CUDA's
toolkit 12.8 or 12.9 with cuDNN 9.8 or later and NCCL, and run this again"
    [ $gpu = no ] || die "$offer"
  elif [ $gpu = no ]; then
    offer="this machine has an NVIDIA GPU, but CUDA is missing or incomplete: tools/quickstart.sh --gpu installs it (1.2
GB, into .third_party/cuda)"
  else
    "$root/tools/install_cuda.sh"
    cuda_headers
    configure -DCT_WITH_CUDA=ON
  fi
fi
printf '%s\n' "$said" >&2
[ -z "$offer" ] || say "$offer"

say "building (build/release)"
cmake --build --preset release --target cifar-train -j "$jobs" >&2 || die "the build failed: see the first error above"
cmake --install build/release --prefix "$prefix" >/dev/null ||
  die "cannot install into $prefix: give a writable folder with PREFIX=DIR"
say "installed $prefix/bin/cifar-train"

program=$prefix/bin/cifar-train
name=$program
[ "$(command -v cifar-train || true)" != "$program" ] || name=cifar-train
launcher=mpirun
[ "$(id -u)" -ne 0 ] || launcher="OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun"
run=runs/quickstart

# device_of_run: the device of the latest training; starts_of_run: the number of starts and resumptions.
device_of_run() { sed -n 's/.*"event":"start".*"device":"\([^"]*\)".*/\1/p' "$run/metrics.jsonl" | tail -n 1; }
starts_of_run() { grep -c '"event":"start"' "$run/metrics.jsonl" 2>/dev/null || true; }
before=$(starts_of_run)
"$program" train --config default.yaml --output "$run" ${resume[@]+"${resume[@]}"} || {
  status=$?
  say "training ended with exit code $status; if $run is a run with other data or settings: tools/quickstart.sh --fresh"
  exit $status
}
"$program" eval --ckpt "$run/best.bin"

trained=Trained
again=
if [ "$(starts_of_run)" = "$before" ]; then
  trained="Trained before this,"
  again="; tools/quickstart.sh --fresh trains again"
fi
cat <<DONE

$trained on: $(device_of_run)$again
The run's files are in $root/$run:
  best.bin, last.bin   weights (safetensors)
  metrics.jsonl        one record per line: steps, evaluations, checkpoints
  config.yaml          the run's configuration
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
[ -z "$offer" ] || say "$offer"
