"""tools/gpu_check.sh: its table, its budgets and what it makes of failures, without a GPU.

Training runs in the program whose GPU is the host (built beside the real one); other programs are stood in for.
"""
import glob
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import *

os.environ.setdefault("TMPDIR", "/tmp")  # programs are started from the scratch folder, which /dev/shm may forbid
SCRIPT = os.path.join(CONFIGS, "..", "tools", "gpu_check.sh")
NOT_ALL, NOTHING = 3, 77  # exit codes: rows were skipped or not run; all of them
ON_HOST = os.path.join(os.path.dirname(PROGRAM), "cifar-train-on-host")


def script(name, body):
    """A program of a few lines of shell."""
    at = path(name)
    with open(at, "w") as file:
        file.write("#!/bin/sh\n" + body)
    os.chmod(at, 0o755)
    return at


def gpu_check(name, *sections, **env):
    """(done, rows by (section, check): (result, figure), files)."""
    out = path(name)
    done = finish(start(["bash", SCRIPT, *sections], env={"OUT": out, **env}), timeout=300)
    table = os.path.join(out, "gpu_check.txt")
    rows = {}
    if os.path.exists(table):
        with open(table) as file:
            lines = file.read().splitlines()
        begin = next(i for i, line in enumerate(lines) if line.startswith("section"))
        at = [lines[begin].index(word) for word in ("section", "check", "result", "figure", "target")]
        for line in lines[begin + 1:]:
            field = [line[a:b].strip() for a, b in zip(at, at[1:] + [None])]
            rows[field[0], field[1]] = (field[2], field[3])
    return done, rows, os.listdir(out) if os.path.isdir(out) else []


def need_on_host():
    if not os.path.exists(ON_HOST):
        raise Skip("there is no cifar-train-on-host beside the program")


@check
def without_a_gpu():
    if shutil.which("nvidia-smi") or glob.glob("/dev/nvidia[0-9]*") or os.path.exists("/dev/dxg"):
        raise Skip("there may be a GPU")
    done, _, _ = gpu_check("none", PROGRAM=PROGRAM)
    expect_equal(done.returncode, 77, done.stdout, done.stderr)
    expect_equal(len(done.stdout.splitlines()), 1)
    expect(done.stdout.startswith("error: "), done.stdout)
    expect(not os.path.exists(path("none")), "it has left something behind")


@check
def unknown_section():
    done, _, _ = gpu_check("unknown", "everything", PROGRAM=PROGRAM)
    expect_equal(done.returncode, USAGE)
    expect("'everything'" in done.stderr, done.stderr)


@check
def losses_and_bits_are_compared():
    need_on_host()
    done, rows, files = gpu_check(
        "on-host", "training:200", "bits:200", PROGRAM=ON_HOST, GPU_CHECK_DATA=few(train=80, test=8),
        GPU_CHECK_STEPS="2 3", GPU_CHECK_SEEDS="2",
        GPU_CHECK_SET="model.name=linear data.on_corrupt=skip train.eval_batch_size=8", ON_HOST_DEVICES="1")
    text = "\n".join(map(str, rows.items())) + done.stderr
    for optimizer in ("SGD", "AdamW"):
        for what in ("first 2 steps, largest", "3 steps, median"):
            result, figure = rows["training", "%s, 2 sets, %s" % (optimizer, what)]
            expect_equal(result, "met", text)
            expect(0 <= float(figure) <= 1e-5, text)
        expect_equal(rows["training", optimizer + ", the same run twice"][0], "pass", text)
    expect_equal(rows["bits", "1 rank, stages 0-3, recorded or not"], ("pass", "8 runs"), text)
    two = rows["bits", "2 ranks on one GPU, stages 0-3, recorded or not"]
    expect_equal(two, ("pass", "9 runs") if has_mpi() else ("skipped", "there is no mpirun"), text)
    expect_equal(done.returncode, DONE if has_mpi() else NOT_ALL, text)
    expect_equal(sorted(files), ["gpu_check.log", "gpu_check.txt"])


