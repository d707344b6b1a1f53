"""`bench` through the program: its output for operations, updates and sums, on the CPU and on the stand-in's GPUs. It
measures time, so that it runs alone."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import *

SHORT = ("--windows", 1, "--seconds", 0.001)


def data():
    return "--set", "data.dataset=synthetic", "--set", "data.path=" + synthetic()


def bench(*words, **options):
    return good("bench", *words, *SHORT, "--set", "model.name=linear", *data(), **options)


@functools.lru_cache(None)
def operations():
    """The operations of the linear model on the CPU, as JSON."""
    text = bench("step", "--ops", "--device", "cpu", "--json")
    expect_equal(len(text.splitlines()), 1, text)
    return json.loads(text)


@check
def bench_of_operations_on_the_cpu():
    text = bench("step", "--ops", "--device", "cpu")
    expect_match(text, r"(?m)^linear, batch 16 = 4 x 4 x 1 ranks.* images/s")
    expect_match(text, r"(?m)^measured peaks of this core: \d+ GFLOP/s, \d+\.\d GB/s copy$")
    expect_match(text, r"(?m)^  linear +\d+\.\d\d +\d+ +\d+% +\d+\.\d  \S+ \[[\d,]+\]$")
    expect_match(text, r"(?m)^  sum +\d+\.\d\d$")
    result = operations()
    expect_equal([op["name"] for op in result["ops"]], re.findall(r"(?m)^  ([a-z]\w+) .*\d+\.\d  \S.*$", text))
    expect(result["peaks"]["flops"] > 0)
    # A micro-batch's operations count four times.
    expect(result["ops_us"] > sum(op["us"] for op in result["ops"]))


@check
def bench_of_operations_on_large_tensors():
    result = json.loads(good("bench", "--ops", "--large", "--json", "--device", "cpu", *SHORT, "--set",
                             "model.name=cnn_plain", *data()))
    large = {op["name"]: op for op in result["large_ops"]}
    expect({"relu", "relu_grad", "max_pool", "max_pool_grad"} <= set(large), set(large))
    expect_not_in("linear", large)  # not bound by memory
    for op in large.values():
        expect(op["copy_share"] > 0, op)
    expect_not_in("large_ops", operations())


@check
def bench_takes_no_option_that_it_would_ignore():
    bad(USAGE, "--ops belongs to bench step, not to bench data", "bench", "data", "--ops")
    bad(USAGE, "--elements belongs to", "bench", "step", "--elements", 10)
    bad(USAGE, "add --ops", "bench", "step", "--large")
    bad(USAGE, "--ops times operations on one rank, not on 2", "bench", "--ops", "--ranks", 2)


@check
def bench_of_operations_in_bf16():
    """No operation may exceed the processor's peak."""
    words = ["step", "--ops", "--device", "cpu", "--set", "bf16.enabled=true", "--set", "train_batch_size=64",
             "--set", "train_micro_batch_size_per_gpu=64"]
    done = run("bench", *words, *SHORT, "--set", "model.name=linear", *data())
    if "AVX512-BF16" in done.stderr or "oneDNN" in done.stderr:
        raise Skip("this machine or build does not compute in bf16")
    expect_equal(done.returncode, DONE, done.stderr)
    text = done.stdout
    expect_match(text, r"(?m)^measured peaks .* GB/s copy; in bf16 by \S+ at most \d+ times as many, \d+ GFLOP/s$")
    shares = [int(share) for share in re.findall(r"(?m)^  \S+ .* (\d+)%", text)]
    expect(shares and max(shares) <= 100, text)


@check
def bench_of_the_update():
    """The update of the configuration's optimizer."""
    for kind, more, at in (("Adam", [], (34, 28)), ("SGD", ["optimizer.params.momentum=0.9"], (26, 20)),
                           ("SGD", [], (18, 12)), ("RMSprop", [], (26, 20))):
        words = ["update", "--device", "cpu", "--ranks", 2, "--elements", 20000,
                 *[w for s in ["optimizer.type=" + kind, *more] for w in ("--set", s)]]
        text = bench(*words)
        expect_match(text, r"^update of 0\.0 M parameters on 2 ranks by %s: .* at %d B\); %s alone: .* at %d B\); "
                     r"an average of weights: .* at 12 B\)$" % (kind, at[0], kind, at[1]))
    result = json.loads(bench(*words, "--json"))
    expect_equal(result["optimizer"], kind)
    expect(0 < result["alone_ms"] and 0 < result["update_ms"], result)


@check
def bench_of_the_sum_over_ranks():
    result = json.loads(bench("reduce", "--device", "cpu", "--elements", 5000, "--ranks", 2, "--json"))
    expect_equal((result["ranks"], result["bytes"], result["equal_to_tree"]), (2, 20000, True))
    bad(USAGE, "--device cpu", "bench", "reduce", "--device", "cuda", CUDA_VISIBLE_DEVICES="")


