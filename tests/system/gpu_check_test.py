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


def start_gpu_check(name, *sections, **env):
    return start(["bash", SCRIPT, *sections], env={"OUT": path(name), **env})


def table_of(name):
    """Rows by (section, check): (result, figure)."""
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
        result, figure = rows["training", optimizer + ", sets of weights within 1e-5 over 2 steps"]
        expect_equal(result, "met", text)
        expect(figure.startswith("2, the furthest "), text)
        result, figure = rows["training", optimizer + ", 2 sets, 3 steps, median"]
        expect_equal(result, "met", text)
        expect(0 <= float(figure) <= 1e-5, text)
        expect_equal(rows["training", optimizer + ", the same run twice"][0], "pass", text)
    expect_equal(rows["bits", "1 rank, stages 0-3, recorded or not"], ("pass", "8 runs"), text)
    two = rows["bits", "2 ranks on one GPU, stages 0-3, recorded or not"]
    expect_equal(two, ("pass", "9 runs") if has_mpi() else ("skipped", "there is no mpirun"), text)
    expect_equal(done.returncode, DONE if has_mpi() else NOT_ALL, text)
    expect_equal(sorted(files), ["gpu_check.log", "gpu_check.txt"])


FEATURES = 16  # rows
# Its runs differ by their folders' names alone, and the wrong ones by the variable WRONG.
FEATURED = r"""
for word; do
  case $before in --output) out=$word ;; --device) device=$word ;; --ckpt) ckpt=$word ;; esac
  before=$word
done
name=${out##*/}
if [ "$1" = train ]; then
  [ "$WRONG" != fails ] || { echo "error: no memory"; exit 6; }
  loss=2 skipped=0 last=0
  case $name in
    f32 | offload | stopped) weights=a ;;
    two) weights=b ;;
    tuned*) weights=c ;;
    skips*) weights=d skipped=1 last=2 ;;
    bf16 | fp16 | *-bf16 | *-fp16) weights=$name loss=2.001 ;;
    *) weights=$name ;;
  esac
  if [ "$WRONG" = all ]; then
    case $name in
      offload | stopped | tuned-once-more | skips-unrecorded) weights=wrong ;;
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


# How a made-up program that only trains begins: $out is its folder, $device and $seed are what it was told.
TRAINS = r"""
for word; do
  case $before in --output) out=$word ;; --device) device=$word ;; esac
  case $word in seed=*) seed=${word#seed=} ;; esac
  before=$word
done
[ "$1" = train ] || exit 0
mkdir -p "$out"
"""


@check
def different_losses_are_found():
    """A program whose GPU computes something else: each device has its own losses, and one run ends early."""
    program = script("other", TRAINS + r'''
[ "$device" = cpu ] && losses="2 1 0.5" || losses="2.00001 1.1 0.5"
[ "$out" = "${out%AdamW-cuda-2}" ] || losses="2 1"
for loss in $losses; do echo "{\"event\":\"step\",\"loss\":$loss,\"lr\":1}"; done >"$out/metrics.jsonl"
[ "$out" = "${out%SGD-cpu-2}" ] || { echo "error: no memory"; exit 6; }
echo "{\"event\":\"end\",\"weights_sha256\":\"$out\"}" >>"$out/metrics.jsonl"
''')
    done, rows, _ = gpu_check("different", "training", PROGRAM=program, GPU_CHECK_DATA=scratch(), GPU_CHECK_STEPS="1 3",
                              GPU_CHECK_SEEDS="2")
    text = "\n".join(map(str, rows.items())) + done.stderr
    expect_equal(rows["training", "SGD, sets of weights within 1e-5 over 1 steps"],
                 ("FAIL", "SGD-cpu-2: error: no memory"), text)
    expect_equal(rows["training", "SGD, 2 sets, 3 steps, median"], ("FAIL", "SGD-cpu-2: error: no memory"), text)
    expect_equal(rows["training", "SGD, the same run twice"][0], "FAIL", text)  # their weights differ
    expect_equal(rows["training", "AdamW"], ("FAIL", "not all runs have 3 steps"), text)
    expect_equal(rows["training", "AdamW, sets of weights within 1e-5 over 1 steps"][0], "met", text)
    expect_equal(rows["training", "AdamW, 2 sets, 3 steps, median"], ("MISSED", "0.05"), text)
    expect_equal(done.returncode, BUG, text)


@check
def adamw_may_lose_three_sets_of_ten_and_sgd_none():
    """One step each, in which so many sets are off by a thousandth."""
    program = script("jumps", TRAINS + r'''
loss=2
[ "$device" = cpu ] || [ "$seed" -gt "$JUMPS" ] || loss=2.002
echo "{\"event\":\"step\",\"loss\":$loss,\"lr\":1}" >"$out/metrics.jsonl"
echo "{\"event\":\"end\",\"weights_sha256\":\"$seed\"}" >>"$out/metrics.jsonl"
''')
    for jumps, sgd, adamw in ((3, "MISSED", "met"), (4, "MISSED", "MISSED")):
        _, rows, _ = gpu_check("jumps-%d" % jumps, "training", PROGRAM=program, GPU_CHECK_DATA=scratch(),
                               GPU_CHECK_STEPS="1 1", JUMPS=str(jumps))
        for optimizer, result in (("SGD", sgd), ("AdamW", adamw)):
            found, figure = rows["training", optimizer + ", sets of weights within 1e-5 over 1 steps"]
            expect_equal(found, result, rows)
            expect(figure.startswith("%d, the furthest " % (10 - jumps)), rows)


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


@check
def what_the_doctor_and_the_selftest_miss():
    for name, changes, ill, why in (
            ("nccl", [('NVRTC NCCL "launcher"', 'NVRTC "launcher"')], "doctor", "not well: NCCL"),
            ("gpu", [('"ok": true', '"ok": false')], "doctor", "not well: NVIDIA driver, CUDA runtime, GPU 0"),
            ("f16", [("bf16 f16", "bf16")], SELFTEST, "not in all three types"),
            ("none", [("7  f32", "0  f32")], SELFTEST, "not in all three types"),
            ("no-collectives", [("12 coll", "0 coll")], COLLECTIVES, "none was run"),
            ("sums", [('echo "total   12', 'exit 1; echo "total   12')], COLLECTIVES, "it says nothing")):
        body = HEALTHY
        for a, b in changes:
            expect(a in body, a)
            body = body.replace(a, b)
        done, rows, _ = gpu_check(name, "device", PROGRAM=script("ill", body), GPU_CHECK_DATA=scratch())
        result, figure = rows["device", ill]
        expect(result == "FAIL" and why in figure, rows)
        expect_equal([check for (_, check), row in rows.items() if row[0] == "pass"],
                     [check for check in DEVICE if check != ill])
        expect_equal(done.returncode, BUG)


def alive(pid):
    try:
        with open("/proc/%d/stat" % pid) as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


# It hears no TERM, and neither does its child, which has a process group of its own as mpirun's ranks do.
HANGS = r"""
trap '' TERM
echo '[       OK ] A.B'
python3 -c 'import os, time
os.setpgid(0, 0)
open("%(pids)s", "a").write("%%d\n" %% os.getpid())
time.sleep(600)' &
echo $$ >>%(pids)s
while :; do sleep 1; done
"""


def pids_in(file):
    with open(file) as listed:
        return [int(line) for line in listed]


def left_of(pids):
    """Those of the file that still run, ended now."""
    left = [pid for pid in pids_in(pids) if alive(pid)]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    return left


@check
def a_hung_program_dies_with_all_that_it_started_and_stops_no_other():
    pids = path("hung-pids")
    benchmark = script("fails", "echo 'error: kernel_benchmark: a lost device' >&2\nexit 1\n")
    done, rows, _ = gpu_check("hangs-out", "kernels", "device", "speed", PROGRAM=script("fine", HEALTHY),
                              KERNEL_TESTS=script("hangs", HANGS % {"pids": pids}), KERNEL_BENCHMARK=benchmark,
                              GPU_CHECK_DATA=scratch(), GPU_CHECK_LIMIT="5")
    expect_equal(left_of(pids), [])
    text = "\n".join(map(str, rows.items())) + done.stderr
    expect_equal(rows["kernels", "tests"], ("FAIL", "1 passed; stopped after its 5 s: [       OK ] A.B"), text)
    expect_equal([rows["device", check][0] for check in DEVICE], ["pass"] * 3, text)
    expect_equal(rows["speed", "kernels at large sizes"], ("FAIL", "error: kernel_benchmark: a lost device"), text)
    expect_equal(rows["speed", "copy"][0], "not run", text)
    expect_equal(len(pids_in(pids)), 2)
    expect_equal(done.returncode, BUG, text)


@check
def what_a_section_has_no_time_for_is_said_row_by_row():
    """Its first program takes all of it: the others are not begun, and the next section is."""
    pids = path("slow-pids")
    slow = script("slow", "[ \"$1\" = doctor ] && { %s }\n" % (HANGS % {"pids": pids}) + HEALTHY)
    done, rows, _ = gpu_check("no-time", "device:5", "kernels", PROGRAM=slow, GPU_CHECK_DATA=scratch(),
                              KERNEL_TESTS=script("passes", "echo '[       OK ] A.B (1 ms)'\n"))
    expect_equal(left_of(pids), [])
    result, figure = rows.pop(("device", "doctor"))
    expect(result == "not run" and re.fullmatch(r"stopped after \d s: no time left", figure), result, figure)
    expect_equal(rows, {("device", SELFTEST): ("not run", "no time left"),
                        ("device", COLLECTIVES): ("not run", "no time left"),
                        ("kernels", "tests"): ("pass", "1 passed")}, done.stderr)
    expect_equal(done.returncode, NOT_ALL)


@check
def rows_are_seen_as_soon_as_they_are_known():
    """The doctor's, while the selftest waits for somebody to have seen it; then the check is interrupted."""
    pids = path("waiting-pids")
    waits = script("waits", "[ \"$1\" = selftest ] && { %s }\n" % (HANGS % {"pids": pids}) + HEALTHY)
    job = start_gpu_check("seen", "device", "kernels", PROGRAM=waits, GPU_CHECK_DATA=scratch(), KERNEL_TESTS="")
    deadline = time.monotonic() + 60
    while not (os.path.exists(pids) and len(pids_in(pids)) == 2):
        expect(job.poll() is None and time.monotonic() < deadline, "the selftest has not begun")
        time.sleep(0.05)
    expect_equal(table_of("seen"), {("device", "doctor"): ("pass", "see the log")})
    os.kill(job.pid, signal.SIGTERM)
    done = finish(job)
    expect_equal(left_of(pids), [])
    rows = table_of("seen")
    expect_equal(rows, {("device", "doctor"): ("pass", "see the log"), ("device", SELFTEST): ("not run", "interrupted"),
                        ("device", COLLECTIVES): ("not run", "interrupted"),
                        ("kernels", "tests"): ("not run", "interrupted")}, done.stderr)
    expect_equal(done.returncode, NOT_ALL)
    expect(re.search(r"^device +doctor +pass ", done.stdout, re.MULTILINE), done.stdout)


@check
def the_most_telling_comes_first_and_all_fits_into_eight_minutes():
    done, _, _ = gpu_check("help", "--help")
    listed = re.findall(r"^  ([a-z]+) +(\d+)  ", done.stdout, re.MULTILINE)
    names = [name for name, _ in listed]
    expect_equal((names[:2], names[-1]), (["device", "ladder"], "sanitizer"))
    expect(max(map(names.index, ("tutorial", "step", "speed"))) < names.index("sanitizer"), names)
    expect(sum(int(seconds) for _, seconds in listed) < 480, listed)
    # Without sections they run in that order.
    done, rows, _ = gpu_check("all-of-it", PROGRAM=script("fine", HEALTHY), GPU_CHECK_DATA=scratch(), KERNEL_TESTS="",
                              KERNEL_BENCHMARK="", MPIRUN="", GPU_CHECK_SEEDS="1")
    expect_equal(list(dict.fromkeys(section for section, _ in rows)), names, done.stdout, done.stderr)


RUNGS = ("tutorial network", "cnn_plain", "linear, batch 2048", "resnet18, bf16")
CLIMBS = r"""
for word; do
  case $before in --output) out=$word ;; esac
  before=$word
done
[ "$1" = train ] || exit 0
echo "${out##*/} $*" >>"$CLIMBED"
case ${out##*/} in
  cnn_plain-launched) echo "error: cuDNN: no engine"; exit 2 ;;
  linear-replayed) weights=other ;;
  resnet18-replayed) weights=same more=',"not_recorded":"no graph"' ;;
  *) weights=same ;;
esac
mkdir -p "$out"
for loss in 2.5 2.25; do echo "{\"event\":\"step\",\"loss\":$loss,\"lr\":1}"; done >"$out/metrics.jsonl"
echo "{\"event\":\"end\"$more,\"weights_sha256\":\"$weights\"}" >>"$out/metrics.jsonl"
"""


@check
def the_ladder_says_at_which_rung_it_ends():
    climbed = path("climbed")
    done, rows, _ = gpu_check("ladder", "ladder", PROGRAM=script("climbs", CLIMBS), GPU_CHECK_DATA=scratch(),
                              CLIMBED=climbed)
    text = "\n".join(map(str, rows.items())) + done.stderr
    expect_equal([check for _, check in rows], [rung + how for rung in RUNGS for how in (", launched", ", replayed")])
    expect_equal([rows["ladder", rung + ", launched"] for rung in RUNGS],
                 [("pass", "loss 2.5 2.25"), ("FAIL", "cnn_plain-launched: error: cuDNN: no engine"),
                  ("pass", "loss 2.5 2.25"), ("pass", "loss 2.5 2.25")], text)
    expect_equal([rows["ladder", rung + ", replayed"][0] for rung in RUNGS], ["pass", "FAIL", "FAIL", "FAIL"], text)
    expect_equal(rows["ladder", RUNGS[3] + ", replayed"][1], "resnet18-replayed: not_recorded: no graph", text)
    with open(climbed) as file:
        for line in file:
            expect_equal(" --no-record" in line, "-launched " in line, line)
            expect_equal("bf16.enabled=true" in line, line.startswith("resnet18-"), line)


@check
def the_ladder_on_the_host():
    """Through the whole program, whatever the rung one linear layer."""
    need_on_host()
    done, rows, _ = gpu_check(
        "ladder-on-host", "ladder:300", PROGRAM=ON_HOST, ON_HOST_DEVICES="1", GPU_CHECK_DATA=few(train=80, test=8),
        GPU_CHECK_SET="model.name=linear data.on_corrupt=skip train.eval_batch_size=8 train_batch_size=8 "
                      "train_micro_batch_size_per_gpu=8 data.augment=[] train.max_steps=3", GPU_CHECK_LIMIT="100")
    text = "\n".join(map(str, rows.items())) + done.stderr
    expect_equal([result for result, _ in rows.values()], ["pass"] * 8, text)


COLLECTIVES_OF = {"receive": 8, "all_reduce": 1, "reduce_scatter": 2, "all_gather": 2, "replay": 11}  # of NCCL


@check
def collectives_of_one_rank_use_every_call_of_nccl():
    """A wrong bit that any of them delivers is found, and a replay that does nothing."""
    need_on_host()
    words = ("selftest", "--device", "cuda", "--collectives")
    done = finish(start([ON_HOST, *words]))
    expect_equal(done.returncode, DONE, done.stdout, done.stderr)
    expect("1 rank, NCCL" in done.stdout and done.stdout.count("\nok ") == 12, done.stdout)
    report = json.loads(finish(start([ON_HOST, *words, "--json"])).stdout)
    expect_equal((report["cases"], report["failed"], len(report["collectives"])), (12, 0, 12))
    for fault, failed in COLLECTIVES_OF.items():
        done = finish(start([ON_HOST, *words], env={"ON_HOST_NCCL_FAULT": fault}))
        expect_equal(done.returncode, BUG, fault, done.stdout, done.stderr)
        expect_equal(done.stdout.count("\nFAILED "), failed, fault, done.stdout)
        expect(done.stderr.startswith("error: selftest: %d of 12 collectives" % failed), done.stderr)
        expect_equal(len(done.stderr.splitlines()), 1)
    done, rows, _ = gpu_check("wrong-sums", "device:300", PROGRAM=script("device", """
[ "$*" != 'selftest --device cuda --collectives' ] || exec %s "$@"
""" % ON_HOST + HEALTHY), GPU_CHECK_DATA=scratch(), ON_HOST_NCCL_FAULT="receive")
    expect_equal([rows["device", check][0] for check in DEVICE], ["pass", "pass", "FAIL"], rows, done.stderr)
    done = run("selftest", "--device", "cpu", "--collectives")
    expect_equal(done.returncode, USAGE)
    expect(done.stderr.startswith("error: ") and "--device cuda" in done.stderr, done.stderr)


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
                 "readlink", "rm", "sed", "setsid", "sh", "sleep", "sort", "stat", "tail", "tee", "timeout", "tr"):
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
    expect("3 pass, met or reported; 0 FAIL or MISSED; %d skipped" % (len(rows) - 3) in done.stdout, done.stdout)
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