FEATURES = 18  # rows
# Its runs differ by their folders' names alone, and the wrong ones by the variable WRONG.
FEATURED = r"""
for word; do
  case $before in --output) out=$word ;; --device) device=$word ;; --ckpt) ckpt=$word ;; esac
  before=$word
done
name=${out##*/}
if [ "$1" = train ]; then
  [ "$WRONG" != fails ] || { echo "error: no memory"; exit 6; }
  loss=2 skipped=0 last=0 collectives=solo
  case $name in
    f32 | offload | stopped) weights=a ;;
    nccl) weights=a collectives="1 rank, NCCL 2" ;;
    nccl-3) weights=b collectives="1 rank, NCCL 2" ;;
    two) weights=b ;;
    tuned*) weights=c ;;
    skips*) weights=d skipped=1 last=2 ;;
    bf16 | fp16 | *-bf16 | *-fp16) weights=$name loss=2.001 ;;
    *) weights=$name ;;
  esac
  if [ "$WRONG" = all ]; then
    case $name in
      nccl) collectives=solo ;;
      nccl-3 | offload | stopped | tuned-once-more | skips-unrecorded) weights=wrong ;;
      bf16) loss=2 ;;
      skips) skipped=0 ;;
      two-cpu | fp16 | tuned | tf32 | resnet18-cpu | resnet18-*16) loss=3 ;;
    esac
  fi
  [ "$WRONG$name" != someskips ] || last=3
  mkdir -p "$out/ckpt/step-00000004"
  echo '{"plans": "key\\tplan"}' >"$out/ckpt/step-00000004/state.json"
  [ "$WRONG" != some ] || echo '{"plans": ""}' >"$out/ckpt/step-00000004/state.json"
  {
    echo "{\"event\":\"start\",\"collectives\":\"$collectives\"}"
    for count in "$skipped" 2 "$last"; do
      echo "{\"event\":\"step\",\"loss\":$loss,\"skipped\":$count,\"samples\":1}"
    done
    echo "{\"event\":\"end\",\"weights_sha256\":\"$weights\"}"
  } >"$out/metrics.jsonl"
fi
if [ "$1" = eval ]; then
  [ "$WRONG" != fails ] || exit 1
  [ "$WRONG$device" = allcuda ] && loss=1.1 || loss=1
  echo "{\"event\":\"eval\",\"loss\":$loss,\"images\":100}"
fi
if [ "$1 $2" = "bench reduce" ]; then
  [ -z "$WRONG" ] || { echo "error: the sum over ranks differs from the tree"; exit 1; }
  echo '{"ms": 1.5, "equal_to_tree": true}'
fi
exit 0
"""


@functools.lru_cache(None)
def features(wrong=""):
    done, rows, _ = gpu_check("features-" + wrong, "features", PROGRAM=script("featured", FEATURED),
                              GPU_CHECK_DATA=scratch(), WRONG=wrong)
    text = "\n".join(map(str, rows.items())) + done.stderr
    return done, {check: row for (_, check), row in rows.items()}, text


@check
def features_that_hold():
    done, rows, text = features()
    expect_equal(len(rows), FEATURES, text)
    expect_equal({result for result, _ in rows.values()}, {"pass", "met"}, text)
    expect_equal(done.returncode, DONE, text)


@check
def a_wrong_result_of_every_feature_is_found():
    """Everything that is compared differs, or nothing runs: no row may pass."""
    right = features()[1]
    for wrong in ("all", "fails"):
        done, rows, text = features(wrong)
        expect_equal({check: rows[check][0] for check in right if rows[check][0] not in ("FAIL", "MISSED")}, {}, text)
        expect_equal(done.returncode, BUG, text)
    rows = features("some")[1]
    expect_equal([name for name in right if rows[name][0] == "FAIL" and "reduce" not in name],
                 ["fp16, a scale too large: steps skipped", "autotune, resumed twice from its plans"], rows)


