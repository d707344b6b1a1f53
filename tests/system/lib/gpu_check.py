"""Functions of the scripts gpu_check*_test.py: tools/gpu_check.sh without a GPU, its table, made-up programs.

Training runs in the program whose GPU is the host (built beside the real one); other programs are stood in for.
"""
import os

from harness import *

os.environ.setdefault("TMPDIR", "/tmp")  # programs are started from the scratch folder, which /dev/shm may forbid
SCRIPT = os.path.join(CONFIGS, "..", "tools", "gpu_check.sh")
NOT_ALL, NOTHING = 3, 77  # exit codes: rows were skipped or not run; all of them


def script(name, body):
    """A program made of a few lines of shell."""
    at = path(name)
    with open(at, "w") as file:
        file.write("#!/bin/sh\n" + body)
    os.chmod(at, 0o755)
    return at


def start_gpu_check(name, *sections, **env):
    return start(["bash", SCRIPT, *sections], env={"OUT": path(name), **env})


def table_of(name):
    """{(section, check): (result, figure)}."""
    table = path(name, "gpu_check.txt")
    rows = {}
    if os.path.exists(table):
        with open(table) as file:
            lines = file.read().splitlines()
        begin = next(i for i, line in enumerate(lines) if line.startswith("section"))
        at = [lines[begin].index(word) for word in ("section", "check", "result", "figure", "target")]
        for line in lines[begin + 1:]:
            if not line:  # then the counts
                break
            field = [line[a:b].strip() for a, b in zip(at, at[1:] + [None])]
            rows[field[0], field[1]] = (field[2], field[3])
    return rows


def gpu_check(name, *sections, **env):
    """(done, table_of(name), files)."""
    done = finish(start_gpu_check(name, *sections, **env), timeout=300)
    return done, table_of(name), os.listdir(path(name)) if os.path.isdir(path(name)) else []


SELFTEST = "selftest, every operation in f32, bf16 and f16"
COLLECTIVES = "NCCL's collectives, recorded, replayed three times"
DEVICE = ("doctor", SELFTEST, COLLECTIVES)
HEALTHY = r"""
case $1 in
  doctor)
    echo '{'
    for part in "NVIDIA driver" "CUDA runtime" "GPU 0" cuDNN cuBLASLt NVRTC NCCL "launcher"; do
      echo " \"$part\": {"; echo '  "value": "1",'; echo '  "ok": true,'; echo '  "warning": ""'; echo ' },'
    done
    echo ' "last": {}'; echo '}' ;;
  selftest)
    case $* in
      *--collectives*) echo "total   12 collectives, each launched, then recorded and replayed three times" ;;
      *) echo "total                         7  f32 bf16 f16           100 %" ;;
    esac ;;
esac
"""
