"""--device cuda, as users meet it: the losses and the weights, ranks, resuming, bad input.

Without a GPU: the program is cifar-train-on-host, beside the one in CIFAR_TRAIN, whose CUDA is a stand-in that computes
on the host. On a machine with a GPU CIFAR_TRAIN_CUDA names a program that computes on it; what only the stand-in can
show is skipped then. A part of the cases by default; all of them with CIFAR_TRAIN_FULL=1.
"""
import os
import random
import statistics
import sys

WITHOUT_CUDA = os.environ.get("CIFAR_TRAIN", "")
REAL = os.environ.get("CIFAR_TRAIN_CUDA", "")
if WITHOUT_CUDA or REAL:
    os.environ["CIFAR_TRAIN"] = REAL or os.path.join(os.path.dirname(WITHOUT_CUDA), "cifar-train-on-host")
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import *

FULL = os.environ.get("CIFAR_TRAIN_FULL", "") not in ("", "0")
TUTORIAL = os.path.join(CONFIGS, "tutorial.yaml")  # a constant learning rate
ONE_GPU = {"CUDA_VISIBLE_DEVICES": "0"}
CUDA = ("--device", "cuda")
CPU = ("--device", "cpu")
# Whatever could depend on who does the work, in steps of few images: the stand-in computes some twenty a second.
SMALL = {"data.on_corrupt": "skip", "model.name": "cnn_plain", "train.max_steps": 3, "train.eval_batch_size": 4,
         "steps_per_print": 1, "gradient_clipping": 0.5, "train_micro_batch_size_per_gpu": 4, "train_batch_size": 16,
         "data.augment": "[{random_crop: {padding: 4}}, {flip: {p: 0.5}}]", "scheduler.params.warmup_num_steps": 4,
         "communication.share_device": True}
# As the tutorial trains.
PLAIN = {"data.on_corrupt": "skip", "train.eval_batch_size": 4, "steps_per_print": 1}
SGD = {"optimizer.type": "SGD"}
ADAMW = {"optimizer": "{type: AdamW, params: {lr: 0.001}}"}


def small(**changed):
    return {**SMALL, "data.path": few(320, 4), **{k.replace("__", "."): v for k, v in changed.items()}}


def plain(**changed):
    return {**PLAIN, "data.path": few(1000, 4), **{k.replace("__", "."): v for k, v in changed.items()}}


def estimate_words(sets):
    config, name, _, _, *rest = train_words("", sets)
    return ["estimate", config, name, *rest]


def some(cases, number):
    """All of them, or a few that are the same in every run."""
    cases = list(cases)
    return cases if FULL else random.Random(11).sample(cases, min(number, len(cases)))


def need_stand_in():
    if REAL:
        raise Skip("only the stand-in can show it")


@functools.lru_cache(None)
def gpus():
    if not REAL:
        return 2
    if not shutil.which("nvidia-smi"):
        return 0
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True).stdout.splitlines()
    return sum(line.startswith("GPU ") for line in listed)


def need_two_gpus():
    if gpus() < 2:
        raise Skip("two GPUs are needed")


def can_bf16(device):
    done = run("train", *train_words(path("probe"), plain(bf16__enabled=True), "--dry-run", *device, config=TUTORIAL))
    return done.returncode == DONE


def files(folder):
    return {name: digest for name, digest in snapshot(folder).items() if name != ".lock"}


def distance(a, b):
    return abs(a - b) / abs(b)


# ---- the CPU's numbers

def weights(seed, model):
    """A file with the weights that training begins with."""
    output = path("weights-%s-%d" % (model, seed))
    if not os.path.exists(output):
        train(output, plain(seed=seed, model__name=model, train__max_steps=0), *CPU, config=TUTORIAL)
    return os.path.join(output, "last.bin")


def on_both(name, sets, *words):
    """The step records of the same training on the CPU and with CUDA."""
    for kind in (CPU, CUDA):
        words_of_kind = train_words(path(name + kind[1]), sets, *words, *kind, config=TUTORIAL)
        done = finish(start(Ranks(1).words(*words_of_kind)), timeout=600)
        expect_equal(done.returncode, DONE, done.stdout, done.stderr)
    return [records(path(name + kind[1]), "step") for kind in (CPU, CUDA)]


def distances(name, sets, *words):
    """Of the losses, and the largest of the gradients' norms."""
    cpu, cuda = on_both(name, sets, *words)
    expect_equal(len(cuda), sets["train.max_steps"])
    for a, b in zip(cuda, cpu):
        expect_equal([a[key] for key in ("step", "epoch", "lr", "skipped", "samples")],
                     [b[key] for key in ("step", "epoch", "lr", "skipped", "samples")])
    return ([distance(a["loss"], b["loss"]) for a, b in zip(cuda, cpu)],
            max(distance(a["grad_norm"], b["grad_norm"]) for a, b in zip(cuda, cpu)))