@check
def features_on_the_host():
    """Through the whole program. One linear layer overflows at no scale, and has no plans: two rows that fail."""
    need_on_host()
    done, rows, _ = gpu_check("featured-on-host", "features:300", PROGRAM=ON_HOST, ON_HOST_DEVICES="1",
                              GPU_CHECK_DATA=few(train=200, test=100), GPU_CHECK_SET="model.name=linear",
                              GPU_CHECK_SECONDS="0.001")
    text = "\n".join(map(str, rows.items())) + done.stderr
    expect_equal(len(rows), FEATURES, text)
    expect_equal([check for (_, check), (result, _) in rows.items() if result not in ("pass", "met")],
                 ["fp16, a scale too large: steps skipped", "autotune, resumed twice from its plans"], text)
    expect_equal(done.returncode, BUG, text)


@check
def different_losses_are_found():
    """A program whose GPU computes something else: each device has its own losses, and one run ends early."""
    program = script("other", r'''
for word; do
  case $before in --output) out=$word ;; --device) device=$word ;; esac
  case $word in seed=*) seed=${word#seed=} ;; esac
  before=$word
done
[ "$1" = train ] || exit 0
mkdir -p "$out"
[ "$device" = cpu ] && losses="2 1 0.5" || losses="2.00001 1.1 0.5"
[ "$out" = "${out%AdamW-cuda-2}" ] || losses="2 1"
for loss in $losses; do echo "{\"event\":\"step\",\"loss\":$loss,\"lr\":1}"; done >"$out/metrics.jsonl"
[ "$out" = "${out%SGD-cpu-2}" ] || { echo "error: no memory"; exit 6; }
echo "{\"event\":\"end\",\"weights_sha256\":\"$out\"}" >>"$out/metrics.jsonl"
''')
    done, rows, _ = gpu_check("different", "training", PROGRAM=program, GPU_CHECK_DATA=scratch(), GPU_CHECK_STEPS="1 3",
                              GPU_CHECK_SEEDS="2")
    text = "\n".join(map(str, rows.items())) + done.stderr
    expect_equal(rows["training", "SGD, seed 2, CPU"], ("FAIL", "error: no memory"), text)
    expect_equal(rows["training", "SGD, 2 sets, first 1 steps, largest"], ("met", "5e-06"), text)
    expect_equal(rows["training", "SGD, 2 sets, 3 steps, median"], ("MISSED", "0.1"), text)
    expect_equal(rows["training", "SGD, the same run twice"][0], "FAIL", text)
    expect_equal(rows["training", "AdamW"], ("FAIL", "not all runs have 3 steps"), text)
    expect_equal(rows["training", "AdamW, the same run twice"][0], "FAIL", text)  # their weights differ
    expect_equal(done.returncode, BUG, text)


SELFTEST = "selftest, every operation in f32, bf16 and f16"
HEALTHY = r"""
case $1 in
  doctor)
    echo '{'
    for part in "NVIDIA driver" "CUDA runtime" "GPU 0" cuDNN cuBLASLt NCCL "launcher"; do
      echo " \"$part\": {"; echo '  "value": "1",'; echo '  "ok": true,'; echo '  "warning": ""'; echo ' },'
    done
    echo ' "last": {}'; echo '}' ;;
  selftest) echo "total                         7  f32 bf16 f16           100 %" ;;
esac
"""


@check
def what_the_doctor_and_the_selftest_miss():
    for name, changes, ill, why in (
            ("nccl", [('cuBLASLt NCCL "launcher"', 'cuBLASLt "launcher"')], "doctor", "not well: NCCL"),
            ("gpu", [('"ok": true', '"ok": false')], "doctor", "not well: NVIDIA driver, CUDA runtime, GPU 0"),
            ("f16", [("bf16 f16", "bf16")], SELFTEST, "not in all three types"),
            ("none", [("7  f32", "0  f32")], SELFTEST, "not in all three types")):
        body = HEALTHY
        for a, b in changes:
            expect(a in body, a)
            body = body.replace(a, b)
        done, rows, _ = gpu_check(name, "device", PROGRAM=script("ill", body), GPU_CHECK_DATA=scratch())
        result, figure = rows["device", ill]
        expect(result == "FAIL" and why in figure, rows)
        expect_equal([check for (_, check), row in rows.items() if row[0] == "pass"],
                     [check for check in ("doctor", SELFTEST) if check != ill])
        expect_equal(done.returncode, BUG)