# PyTorch as far as torch_tutorial.py needs it, which computes nothing; its TF32 is on for convolutions alone, as is its
# default.
TORCH = """
import types
from unittest import mock
__version__ = "0"
nn, optim, cuda = types.ModuleType("torch.nn"), mock.MagicMock(), mock.MagicMock()
nn.Conv2d, nn.Linear, nn.functional = mock.MagicMock(), mock.MagicMock(), mock.MagicMock()
class Module:
    def cuda(self):
        return mock.MagicMock()
nn.Module = Module
randn = randint = manual_seed = mock.MagicMock()
backends = types.SimpleNamespace(cudnn=types.SimpleNamespace(benchmark=False, allow_tf32=True),
                                 cuda=types.SimpleNamespace(matmul=types.SimpleNamespace(allow_tf32=False)))
import sys
sys.modules.update({"torch.nn": nn, "torch.nn.functional": nn.functional})
"""
# Both programs' words, and what would overrule them.
ASKED = r"""
echo "$* override=$NVIDIA_TF32_OVERRIDE" >>"$ASKED_OF"
[ "$1 $2" != 'bench step' ] || echo '{"samples_per_sec": 30000}'
"""


@check
def tf32_is_the_same_on_both_sides():
    os.makedirs(path("torch", "torch"))
    with open(path("torch", "torch", "__init__.py"), "w") as file:
        file.write(TORCH)
    asked = path("asked")
    done, rows, files = gpu_check("tf32", "tutorial:100", PROGRAM=script("asked-of", ASKED), GPU_CHECK_DATA=scratch(),
                                  GPU_CHECK_SECONDS="0.001", PYTHONPATH=path("torch"), ASKED_OF=asked,
                                  NVIDIA_TF32_OVERRIDE="0")
    text = "\n".join(map(str, rows.items())) + done.stdout + done.stderr
    for tf32 in ("off", "on"):
        expect_equal(rows["tutorial", "batch 4, TF32 " + tf32], ("reported", "30000 images/s"), text)
        for peer in ("eager", "its step in a graph"):
            expect(rows["tutorial", "to PyTorch, %s, TF32 %s" % (peer, tf32)][0] in ("met", "MISSED"), text)
    with open(path("tf32", "gpu_check.log")) as file:
        expect_equal(re.findall(r'"tf32": (\[.*?\])', file.read()), ["[false, false]", "[true, true]"])
    with open(asked) as file:
        lines = [line for line in file if "train_batch_size=4" in line]
    expect_equal(["cuda.tf32=true" in line for line in lines], [False] * 3 + [True] * 3, lines)
    expect(all(("cuda.tf32=false" in line) != ("cuda.tf32=true" in line) for line in lines), lines)
    expect(all(line.endswith(" override=\n") for line in lines), lines)

    # ResNet-18's step has both too, and no PyTorch beside it.
    _, rows, _ = gpu_check("tf32-step", "step", PROGRAM=path("asked-of"), GPU_CHECK_DATA=scratch(), ASKED_OF=asked)
    expect_equal([check for _, check in rows],
                 ["resnet18, %s, %d of a batch of 128" % (kind, micro)
                  for kind in ("bf16", "f32, TF32 off", "f32, TF32 on") for micro in (128, 32)])
    expect_equal({result for result, _ in rows.values()}, {"reported"})


@check
def without_pytorch_its_rows_are_skipped():
    os.makedirs(path("none", "torch"), exist_ok=True)
    with open(path("none", "torch", "__init__.py"), "w") as file:
        file.write("raise ImportError('no torch')\n")
    done, rows, _ = gpu_check("no-torch", "tutorial", PROGRAM=script("asked-of", ASKED), GPU_CHECK_DATA=scratch(),
                              PYTHONPATH=path("none"), ASKED_OF=path("asked-without"))
    expect_equal({check: result for (_, check), (result, _) in rows.items()},
                 {"%s, TF32 %s" % (check, tf32): result for tf32 in ("off", "on")
                  for check, result in (("batch 4", "reported"), ("to PyTorch, eager", "skipped"),
                                        ("to PyTorch, its step in a graph", "skipped"))}, done.stderr)
    expect_equal(done.returncode, NOT_ALL)


main()