@check
def bench_of_the_sum_over_ranks_on_gpus():
    need_on_host()

    def reduce(*words, **environment):
        return bench("reduce", "--device", "cuda", "--elements", 5000, "--ranks", 2, *words, program=ON_HOST,
                     **environment)
    for backend, gpus, way in (("nccl", 2, "NCCL"), ("threads", 2, "through host memory"),
                               ("auto", 1, "through host memory")):
        text = reduce("--set", "communication.backend=" + backend, "--set", "communication.share_device=true",
                      ON_HOST_DEVICES=str(gpus))
        expect_match(text, r"^sum of 0\.0 MB over 2 ranks \(.*%s.*\): .*, equal to the tree bit by bit$" % way)
    bad(USAGE, "share_device", "bench", "reduce", "--device", "cuda", "--ranks", 2, program=ON_HOST,
        ON_HOST_DEVICES="1")


@check
def bench_of_operations_on_a_gpu():
    need_on_host()
    text = bench("step", "--ops", "--device", "cuda", program=ON_HOST)
    expect_match(text, r"(?m)^measured peaks of this GPU: .* GB/s copy of .* GFLOP/s f32 product of \d+\^3$")
    expect_match(text, r"(?m)^  linear_loss +\d+\.\d\d +\d+ +\d+\.\d% +\d+\.\d +\d+\.\d%  \S+ \[[\d,]+\]$")
    expect_match(text, r"(?m)^step: .* recorded, .* unrecorded; its operations .* gaps")
    result = json.loads(bench("step", "--ops", "--device", "cuda", "--json", program=ON_HOST))
    expect({"linear_loss", "linear_grad_w", "adam"} <= {op["name"] for op in result["ops"]})
    expect(result["recorded_us"] > 0)
    expect(abs(result["gaps_us"] - result["recorded_us"] + result["ops_us"]) < 1e-3, result)
    expect(result["peaks"]["copy_bytes_per_sec"] > 0)


@check
def a_recorded_step_has_few_nodes():
    """One launch less is a few microseconds of a step of 55. Kernels that compute nothing let steps of any size be
    counted."""
    need_on_host()
    idle = {"ON_HOST_KERNELS": "none", "ON_HOST_MEMORY": str(80 << 30)}

    def nodes(config, images, **sets):
        sets = {"train_batch_size": images, "train_micro_batch_size_per_gpu": images, **dotted(sets)}
        changes = ["--set=%s=%s" % item for item in sets.items()]
        return json.loads(good("bench", "step", "--device", "cuda", "--json", *SHORT, "--config",
                               os.path.join(CONFIGS, config), *data(), *changes, program=ON_HOST, **idle))["recorded_nodes"]

    expect(nodes("tutorial.yaml", 4) <= 13)
    resnet18 = [nodes("resnet18.yaml", images, bf16__enabled="true") for images in (8, 512)]
    expect(resnet18[0] <= 153 and resnet18[1] <= 155, resnet18)
    vit_tiny = [nodes("vit_tiny.yaml", 512, model__depth=depth, bf16__enabled="true") for depth in (2, 3)]
    expect(vit_tiny[1] - vit_tiny[0] <= 23, vit_tiny)
    of_muon, of_sgd = [nodes("cifar_2cores.yaml", 256, bf16__enabled="true", **optimizer)
                       for optimizer in ({}, {"optimizer": "{type: SGD, params: {lr: 0.1}}"})]
    expect(of_muon - of_sgd + 1 <= 20, of_muon, of_sgd)  # the update by SGD is one


@check
def bench_of_the_update_on_a_gpu():
    need_on_host()
    words = ["update", "--device", "cuda", "--elements", 10000]
    text = bench(*words, program=ON_HOST)
    expect_match(text, r"(?m)^update of 0\.0 M parameters: .*; Adam alone: .* %\)$")
    result = json.loads(bench(*words, "--json", program=ON_HOST))
    expect(0 < result["alone_copy_share"] and 0 < result["update_copy_share"])
    bad(USAGE, "--ranks", "bench", *words, "--ranks", 2, program=ON_HOST)


@check
def the_gpu_that_is_asked_for_is_judged():
    """GPU 0 is too old, the others are not."""
    need_on_host()
    gpus = {"program": ON_HOST, "ON_HOST_DEVICES": "3", "ON_HOST_CAPABILITY": "7.0,9.0"}
    words = ["reduce", "--elements", 5000, "--ranks", "auto", "--json", "--device"]
    expect_equal(json.loads(bench(*words, "cuda:1", **gpus))["ranks"], 2)  # one a GPU from there on
    bad(USAGE, "GPU 0, On-host GPU (sm_70), is too old", "bench", *words, "cuda", **gpus)
    bad(USAGE, "no GPU number 3: 3 are visible", "bench", *words, "cuda:3", **gpus)
    expect_in("cuda, On-host GPU (sm_90)", bench("step", "--device", "auto", **gpus))


main()
