"""tools/gpu_check.sh: the sections device, kernels, sanitizer, speed, step and tutorial, with programs that are made up."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from gpu_check import *


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


COLLECTIVES_OF = {"receive": 8, "all_reduce": 1, "reduce_scatter": 2, "all_gather": 2, "replay": 11}  # of NCCL


@check
def collectives_of_one_rank_use_every_call_of_nccl():
    """A wrong bit of any call is found, and a replay without effect."""
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
    """A stand-in's reports: none for the tests, one and two for training, and a racecheck that fails for another
    reason."""
    script("compute-sanitizer", r'''
case $* in
  *racecheck*" train -q "*) echo "========= RACECHECK SUMMARY: 3 hazards displayed (3 errors, 0 warnings)"; exit 99 ;;
  *racecheck*) echo "Error: unsupported device"; exit 1 ;;
  *" train -q "*--no-record*) echo "========= Invalid __global__ read"; echo "========= ERROR SUMMARY: 2 errors"; exit 99 ;;
  *" train -q "*) echo "========= ERROR SUMMARY: 1 error"; exit 99 ;;
esac
echo "========= ERROR SUMMARY: 0 errors"
''')
    done, rows, _ = gpu_check("sanitized", "sanitizer", PROGRAM=script("fine", ""), KERNEL_TESTS=script("passes", ""),
                              GPU_CHECK_DATA=scratch(), PATH=scratch() + os.pathsep + os.environ["PATH"])
    text = "\n".join(map(str, rows.items())) + done.stderr
    expect_equal(rows["sanitizer", "memcheck, kernel tests"], ("pass", "0 reports"), text)
    expect_equal([rows["sanitizer", check] for check in
                  ("memcheck, training, launched", "memcheck, training, replayed", "racecheck, training, replayed")],
                 [("FAIL", "%d reports" % number) for number in (2, 1, 3)], text)
    expect_equal(rows["sanitizer", "racecheck, kernel tests"][0], "FAIL", text)
    expect("unsupported device" in rows["sanitizer", "racecheck, kernel tests"][1], text)
    expect_equal(rows["sanitizer", "synccheck, kernel tests"], ("pass", "0 reports"), text)
    expect_equal(done.returncode, BUG, text)


@check
def without_tests_of_the_kernels_the_sanitizer_has_all_its_rows():
    script("compute-sanitizer", "echo '========= ERROR SUMMARY: 0 errors'\n")
    done, rows, _ = gpu_check("no-tests", "sanitizer", PROGRAM=script("fine", ""), KERNEL_TESTS="",
                              GPU_CHECK_DATA=scratch(), PATH=scratch() + os.pathsep + os.environ["PATH"])
    expect_equal({check: result for (_, check), (result, _) in rows.items()},
                 {"memcheck, kernel tests": "skipped", "memcheck, training, launched": "pass",
                  "memcheck, training, replayed": "pass", "racecheck, training, replayed": "pass",
                  "racecheck, kernel tests": "skipped", "synccheck, kernel tests": "skipped"})
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
def operations_and_kernels_that_take_longest():
    operations = script("operations", r"""
[ "$1 $2" != 'bench step' ] || cat <<'TABLE'
cnn, batch 4: 55 images/s
  operation                        us    GFLOP/s  % peak       GB/s  % copy  of
  conv                          30.00          0   10.3%        0.0    0.3%  conv1.out [4,14,14,6]
  conv                          40.00          0   10.3%        0.0    0.2%  conv2.out [4,5,5,16]
  sgd                           10.40                           0.3    9.2%  params [62848]
  linear                        19.60          0    5.2%        0.1    2.6%  fc1.out [4,120]
  sum                          100.00
step: 102 us recorded
TABLE
""")
    _, rows, files = gpu_check("operations-out", "ops", PROGRAM=operations, GPU_CHECK_DATA=scratch())
    expect_equal(set(rows.values()), {("reported", "70 % conv, 20 % linear, 10 % sgd")})
    expect_equal([check for _, check in rows], ["%s, shares of a step" % name for name in (
        "tutorial", "resnet18, bf16", "vit_tiny, bf16", "cifar_2cores, bf16")])
    expect("ops-vit_tiny.txt" in files, files)

    script("ncu", r"""
echo '==PROF== Connected to process 1'
echo '"ID","Process ID","Kernel Name","Device","Metric Name","Metric Unit","Metric Value"'
for i in 1 2 3; do echo "\"$i\",\"1\",\"batch_norm\",\"0\",\"gpu__time_duration.sum\",\"ns\",\"1,000\""; done
echo '"4","1","adam, of many","0","gpu__time_duration.sum","ns","1,000"'
""")
    env = {"PATH": scratch() + os.pathsep + os.environ["PATH"]}
    _, rows, _ = gpu_check("profiled", "profile", PROGRAM=script("fine", ""), GPU_CHECK_DATA=scratch(), **env)
    expect_equal(list(rows.values()), [("reported", "75 % batch_norm, 25 % adam,")])
    with open(path("profiled", "profile.txt")) as file:
        expect_equal(file.read(), "75.0 3000 3 batch_norm\n25.0 1000 1 adam, of many\n")
    script("ncu", "echo '==ERROR== ERR_NVGPUCTRPERM'\nexit 1\n")
    _, rows, _ = gpu_check("not-allowed", "profile", PROGRAM=script("fine", ""), GPU_CHECK_DATA=scratch(), **env)
    expect_equal(list(rows.values()), [("FAIL", "==ERROR== ERR_NVGPUCTRPERM")])
    os.remove(path("ncu"))


@check
def peers_are_compiled():
    os.makedirs(path("a-python"))
    with open(path("a-python", "python3"), "w") as file:
        file.write(r"""#!/bin/sh
case $* in
  *'--compile default'*vit_tiny:512) echo '{"images_per_s": 10000}' ;;
  *'--compile default'*) echo 'RuntimeError: no compiler'; exit 1 ;;
esac
""")
    os.chmod(path("a-python", "python3"), 0o755)
    done, rows, _ = gpu_check("compiled", "peers", PROGRAM=script("asked-of", ASKED), GPU_CHECK_DATA=scratch(),
                              ASKED_OF=path("asked-of-peers"),
                              PATH=path("a-python") + os.pathsep + os.environ["PATH"])
    expect_equal({check: row for (_, check), row in rows.items()}, {
        "vit_tiny, images/s: ours, PyTorch's": ("reported", "30000, 10000"),
        "vit_tiny, bf16, batch 512, to PyTorch": ("met", "3.00"),
        "resnet18, bf16, batch 512, to PyTorch": ("FAIL", "RuntimeError: no compiler")}, done.stderr)


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