def close_losses(model, optimizer, seeds, steps):
    """A set of weights jumps where rounding puts a ReLU or a maximum on the other side, and Adam, for which the smallest
    gradients count as much as the largest, makes that grow: of ten sets, two may within 50 steps."""
    furthest, jumped = [], []
    for seed in seeds:
        found, norms = distances("close", plain(model__name=model, train__max_steps=steps, **optimizer),
                                 "--init", weights(seed, model), "--reset")
        what = "%s, %s, weights %d, %d steps: losses within %.1e, gradients' norms within %.1e" % (
            model, optimizer, seed, steps, max(found), norms)
        if max(found[:50]) > 1e-5 or norms > 1e-3:
            jumped.append(seed)
        expect(max(found[:6]) <= 1e-5 and max(found[:50]) <= 1e-3 and len(jumped) <= len(seeds) // 5, what, jumped, found)
        furthest.append(max(found))
    expect(statistics.median(furthest) <= 1e-4, furthest)
    print("      %s, %s: %d sets of weights, %d steps, losses within %.1e, sets that jumped: %s" % (
        model, optimizer, len(furthest), steps, max(furthest), jumped))


SEEDS = range(1, 11) if FULL else (1, 2)
STEPS = 200 if REAL else 50 if FULL else 6


@check
def losses_of_the_tutorials_network_with_sgd():
    close_losses("cnn", SGD, SEEDS, STEPS)


@check
def losses_of_the_tutorials_network_with_adamw():
    close_losses("cnn", ADAMW, SEEDS, STEPS)


@check
def losses_of_the_network_a_layer_an_operation():
    for optimizer in (SGD, ADAMW):
        close_losses("cnn_plain", optimizer, SEEDS if FULL else (3,), STEPS)


@check
def losses_of_resnet18():
    """Without a GPU one step of one image: its loss is the forward pass, the gradient's norm the backward pass."""
    if not FULL and not REAL:
        raise Skip("half a minute on the stand-in: with CIFAR_TRAIN_FULL=1")
    steps = 20 if REAL else 1
    found, norms = distances("resnet", plain(
        model__name="resnet18", train__max_steps=steps, train_batch_size=1 if steps == 1 else 16,
        train_micro_batch_size_per_gpu=1 if steps == 1 else 16, data__path=few(320, 4)))
    print("      losses within %.1e, gradients' norms within %.1e" % (max(found), norms))
    expect(found[0] <= 1e-5 and max(found) <= 1e-3, found)
    expect(norms <= 1e-2, norms)


@check
def losses_in_bf16():
    if not can_bf16(CPU):
        raise Skip("the CPU does not compute in bf16")
    for model in ("cnn", "cnn_plain") if FULL else ("cnn",):
        sets = plain(model__name=model, train__max_steps=6)
        found, norms = distances("bf16-", {**sets, "bf16.enabled": True}, "--reset")
        print("      %s: losses within %.1e, gradients' norms within %.1e" % (model, max(found), norms))
        # bf16 has eight bits: what is nearly a tie may be rounded otherwise.
        expect(max(found) <= 1e-3 and norms <= 2e-2, found, norms)
        as_bf16 = [r["loss"] for r in records(path("bf16-cuda"), "step")]
        train(path("f32-cuda"), sets, "--reset", *CUDA, config=TUTORIAL)
        expect([r["loss"] for r in records(path("f32-cuda"), "step")] != as_bf16, "bf16 gives the losses of f32")


@check
def losses_in_fp16():
    """A scale that is too large at first: steps are skipped, the weights stay, and then it trains."""
    sets = plain(model__name="cnn", train__max_steps=8, fp16__enabled=True, fp16__initial_scale_power=24,
                 fp16__hysteresis=1, train__max_bad_steps=100)
    train(path("f32"), plain(model__name="cnn", train__max_steps=1), *CPU, config=TUTORIAL)
    train(path("fp16"), sets, *CUDA, config=TUTORIAL)
    steps = records(path("fp16"), "step")
    first = distance(steps[0]["loss"], records(path("f32"), "step")[0]["loss"])
    skipped = [r["skipped"] for r in steps]
    expect(first <= 1e-3, "the loss of the first step is %.1e from that in f32" % first)
    expect(skipped[0] > 0 and skipped[-1] == skipped[-2], "the steps skipped", skipped)
    scales = [r["loss_scale"] for r in steps]
    expect(scales[-1] < scales[0] <= 2 ** 24 and all(b <= a for a, b in zip(scales, scales[1:])), scales)
    train(path("fp16-twin"), sets, "--no-record", *CUDA, config=TUTORIAL)
    expect_same_result(path("fp16-twin"), result(path("fp16")), "--no-record")
    # A skipped update leaves the weights that travel to the device as they were.
    train(path("fp16-host"), {**sets, "zero_optimization.offload_optimizer.device": "cpu"}, *CUDA, config=TUTORIAL)
    expect_same_result(path("fp16-host"), result(path("fp16")), "offloaded")


@check
def weights_that_fp16_has_destroyed():
    """Steps that overflow are skipped, and the loss scale falls for long before that is divergence: a warning tells."""
    sets = plain(model__name="cnn", fp16__enabled=True, train__max_steps=4, scheduler__params__warmup_max_lr=1e38,
                 scheduler__params__warmup_num_steps=1)
    done = train(path("destroyed"), sets, *CUDA)
    expect("warning: the weights of step 4 give no finite loss on the test split" in done.stderr, done.stderr)


# ---- the same bits

def same_bits(name, sets, variants, *words):
    """Every variant (label, words, environment) ends as the first."""
    expected = None
    for label, more, env in variants:
        output = path("%s-%s" % (name, label))
        train(output, sets, *words, *more, *CUDA, env=env)
        expected = expected or result(output)
        expect_same_result(output, expected, label)
        expect_equal(weights_sha256(os.path.join(output, "last.bin")), expected[0], label)
        shutil.rmtree(output)
    return expected


@check
def the_same_run_twice_and_unrecorded():
    cases = [("cnn", False), ("cnn_plain", True), ("cnn", True), ("cnn_plain", False)]
    for model, bf16 in cases if FULL else cases[:2]:
        same_bits("twice", small(model__name=model, bf16__enabled=bf16, train_batch_size=8),
                  [("first", (), None), ("second", (), None), ("no-record", ("--no-record",), None)])


@check
def streams_late_and_at_once():
    need_stand_in()
    for model in ("cnn", "cnn_plain"):
        kinds = [(kind + more[0] if more else kind, more, {"ON_HOST_STREAMS": kind})
                 for kind in ("lazy", "eager") for more in [(), ("--no-record",)][:2 if FULL else 1]]
        same_bits("streams", small(model__name=model, train_batch_size=8), kinds)


# ---- ranks

def reference(micros, model, bf16):
    """Of one rank."""
    output = path("one-%d-%s-%d" % (micros, model, bf16))
    if not os.path.exists(output):
        train(output, small(train_batch_size=4 * micros, model__name=model, bf16__enabled=bf16), *CUDA, env=ONE_GPU)
    return result(output)


def as_one_rank(ranks, stage, micros=4, model="cnn_plain", bf16=False, env=None, **changed):
    expected = reference(micros, model, bf16)
    output = path("ranks")
    train(output, small(train_batch_size=4 * micros, model__name=model, bf16__enabled=bf16,
                        zero_optimization__stage=stage, **changed), "--reset", *CUDA, ranks=ranks, env=env)
    expect_same_result(output, expected, "%s, stage %d, %d micro-batches, bf16 %s" % (ranks, stage, micros, bf16))
    expect_equal(weights_sha256(os.path.join(output, "last.bin")), expected[0])


# Micro-batches a step: with two ranks each has two of four, and three, no power of two, of six.
EVERY = [(micros, stage, bf16) for bf16 in (False, True) for micros in (4, 2, 6) for stage in range(4)]


@check
def ranks_that_share_a_gpu():
    for micros, stage, bf16 in EVERY if FULL else [(4, 0, False), (4, 1, False), (4, 2, False), (4, 3, False),
                                                   (6, 2, False), (2, 3, True)]:
        as_one_rank(Ranks(2), stage, micros, bf16=bf16, env=ONE_GPU)
    as_one_rank(Ranks(2), 3, 2, model="cnn", env=ONE_GPU)


@check
def ranks_with_a_gpu_each():
    need_two_gpus()
    for micros, stage, bf16 in some(EVERY, 3):
        as_one_rank(Ranks(2), stage, micros, bf16=bf16, communication__backend="threads")


@check
def processes_that_share_a_gpu():
    need_mpi()
    for micros, stage, bf16 in some(EVERY, 2):
        as_one_rank(Ranks(2, mpi=True), stage, micros, bf16=bf16, env=ONE_GPU, communication__backend="mpi")


@check
def processes_with_a_gpu_each():
    need_mpi(), need_two_gpus()
    for micros, stage, bf16 in some(EVERY, 1):
        as_one_rank(Ranks(2, mpi=True), stage, micros, bf16=bf16, communication__backend="mpi")


@check
def ranks_connected_by_nccl():
    need_two_gpus()
    for micros, stage, bf16 in EVERY if FULL else [(4, 0, False), (4, 3, True)]:
        as_one_rank(Ranks(2), stage, micros, bf16=bf16, communication__backend="nccl",
                    communication__share_device=False)


def reported(name):
    """A file for ON_HOST_REPORT, and what to read from it."""
    env = {"ON_HOST_REPORT": path("report-" + name)}

    def lines():
        if not os.path.exists(env["ON_HOST_REPORT"]):
            return []
        with open(env["ON_HOST_REPORT"]) as file:
            return file.read().splitlines()
    return env, lines


@check
def nccl_ends_in_order_and_nobody_loads_beside_a_collective():
    """At the good end of a run NCCL is destroyed, not aborted; a failed one aborts it. A kernel's first launch, a new
    graph, new memory: a real device may first have to come to rest, which a collective keeps it from that waits for a
    sibling which waits for the same lock. So there is none of it while a collective is under way."""
    need_stand_in()
    good = 2 * ["ncclCommDestroy"]
    nccl = {"communication__backend": "nccl", "communication__share_device": False}
    for stage in (0, 3):
        env, lines = reported("stage-%d" % stage)
        as_one_rank(Ranks(2), stage, env=env, **nccl)
        expect_equal(lines(), good, "stage %d" % stage)
    env, lines = reported("twice")
    for steps in (2, 3):  # a run that goes on takes up a checkpoint's weights
        train(path("twice"), small(train__max_steps=steps, train_batch_size=8, zero_optimization__stage=2,
                                   steps_per_print=9, bf16__enabled=True,
                                   communication__check_interval=1, **nccl), *CUDA, ranks=Ranks(2), env=env)
    expect_equal(lines(), 2 * good)
    for words in (("reduce", "--elements", "1000"), ("step", "--set", "train_batch_size=2", "--set",
                                                     "train_micro_batch_size_per_gpu=1", "--config", TUTORIAL,
                                                     "--set", "data.path=" + few(1000, 4), "--set",
                                                     "data.on_corrupt=skip")):
        env, lines = reported("bench-" + words[0])
        done = run("bench", *words, "--ranks", "2", "--windows", "1", "--seconds", "0.001", *CUDA, env=env)
        expect_equal(done.returncode, DONE, done.stdout, done.stderr)
        expect_equal(set(lines()), set(good), lines())
    env, lines = reported("failed")
    train(path("failed"), small(train_batch_size=8, train__max_steps=20, scheduler__params__warmup_max_lr=1e20, **nccl),
          *CUDA, ranks=Ranks(2), env=env, expecting=DIVERGED)
    expect_equal(lines(), 2 * ["ncclCommAbort"])


@check
def what_cannot_be_recorded_is_launched():
    """A library that fails while a step is recorded, on one rank: all ranks go on launch by launch, to the same bits."""
    need_stand_in()
    expected = reference(4, "cnn_plain", False)
    nccl = {"communication.share_device": False}
    in_capture = "launch_on_device@capture:801:1"
    for call, ranks, changed in ((in_capture, Ranks(1), {}), (in_capture, Ranks(2), nccl),
                                 (in_capture, Ranks(2), {"communication.backend": "threads"}),
                                 ("cudaGraphInstantiate:2:1", Ranks(2), nccl)):
        env, lines = reported("unrecorded")
        done = train(path("unrecorded"), {**small(), **changed}, "--reset", *CUDA, ranks=ranks,
                     env={**env, "ON_HOST_FAIL": call})
        said = [line for line in done.stderr.splitlines() if "could not be recorded" in line]
        expect_equal(len(said), 1, call, ranks, done.stderr)
        expect(said[0].startswith("warning: kernels are launched one by one"), said)
        expect(ranks.number == 1 or re.search(r"rank \d on host ", said[0]), said)
        expect_same_result(path("unrecorded"), expected, call, ranks)
        expect(not [line for line in lines() if line != "ncclCommDestroy"], lines())
    # What collectives moved is counted alike.
    traffic = records(path("unrecorded"), "end")[-1]["traffic"]
    train(path("recorded"), {**small(), **nccl}, *CUDA, ranks=Ranks(2))
    expect_equal(records(path("recorded"), "end")[-1]["traffic"], traffic)


@check
def a_stored_plan_that_is_not_there():
    """A library that lacks the way which the checkpoint records: another is taken, and said."""
    need_stand_in()
    output = path("plans")
    sets = long(2, model__name="cnn_plain", cuda__autotune=True)
    train(output, sets, *CUDA)
    again = train(output, {**sets, "train.max_steps": 3}, *CUDA)
    expect("stored plan" not in again.stderr, again.stderr)
    other = train(output, {**sets, "train.max_steps": 4}, *CUDA, env={"ON_HOST_PLAN": "other loops"})
    said = [line for line in other.stderr.splitlines() if "stored plan" in line]
    expect(len(said) == 1 and said[0].startswith("warning: the stored plan 'plain loops' is none of these"), other.stderr)
    # From here on the checkpoint records the other one.
    last = train(output, {**sets, "train.max_steps": 5}, *CUDA, env={"ON_HOST_PLAN": "other loops"})
    expect("stored plan" not in last.stderr, last.stderr)


@check
def doctor_tries_nvrtc_out():
    """It opens its builtins by their name, wherever it lies itself."""
    need_stand_in()
    made_up = os.path.join(os.path.dirname(WITHOUT_CUDA), "made_up")
    folder = path("nvrtc")
    os.makedirs(folder)
    with open(os.path.join(folder, "libcudnn.so.9"), "w") as file:
        file.write("no library, so that no cuDNN's version of NVRTC is asked for")

    def row(**env):
        return json.loads(run("doctor", "--json", "--cuda-path", folder, env=env).stdout)["NVRTC"]

    shutil.copy(os.path.join(made_up, "libnvrtc.so.13"), folder)
    without = row()
    expect_equal((without["ok"], without["value"]), (False, "cannot be used"))
    expect("libnvrtc-builtins.so.13.77" in without["warning"] and folder in without["warning"], without)
    expect(row(ON_HOST_DEVICES="0")["ok"], "there is no GPU that could miss it")
    shutil.copy(os.path.join(made_up, "libnvrtc-builtins.so.13.77"), folder)
    expect_equal(row(), {"ok": True, "warning": "", "value": "13.77 in %s, with %s" % (
        os.path.join(folder, "libnvrtc.so.13"), os.path.join(folder, "libnvrtc-builtins.so.13.77"))})


@check
def nccls_own_sums():
    """communication.reproducible: false may change bits, not what is computed."""
    need_two_gpus()
    for stage in range(4) if FULL else (0,):
        train(path("own-sums"), small(communication__backend="nccl", communication__reproducible=False,
                                      zero_optimization__stage=stage), "--reset", *CUDA, ranks=Ranks(2))
        for a, b in zip(records(path("own-sums"), "step"), reference(4, "cnn_plain", False)[1]):
            expect(distance(a["loss"], b["loss"]) <= 1e-5, a, b)


@check
def as_many_ranks_as_gpus():
    """Without --ranks."""
    need_two_gpus()
    output = path("auto-ranks")
    done = finish(start([PROGRAM, *train_words(output, small(train_batch_size=8, train__max_steps=1), *CUDA)],
                        env={"CUDA_VISIBLE_DEVICES": "0,1"}))
    expect_equal(done.returncode, DONE, done.stdout, done.stderr)
    expect_equal(records(output, "start")[0]["ranks"], 2)


# ---- going on

def long(steps, **changed):
    return small(train__max_steps=steps, train__epochs=20, train_batch_size=4, train_micro_batch_size_per_gpu=2,
                 **changed)


def until(output, steps, device, *words):
    return train(output, long(steps), *words, *device)


def end_of(output):
    return records(output, "end")[-1]["weights_sha256"]


@functools.lru_cache(None)
def unbroken():
    """Eight steps."""
    until(path("unbroken"), 8, CUDA)
    return path("unbroken")


@functools.lru_cache(None)
def half(kind):
    until(path("half-" + kind), 4, ("--device", kind))
    return path("half-" + kind)


def copied(folder, name):
    shutil.copytree(folder, path(name))
    return path(name)


@check
def resumed_in_the_middle():
    output = copied(half("cuda"), "resumed")
    done = until(output, 8, CUDA, "--resume", "must")
    expect_same_result(output, result(unbroken()))
    expect("another device" not in done.stdout + done.stderr, done.stdout, done.stderr)


@check
def resumed_by_other_ranks_and_unrecorded():
    output = copied(half("cuda"), "resumed-by-others")
    for step, ranks, more in ((5, 2, ()), (6, 1, ("--no-record",)), (7, 2, ("--no-record",)), (8, 1, ())):
        train(output, long(step, zero_optimization__stage=step % 4), "--resume", "must", *more, *CUDA,
              ranks=Ranks(ranks), env=ONE_GPU)
    expect_same_result(output, result(unbroken()))


@check
def resumed_on_another_device():
    for source, target in (("cpu", "cuda"), ("cuda", "cpu")):
        output = copied(half(source), "from-" + source)
        done = until(output, 8, ("--device", target), "--resume", "must")
        text = done.stdout + done.stderr
        expect(re.search("^warning: .*another device.*bits may differ", text, re.MULTILINE), text)
        for a, b in zip(records(output, "step"), records(unbroken(), "step")):
            expect(a["step"] == b["step"] and distance(a["loss"], b["loss"]) <= 1e-5, a, b)
        expect_equal(len(records(output, "step")), 8)


@check
def evaluation():
    best = os.path.join(unbroken(), "best.bin")
    found = {}
    for device in ("cpu", "cuda"):
        done = run("eval", "--ckpt", best, "--device", device, "--json")
        expect_equal(done.returncode, DONE, done.stderr)
        found[device] = json.loads(done.stdout)
    loss = {device: read.pop("loss") for device, read in found.items()}
    expect_equal(found["cuda"], found["cpu"])
    expect(distance(loss["cuda"], loss["cpu"]) <= 1e-6, loss)
    shown = [run("eval", "--ckpt", best, "--device", device).stdout for device in ("cpu", "cuda")]
    expect_equal(shown[1], shown[0])


@check
def stopped_on_request():
    output = path("stopped")
    job = start(Ranks(1).words(*train_words(output, small(train__max_steps=10 ** 6, train__epochs=10 ** 6,
                                                          train_batch_size=4, train__eval_interval=10 ** 6,
                                                          train__save_interval=10 ** 6), *CUDA)))
    for _ in range(1000):
        if os.path.exists(os.path.join(output, "metrics.jsonl")) and len(records_so_far(output)) >= 3:
            break
        time.sleep(0.05)
    os.kill(job.pid, signal.SIGUSR1)
    done = finish(job)
    expect_equal(done.returncode, STOPPED, done.stdout, done.stderr)
    reached = records(output, "step")[-1]["step"]
    expect(reached in checkpoints(output), "stopped in step %d" % reached, checkpoints(output))
    expect_equal(run("ckpt", "verify", output).returncode, DONE)
    more = small(train__max_steps=reached + 2, train__epochs=10 ** 6, train_batch_size=4,
                 train__eval_interval=10 ** 6, train__save_interval=10 ** 6)
    train(output, more, "--resume", "must", *CUDA)
    train(path("not-stopped"), more, *CUDA)
    expect_equal(end_of(output), end_of(path("not-stopped")))


def records_so_far(output):
    """While the program writes them: the last line may be half a line."""
    with open(os.path.join(output, "metrics.jsonl")) as lines:
        return [line for line in lines if '"event":"step"' in line and line.endswith("\n")]


# ---- bad input

def refused(code, culprits, *words, device=CUDA, ranks=Ranks(1), env=None, sets=None):
    """Where a run already is, which must stay as it was, and where none is, of which nothing may be left but, by an
    error that comes as late as that of memory, the lock."""
    there, nowhere = half("cuda"), path("never")
    before = files(there)
    line = None
    shutil.rmtree(nowhere, ignore_errors=True)
    for output in (there, nowhere):
        done = finish(start(ranks.words(*train_words(output, {**long(8), **(sets or {})}, *words, *device)), env=env))
        line = fails(code, done, *culprits)
    expect_equal(files(there), before, "the run that was there has changed", line)
    if code == MEMORY:
        expect_equal(files(nowhere), {}, line)
    else:
        expect(not os.path.exists(nowhere), "left behind: %s" % list(snapshot(nowhere)), line)
    return line


def refused_without_a_gpu(env, *culprits):
    """--device cuda is an error, of eval and of a dry run too; auto computes on the CPU."""
    line = refused(USAGE, [*culprits, "--device cpu"], env=env)
    for words in (["eval", "--ckpt", os.path.join(unbroken(), "best.bin"), *CUDA],
                  ["train", *train_words(path("never"), small(), *CUDA, "--dry-run")]):
        expect_equal(fails(USAGE, run(*words, env=env), *culprits), line)
    output = path("without-a-gpu")
    train(output, small(train_batch_size=4), "--reset", "--device", "auto", env=env)
    start_record, = records(output, "start")
    expect(start_record["device"].startswith("cpu"), start_record)
    if not os.path.exists(path("on-the-cpu")):
        train(path("on-the-cpu"), small(train_batch_size=4), *CPU)
    expect_same_result(output, result(path("on-the-cpu")))
    print("      " + line)


@check
def no_driver():
    need_stand_in()
    refused_without_a_gpu({"ON_HOST_DRIVER": "0"}, "device: cuda", "no NVIDIA driver", "libcuda.so.1",
                          "; install the NVIDIA driver, or use --device cpu")


@check
def a_driver_that_is_too_old():
    need_stand_in()
    refused_without_a_gpu({"ON_HOST_DRIVER": "11080"}, "device: cuda", "driver is too old", "11.8",
                          "; update the driver, or use --device cpu")


@check
def no_gpu():
    need_stand_in()
    refused_without_a_gpu({"ON_HOST_DEVICES": "0"}, "device: cuda", "no GPU",
                          "; look at nvidia-smi, or use --device cpu")


@check
def gpus_hidden_by_cuda_visible_devices():
    refused_without_a_gpu({"CUDA_VISIBLE_DEVICES": ""}, "device: cuda", "no GPU", "CUDA_VISIBLE_DEVICES is ''",
                          "; have it name GPUs that nvidia-smi -L lists, or use --device cpu")


@check
def a_gpu_that_is_too_old():
    need_stand_in()
    refused_without_a_gpu({"ON_HOST_CAPABILITY": "7.0"}, "GPU 0", "sm_70", "too old", "sm_80",
                          "; choose others by CUDA_VISIBLE_DEVICES, or use --device cpu")


@check
def a_gpu_that_is_not_there():
    refused(USAGE, ["no GPU number 77", "; choose one of those, or use --device cpu"], device=("--device", "cuda:77"))


@check
def too_little_memory_on_the_gpu():
    need_stand_in()
    env = {"ON_HOST_MEMORY": "1000000"}
    line = refused(MEMORY, ["out of memory", "GPU 0", "1000000", "micro-batch"], env=env)
    print("      " + line)
    fails(MEMORY, run("train", *train_words(path("auto"), small(), "--device", "auto"), env=env), "out of memory")


@check
def the_table_of_memory():
    """Where the GPU's is too little: what needs how much, and what would fit."""
    need_stand_in()
    # 62006 parameters, each with its gradient and Adam's state, and the activations of 64 images: with 16 it fits.
    sets = small(model__name="cnn_plain", train_batch_size=64, train_micro_batch_size_per_gpu=64, train__max_steps=1)
    done = run("train", *train_words(path("table"), sets, *CUDA), env={"ON_HOST_MEMORY": "3500000"})
    fails(MEMORY, done, "out of memory")
    for what in ("weights", "gradients", "optimizer", "activations"):
        expect(what in done.stderr, "nothing is said of the %s" % what, done.stderr)
    expect(re.search(r"micro-batch[^\n]*\b\d+", done.stderr), "no micro-batch that fits is named", done.stderr)


@check
def a_shared_gpu_too_small_for_two_ranks():
    """Each rank alone would fit; nobody may meet an allocation that fails."""
    need_stand_in()
    sets = small(train_batch_size=8, zero_optimization__stage=0)
    words = ["train", *train_words(path("shared"), sets, *CUDA, "--ranks", 2)]
    foretold = json.loads(run(*estimate_words(sets), *CUDA, "--ranks", 2, "--json", env=ONE_GPU).stdout)
    need = foretold["stages"][0]["device"]
    expect_equal([foretold["ranks_a_gpu"], need], [2, 2 * foretold["stages"][0]["rank"]["device"]])
    for available, advice in ((need // 2 + 1, ""), (need - 1, "zero_optimization.stage 1 is the lowest that fits")):
        for more in ([], ["--dry-run"]):
            line = fails(MEMORY, run(*words, *more, env={**ONE_GPU, "ON_HOST_MEMORY": str(available)}),
                         "out of memory on GPU 0", "for weights", "for optimizer state", "for activations",
                         "2 ranks that share the GPU: %d in all" % need, "but %d of %d are free" % (available, available),
                         advice)
    print("      " + line)
    done = run(*words, env={**ONE_GPU, "ON_HOST_MEMORY": str(need + 4096)})
    expect_equal(done.returncode, DONE, done.stderr)


@check
def estimates_of_a_gpu():
    """They are compared with its memory, and the host's part with the host's."""
    need_stand_in()
    sets = small(zero_optimization__offload_optimizer__device="cpu", train_batch_size=64,
                 train_micro_batch_size_per_gpu=64)
    words = [*estimate_words(sets), "--ranks", 1]
    found = json.loads(run(*words, *CUDA, "--json", env={"ON_HOST_MEMORY": "2000000"}).stdout)
    rank, = {json.dumps(s["rank"]) for s in found["stages"]}  # one rank shares nothing
    rank = json.loads(rank)
    expect_equal(found["available_of_gpu"], 2000000)
    expect(rank["device"] > 2000000 and rank["offloaded"] >= 12 * found["parameters"], rank)
    expect_equal(rank["optimizer"], 0)
    expect_equal(rank["host"], rank["offloaded"] + rank["mirrors"] + rank["staged"] + rank["snapshot"] + rank["overhead"])
    expect_equal([s["fits"] for s in found["stages"]], 4 * [False])
    expect(1 <= found["largest_micro_batch"] < 64, found["advice"])
    text = run(*words, *CUDA, env={"ON_HOST_MEMORY": "2000000"}).stdout
    expect(re.search(r"2\.0 MB of GPU 0", text) and re.search(r"a GPU with 1 rank, MB\n.*\n  fits +no", text), text)
    expect("page-locked copies" in text and re.search(r"this host, MB\n.*\n  fits +yes", text), text)
    # A login node has no GPU: the sizes are told, but there is nothing to compare them with.
    nowhere = run(*words, *CUDA, env={"ON_HOST_DRIVER": "0"})
    expect_equal(nowhere.returncode, DONE, nowhere.stderr)
    expect("fits" not in nowhere.stdout and "a GPU with 1 rank" in nowhere.stdout, nowhere.stdout)
    expect(re.search("nothing is compared.*no NVIDIA driver", nowhere.stdout.splitlines()[-1]), nowhere.stdout)
    host = json.loads(run(*words, *CPU, "--json").stdout)
    expect_equal([host["available_of_gpu"], host["stages"][0]["device"]], [None, 0])


@check
def dry_runs_tell_what_is_offloaded():
    done = train(path("dry-offload"), small(zero_optimization__offload_optimizer__device="cpu"), "--dry-run", *CUDA)
    found = re.search(r"^of the host's memory: (\d+) bytes a rank for offloaded optimizer state, (\d+) page-locked",
                      done.stdout, re.MULTILINE)
    expect(found and int(found[1]) >= 12 * 62006 and int(found[2]) > 0, done.stdout)


@check
def overlap_comm_and_offloading_change_nothing():
    """DeepSpeed's configurations often ask for the first; a GPU's stream orders everything."""
    need_two_gpus()
    for backend in ("nccl", "threads"):
        for stage in range(4) if FULL else (0, 3):
            as_one_rank(Ranks(2), stage, communication__backend=backend, communication__share_device=False,
                        zero_optimization__overlap_comm=True)
    for ranks, stage, bf16 in [(1, 0, False), (2, 3, False), (1, 0, True), (2, 1, True), (2, 2, True)]:
        as_one_rank(Ranks(ranks), stage, bf16=bf16, zero_optimization__offload_optimizer__device="cpu")


@check
def two_ranks_on_one_gpu_unasked():
    sets = {"communication.share_device": False, "train_batch_size": 8}
    culprits = ["ranks 0 and 1", "GPU", "share_device: true"]
    refused(USAGE, culprits, ranks=Ranks(2), env=ONE_GPU, sets=sets)
    if has_mpi():
        refused(USAGE, culprits, ranks=Ranks(2, mpi=True), env=ONE_GPU, sets=sets)


@check
def more_ranks_than_gpus():
    sets = {"communication.share_device": False, "train_batch_size": 8 * gpus()}
    line = refused(USAGE, ["ranks 0 and %d" % gpus(), "share_device: true"], ranks=Ranks(2 * gpus()), sets=sets)
    if not REAL:
        for _ in range(5):
            expect("device 1" not in line, "it names another GPU than that of ranks 0 and 2", line)
            line = refused(USAGE, [], ranks=Ranks(4), sets=sets)


@check
def nccl_where_it_cannot_be():
    both = {"communication.backend": "nccl", "train_batch_size": 8}
    refused(USAGE, ["nccl", "ranks 0 and 1", "auto"], ranks=Ranks(2), env=ONE_GPU, sets=both)
    refused(USAGE, ["nccl", "cpu", "auto"], ranks=Ranks(2), device=CPU, sets=both)


@check
def wrong_words():
    refused(USAGE, ["gpu", "cuda"], device=("--device", "gpu"))
    refused(USAGE, ["fp16", "bf16"], sets={"fp16.enabled": True, "bf16.enabled": True})
    refused(USAGE, ["cuda.recor"], sets={"cuda.recor": False})


@check
def a_program_without_cuda():
    if not WITHOUT_CUDA or os.path.realpath(WITHOUT_CUDA) == os.path.realpath(PROGRAM):
        raise Skip("CIFAR_TRAIN names no program without CUDA")
    before, nowhere = files(half("cuda")), path("nothing")
    for words in (train_words(half("cuda"), long(8), *CUDA), train_words(nowhere, long(8), *CUDA)):
        fails(USAGE, finish(start([WITHOUT_CUDA, *words])), "built without CUDA", "preset", "--device cpu")
    fails(USAGE, finish(start([WITHOUT_CUDA, "eval", "--ckpt", os.path.join(unbroken(), "best.bin"), *CUDA])),
          "built without CUDA")
    expect_equal(files(half("cuda")), before)
    expect(not os.path.exists(nowhere), "something was left behind")
    output = path("without-cuda")
    done = finish(start([WITHOUT_CUDA, *train_words(output, long(2), "--device", "auto", "--ranks", "1")]))
    expect_equal(done.returncode, DONE, done.stderr)
    # It goes on with what was trained with CUDA.
    done = finish(start([WITHOUT_CUDA, *train_words(copied(half("cuda"), "taken-over"), long(8), *CPU, "--ranks", "1",
                                                    "--resume", "must")]))
    expect_equal(done.returncode, DONE, done.stderr)
    expect("another device" in done.stdout + done.stderr, done.stdout, done.stderr)


@check
def a_loss_that_is_not_finite():
    """As on the CPU: the same steps are skipped, the same is said, and the last good checkpoint stays."""
    said, steps = {}, {}
    wild = plain(model__name="cnn", train__max_steps=20, optimizer__params__lr=1e20)
    cases = [(CPU, Ranks(1)), (CUDA, Ranks(1)), (CUDA, Ranks(2))]
    for number, (device, ranks) in enumerate(cases):
        output = path("wild-%d" % number)
        sets = {**wild, "train_batch_size": 8, "train_micro_batch_size_per_gpu": 4, "communication.share_device": True}
        words = ranks.words(*train_words(output, sets, *device, config=TUTORIAL))
        done = finish(start(words, env=ONE_GPU))
        said[number] = fails(DIVERGED, done, "step ", "lr", "--reset").replace(output, "OUT")
        steps[number] = [(r["step"], r["skipped"], r["loss"] is None) for r in records(output, "step")]
        expect("step %d" % steps[number][-1][0] in said[number], said, steps)
        expect_equal([skipped for _, skipped, _ in steps[number][-3:]], [1, 2, 3])
        expect_equal(run("ckpt", "verify", output).returncode, DONE)
        # Again: from the last good checkpoint into the same step.
        expect_equal(fails(DIVERGED, finish(start(words, env=ONE_GPU))).replace(output, "OUT"), said[number])
    for number in range(1, len(cases)):
        expect_equal((steps[number], said[number]), (steps[0], said[0]), cases[number])


# ---- words that train nothing

@check
def help_needs_no_gpu():
    for env in ({}, {"ON_HOST_DRIVER": "0"}, {"CUDA_VISIBLE_DEVICES": ""}):
        for words in (["--help"], ["train", "--help"], ["train", *CUDA, "--help"], ["eval", *CUDA, "--help"]):
            done = run(*words, env=env)
            expect_equal((done.returncode, done.stderr), (DONE, ""), words)
            if "train" in words:
                for option in ("--device", "auto | cpu | cuda", "--cuda-path", "--no-record", "--ranks"):
                    expect(option in done.stdout, option, done.stdout)


@check
def dry_runs():
    for ranks, env in ((Ranks(1), {}), (Ranks(2), ONE_GPU)):
        for sets in (small(), small(bf16__enabled=True, zero_optimization__stage=3)):
            done = train(path("dry"), sets, "--dry-run", *CUDA, ranks=ranks, env=env)
            expect(re.search(r"^cuda, .*sm_\d+.*CUDA \d+\.\d+.*driver", done.stdout, re.MULTILINE), done.stdout)
            expect("activations" in done.stdout, done.stdout)
            expect(not os.path.exists(path("dry")), "a dry run has left something")
    shown = run("train", *train_words(path("dry"), small(), "--print-config", *CUDA, "--no-record"))
    expect_equal(shown.returncode, DONE, shown.stderr)
    expect(re.search(r"device: cuda", shown.stdout) and re.search(r"record: false", shown.stdout), shown.stdout)
    plan = run("train", *train_words(path("dry"), small(), "--dump-plan", *CUDA))
    expect(plan.returncode == DONE and plan.stdout, plan.stderr)


@check
def a_dry_run_refuses_what_a_run_refuses():
    sets = small(communication__share_device=False)
    fails(USAGE, run("train", *train_words(path("dry"), sets, "--dry-run", *CUDA, "--ranks", "2"), env=ONE_GPU),
          "share_device")
    if not REAL:
        fails(MEMORY, run("train", *train_words(path("dry"), small(), "--dry-run", *CUDA),
                          env={"ON_HOST_MEMORY": "1000000"}), "out of memory")


# ---- what a driver, a GPU or a folder does wrong

def left_out(done):
    expect_equal(done.returncode, DONE, done.stdout, done.stderr)
    return [line for line in done.stderr.splitlines() if line.startswith("warning: device: auto ")]


@check
def auto_beside_a_gpu_that_cannot_be_used():
    """One line says why; where there is nothing to wonder at there is none."""
    need_stand_in()
    auto, sets = ("--device", "auto"), small(train__max_steps=0)
    for env, why in (({"ON_HOST_DRIVER": "12080"}, "driver is too old: it serves CUDA 12.8.*; update the driver"),
                     ({"ON_HOST_CAPABILITY": "7.5"}, r"GPU 0.*sm_75.*; choose others by CUDA_VISIBLE_DEVICES"),
                     ({"ON_HOST_DRIVER": "0"}, None), ({"ON_HOST_DEVICES": "0"}, None),
                     ({"CUDA_VISIBLE_DEVICES": ""}, None), ({}, None)):
        jobs = [ranks.words(*train_words(path("left-out"), sets, "--reset", *auto))
                for ranks in (Ranks(1), Ranks(2), *([Ranks(2, mpi=True)] if has_mpi() else []))]
        if why:
            jobs += [[PROGRAM, *words] for words in (
                ["train", *train_words(path("left-out"), sets, "--dry-run", *auto)],
                ["eval", "--ckpt", os.path.join(unbroken(), "best.bin"), "--max-images", "1", *auto],
                ["bench", "reduce", "--elements", "1000", "--windows", "1", "--seconds", "0.001", *auto])]
        for job in jobs:
            lines = left_out(finish(start(job, env=env)))
            expect_equal(len(lines), 1 if why else 0, job, lines)
            expect(not why or re.search("computes on the CPU: .*%s, or say --device cpu$" % why, lines[0]), lines)
    expect_equal(left_out(train(path("left-out"), sets, "--reset", *CPU, env={"ON_HOST_DRIVER": "12080"})), [])


@check
def auto_takes_the_gpus_that_can_be_used():
    """A workstation's old display card must not stand in the way of its good one, wherever it is numbered."""
    need_stand_in()
    for capabilities, old in (("9.0,7.0", 1), ("7.0,9.0", 0)):
        words = train_words(path("mixed"), small(train_batch_size=4, communication__share_device=False), "--reset",
                            "--device", "auto")
        done = finish(start([PROGRAM, *words], env={"ON_HOST_CAPABILITY": capabilities}))
        expect_equal(done.returncode, DONE, done.stderr)
        expect("cuda, On-host GPU (sm_90)" in done.stderr and "solo" in done.stderr, done.stderr)
        expect(re.search("leaves a GPU out: GPU %d, .*too old" % old, "\n".join(left_out(done))), done.stderr)


@check
def a_cuda_path_that_is_no_folder():
    """Also where nothing is looked for in it."""
    wrong = ("--cuda-path", path("no-such-folder"))
    line = fails(USAGE, run("doctor", *wrong), wrong[1])
    for device in (CUDA, CPU):
        expect_equal(refused(USAGE, [], *wrong, device=device), line)
        for words in (["train", *train_words(path("never"), small(), "--dry-run")],
                      ["eval", "--ckpt", os.path.join(unbroken(), "best.bin")], ["selftest"],
                      ["bench", "reduce", "--ranks", "1"]):
            expect_equal(fails(USAGE, run(*words, *wrong, *device)), line, words)


@check
def every_verb_has_its_own_remedy_for_too_little_memory():
    need_stand_in()
    evaluate = ["eval", "--ckpt", os.path.join(unbroken(), "best.bin")]
    step = [*estimate_words(small(train_batch_size=4)), "--ranks", "1", "--windows", "1", "--seconds", "0.001"]
    for words, remedy in (
            (["train", *train_words(path("never"), small(train_batch_size=4))], "train_micro_batch_size_per_gpu or"),
            (evaluate, "--batch-size"), (["bench", "step", *step[1:]], "train_micro_batch_size_per_gpu (--set)"),
            (["bench", "reduce", "--ranks", "1"], "--elements"), (["bench", "update", "--ranks", "1"], "--elements")):
        line = fails(MEMORY, run(*words, *CUDA, env={"ON_HOST_FAIL": "cudaMalloc:2:1"}), "out of memory on GPU 0",
                     " bytes more are needed", "or end other programs on the GPU")
        expect(re.search("; use (a smaller|fewer) " + re.escape(remedy), line), line)
    expect("--batch-size" in fails(MEMORY, run(*evaluate, *CUDA, env={"ON_HOST_MEMORY": "300000"})), evaluate)


@check
def a_gpu_that_is_lost_midway():
    """All ranks end, one line names the GPU, and the run goes on from its last checkpoint to the same weights."""
    need_stand_in()
    sets = long(8, train__save_interval=2, communication__share_device=False)
    cases = [("unrecorded", Ranks(1), {"cuda.record": False}, "cudaLaunchKernelEx:220:400"),
             ("one", Ranks(1), {}, "cudaGraphLaunch:214:10"),
             ("threads", Ranks(2), {"communication.backend": "threads"}, "cudaGraphLaunch:214:20"),
             ("nccl", Ranks(2), {"communication.backend": "nccl"}, "cudaGraphLaunch:214:20")]
    for name, ranks, more, failure in cases if FULL else cases[1:]:
        output = path("lost-" + name)
        words = ranks.words(*train_words(output, {**sets, **more}, *CUDA))
        lost(name, output, words, {"ON_HOST_FAIL": failure}, words)
    if not has_mpi():
        return
    output = path("lost-mpi")
    rank = ["-np", "1", PROGRAM, *train_words(output, {**sets, "communication.backend": "mpi"}, *CUDA)]
    line = lost("mpi", output, ["mpirun", *rank, ":", "-x", "ON_HOST_FAIL=cudaGraphLaunch:214:10", *rank], {},
                ["mpirun", *rank, ":", *rank])
    expect("GPU 1 of host " in line, line)
    print("      " + line)


def lost(name, output, words, env, again):
    line = fails(LOST, finish(start(words, env=env)), "GPU ", " of host ", " is lost: ", "run the same command again",
                 "look at dmesg")
    last = max(checkpoints(output))
    expect(0 < last < 8, "%s: the last checkpoint is step %d" % (name, last))
    done = finish(start(again))
    expect_equal(done.returncode, DONE, name, done.stdout, done.stderr)
    expect_same_result(output, result(unbroken()), name)
    return line


def problem():
    """Why nothing here can be run; empty: all can."""
    if not PROGRAM:
        return ""  # which main() says
    if not os.path.exists(PROGRAM):
        return "%s is not built" % PROGRAM
    if REAL and gpus() == 0:
        return "there is no GPU: nvidia-smi -L lists none"
    return ""


if problem():
    print(problem())
    sys.exit(77)
main()
