#!/usr/bin/env bash
# Downloads the headers of cuDNN's C++ frontend into .third_party/cudnn-frontend/, where CMake finds them. Only a build
# with GPUs needs them. If they are installed, the script does nothing. Without pip or a network it exits with 77.
. "$(dirname "$0")/common.sh"

version=1.32.0
# Hashes of the package of one Python version; all have the same headers.
declare -A hashes=(
  [x86_64]=c6006556017a4d1c914c52a556c71b1267f2d6a0500f742e7b4edef539878df0
  [aarch64]=15736b7f9eb12ea04bd78ebcc64ae654891ae496d8cb3788e721330ac7b07b9b
)

usage() {
  cat <<'HELP'
usage: tools/install_cudnn_frontend.sh
Downloads the headers of cuDNN's C++ frontend by pip, checked against a fixed hash, into .third_party/cudnn-frontend/.
HELP
}

case ${1:-} in
  '') ;;
  -h | --help) usage; exit 0 ;;
  *) usage_error "unknown option '$1'" ;;
esac

to=$root/.third_party/cudnn-frontend
if [ -f "$to/include/cudnn_frontend.h" ] && [ "$(cat "$to/version" 2>/dev/null)" = $version ]; then
  exit 0
fi

skip() { say "skipped: $*"; exit 77; }

machine=$(uname -m)
[ -n "${hashes[$machine]:-}" ] || skip "there is no package of cuDNN's frontend for $machine"
python=python3
if ! python3 -m pip --version >/dev/null 2>&1; then
  python=$root/.third_party/python/bin/python3
  [ -x "$python" ] || python3 -m venv "$root/.third_party/python" >/dev/null 2>&1 ||
    skip "there is no pip: install python3-venv, and run this again"
fi

mkdir -p "$root/.third_party"
work=$(mktemp -d "$root/.third_party/download.XXXXXX")
trap 'rm -rf "$work"' EXIT
echo "nvidia-cudnn-frontend==$version --hash=sha256:${hashes[$machine]}" >"$work/requirements.txt"
if ! "$python" -m pip download --retries 1 --quiet --disable-pip-version-check --no-deps --only-binary=:all: --require-hashes \
  --python-version 3.11 --implementation cp --abi cp311 --platform "manylinux_2_28_$machine" \
  --dest "$work" --requirement "$work/requirements.txt" >"$work/log" 2>&1; then
  if grep -q 'DO NOT MATCH THE HASHES' "$work/log"; then
    die "nvidia-cudnn-frontend $version has a different hash from the expected one: compare it with the one in this script"
  fi
  skip "pip cannot download nvidia-cudnn-frontend $version: $(grep -m 1 '^ERROR' "$work/log" || tail -n 1 "$work/log")"
fi

python3 - "$work" <<'PYTHON'
import pathlib, sys, zipfile

work = pathlib.Path(sys.argv[1])
(wheel,) = work.glob("*.whl")
with zipfile.ZipFile(wheel) as files:
    wanted = [name for name in files.namelist() if name.startswith("include/") or ".dist-info/licenses/" in name]
    files.extractall(work / "cudnn-frontend", wanted)
PYTHON
[ -f "$work/cudnn-frontend/include/cudnn_frontend.h" ] || die "nvidia-cudnn-frontend $version lacks cudnn_frontend.h"
echo $version >"$work/cudnn-frontend/version"
rm -rf "$to"
mv "$work/cudnn-frontend" "$to"
say "cuDNN's frontend $version is in ${to#"$root"/}"