@check
def a_section_that_hangs_or_fails_stops_no_other():
    program = script("fine", HEALTHY)
    tests = script("hangs", "echo '[       OK ] A.B (1 ms)'\nsleep 100\n")
    benchmark = script("fails", "echo 'error: kernel_benchmark: a lost device' >&2\nexit 1\n")
    begin = time.monotonic()
    done, rows, _ = gpu_check("hangs-out", "kernels:2", "device", "speed", PROGRAM=program, KERNEL_TESTS=tests,
                              KERNEL_BENCHMARK=benchmark, GPU_CHECK_DATA=scratch())
    text = "\n".join(map(str, rows.items())) + done.stderr
    expect(time.monotonic() - begin < 60, "the hanging section was not stopped")
    expect_equal(rows["kernels", ""], ("FAIL", "stopped after its 2 s"), text)
    expect_equal(rows["kernels", "tests"][0], "not run", text)
    expect_equal(rows["device", SELFTEST], ("pass", "7 cases"), text)
    expect_equal(rows["device", "doctor"][0], "pass", text)
    expect_equal(rows["speed", "kernels at large sizes"], ("FAIL", "error: kernel_benchmark: a lost device"), text)
    expect_equal(rows["speed", "copy"][0], "not run", text)
    expect_equal(done.returncode, BUG, text)


@check
def tests_go_on_after_one_that_loses_the_device():
    tests = script("loses", r'''
case $* in
  *'-A.Bad:'*) echo '[       OK ] A.Good (1 ms)'; echo '[       OK ] A.Other (1 ms)' ;;
  *) echo '[       OK ] A.Good (1 ms)'; echo 'the device is lost after A.Bad: an illegal memory access'; exit 3 ;;
esac
''')
    done, rows, _ = gpu_check("lost", "kernels", PROGRAM=script("fine", ""), KERNEL_TESTS=tests,
                              GPU_CHECK_DATA=scratch())
    text = "\n".join(map(str, rows.items())) + done.stderr
    expect_equal(rows["kernels", "A.Bad"], ("FAIL", "an illegal memory access"), text)
    expect_equal(rows["kernels", "tests"][0], "FAIL", text)
    expect("2 passed" in rows["kernels", "tests"][1], text)
    expect_equal(done.returncode, BUG, text)


@check
def reports_of_the_sanitizer():
    """Of a stand-in: none for the tests, two for training, and a racecheck that fails for another reason."""
    script("compute-sanitizer", r'''
case $* in
  *racecheck*) echo "Error: unsupported device"; exit 1 ;;
  *" train -q "*) echo "========= Invalid __global__ read"; echo "========= ERROR SUMMARY: 2 errors"; exit 99 ;;
esac
echo "========= ERROR SUMMARY: 0 errors"
''')
    done, rows, _ = gpu_check("sanitized", "sanitizer", PROGRAM=script("fine", ""), KERNEL_TESTS=script("passes", ""),
                              GPU_CHECK_DATA=scratch(), PATH=scratch() + os.pathsep + os.environ["PATH"])
    text = "\n".join(map(str, rows.items())) + done.stderr
    expect_equal(rows["sanitizer", "memcheck, kernel tests"], ("pass", "0 reports"), text)
    expect_equal(rows["sanitizer", "memcheck, training"], ("FAIL", "2 reports"), text)
    expect_equal(rows["sanitizer", "racecheck, kernel tests"][0], "FAIL", text)
    expect("unsupported device" in rows["sanitizer", "racecheck, kernel tests"][1], text)
    expect_equal(done.returncode, BUG, text)


@check
def what_could_not_be_checked_is_counted():
    """Each has its row, and the exit code is not that of a run in which all was."""
    program = script("fine", HEALTHY)
    tools = path("few-tools")  # neither compute-sanitizer nor mpirun
    os.makedirs(tools)
    for tool in ("awk", "bash", "cat", "cut", "date", "dirname", "grep", "head", "id", "mkdir", "mktemp", "mv", "nproc",
                 "readlink", "rm", "sed", "sh", "stat", "tail", "tee", "timeout", "tr"):
        os.symlink(shutil.which(tool), os.path.join(tools, tool))
    env = {"PROGRAM": program, "GPU_CHECK_DATA": scratch(), "PATH": tools, "CUDA_HOME": tools, "MPIRUN": "",
           "KERNEL_TESTS": "", "KERNEL_BENCHMARK": ""}
    planned = {"kernels": 1, "speed": 4}
    if not os.path.exists("/usr/local/cuda/bin/compute-sanitizer"):
        planned["sanitizer"] = 3
    done, rows, _ = gpu_check("nothing", *planned, **env)
    expect_equal([section for section, _ in rows], [name for name, number in planned.items() for _ in range(number)])
    expect_equal({result for result, _ in rows.values()}, {"skipped"})
    expect_equal(done.returncode, NOTHING, done.stdout, done.stderr)
    expect("0 pass, met or reported; 0 FAIL or MISSED; %d skipped or not run" % len(rows) in done.stdout, done.stdout)

    done, rows, _ = gpu_check("some", "device", *planned, **env)
    expect_equal(done.returncode, NOT_ALL, done.stdout, done.stderr)
    expect("2 pass, met or reported; 0 FAIL or MISSED; %d skipped" % (len(rows) - 2) in done.stdout, done.stdout)
    done, _, _ = gpu_check("all", "device", **env)
    expect_equal(done.returncode, DONE, done.stdout, done.stderr)


@check
def without_tests_of_the_kernels_the_sanitizer_has_all_its_rows():
    script("compute-sanitizer", "echo '========= ERROR SUMMARY: 0 errors'\n")
    done, rows, _ = gpu_check("no-tests", "sanitizer", PROGRAM=script("fine", ""), KERNEL_TESTS="",
                              GPU_CHECK_DATA=scratch(), PATH=scratch() + os.pathsep + os.environ["PATH"])
    expect_equal({check: result for (_, check), (result, _) in rows.items()},
                 {"memcheck, kernel tests": "skipped", "memcheck, training": "pass",
                  "racecheck, kernel tests": "skipped"})
    expect_equal(done.returncode, NOT_ALL, done.stdout, done.stderr)


@check
def kernels_are_held_to_their_targets():
    benchmark = script("measures", r'''
cat >"$2" <<JSON
{"device": "X", "copy_gb_per_s": 4000.0, "kernels": [
  {"kernel": "relu", "type": "f32", "shape": "8", "us": 1.000, "bytes": 8, "gb_per_s": 3800.0, "share": 0.9500, "target": 0.85, "verdict": "met"},
  {"kernel": "bias", "type": "f32", "shape": "8 x 2", "us": 1.000, "bytes": 8, "gb_per_s": 2000.0, "share": 0.5000, "target": 0.85, "verdict": "MISSED"},
  {"kernel": "adam", "type": "f32", "shape": "161 tensors, 9", "us": 190.000, "bytes": 8, "gb_per_s": 3800.0, "share": 0.9500, "target": 0.92, "verdict": "met"}]}
JSON
''')
    done, rows, files = gpu_check("measured", "speed", PROGRAM=script("fine", ""), KERNEL_BENCHMARK=benchmark,
                                  GPU_CHECK_DATA=scratch())
    text = "\n".join(map(str, rows.items())) + done.stderr
    expect_equal(rows["speed", "copy"], ("reported", "4000.0 GB/s"), text)
    expect_equal(rows["speed", "kernels at large sizes"], ("MISSED", "2 of 3"), text)
    expect_equal(rows["speed", "bias f32 8 x 2"], ("MISSED", "0.5000"), text)
    expect_equal(rows["speed", "Adam, 161 tensors, share of copy"], ("met", "0.950"), text)
    expect_equal(done.returncode, BUG, text)
    expect_equal(sorted(files), ["gpu_check.log", "gpu_check.txt", "kernel_benchmark.json", "kernel_benchmark.txt"])


main()
