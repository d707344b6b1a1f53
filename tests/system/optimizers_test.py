"""Every optimizer: the same bits on any ranks with any ZeRO stage, killed and resumed; what it keeps, moves and learns;
PyTorch's schedules.

A part of the combinations by default; all of them with CIFAR_TRAIN_FULL=1.
"""
import math
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import *

FULL = os.environ.get("CIFAR_TRAIN_FULL", "") not in ("", "0")
STEPS = 8
# The rates are such that a few steps learn something.
OPTIMIZERS = {
    "SGD": {"lr": 0.05, "momentum": 0.9},
    "Adam": {"lr": 0.002, "weight_decay": 0.01},
    "AdamW": {"lr": 0.002, "weight_decay": 0.01},
    "RMSprop": {"lr": 0.0005, "momentum": 0.5, "centered": True},
    "Adagrad": {"lr": 0.01, "lr_decay": 0.01},
    "Lion": {"lr": 0.0005, "weight_decay": 0.1},
    "Lamb": {"lr": 0.02, "weight_decay": 0.01},
    "LARS": {"lr": 1.0, "momentum": 0.9, "weight_decay": 0.001, "trust_coeff": 0.02},
    "Muon": {"lr": 0.01, "adamw_lr": 0.002, "weight_decay": 0.01}}
STATES = {"SGD": ["momentum_buffer"], "Adam": ["exp_avg", "exp_avg_sq"], "AdamW": ["exp_avg", "exp_avg_sq"],
          "RMSprop": ["square_avg", "momentum_buffer", "grad_avg"], "Adagrad": ["sum"], "Lion": ["exp_avg"],
          "Lamb": ["exp_avg", "exp_avg_sq"], "LARS": ["momentum_buffer"]}
# One that is not here is tested with its defaults.
TYPE = json.loads(run("config", "schema").stdout)["properties"]["optimizer"]["properties"]["type"]
for name in re.split(", | or ", TYPE["description"]):
    OPTIMIZERS.setdefault(name, {})


def settings(optimizer, **changed):
    """Twelve micro-batches a step, which 1, 2, 3 and 4 ranks divide; small buckets, so that there are several."""
    found = {**FEW, "data.path": few(), "train_batch_size": 48, "train.epochs": 10, "train.max_steps": STEPS,
             "train.save_interval": 3, "train.eval_interval": 5, "scheduler.type": "StepLR",
             "scheduler.params.step_size": 3, "zero_optimization.allgather_bucket_size": 20000,
             "optimizer.type": optimizer}
    del found["scheduler.params.warmup_num_steps"]
    found.update({"optimizer.params." + key: value for key, value in OPTIMIZERS[optimizer].items()})
    found.update({key.replace("__", "."): value for key, value in changed.items()})
    return found


def residual(optimizer):
    """Batch normalisation and convolutions, with several ranks' parts in one matrix."""
    return settings(optimizer, model__name="resnet18", model__width=8, data__path=few(train=300, test=40),
                    train__max_steps=4, train__eval_interval=4, train__save_interval=2)


@functools.lru_cache(None)
def whole(optimizer, build=settings):
    """The uninterrupted run on one rank: its folder and its duration."""
    output, begin = path("whole-%s-%s" % (build.__name__, optimizer)), time.monotonic()
    train(output, build(optimizer))
    return output, time.monotonic() - begin


def expect_same(output, expected, *what):
    expect_same_result(output, result(expected), *what)
    expect_equal(weights_sha256(os.path.join(output, "last.bin")), weights_sha256(os.path.join(expected, "last.bin")), *what)


@check
def any_ranks_and_stage():
    kinds = [(ranks, stage) for ranks in (2, 3, 4) for stage in range(4)]
    for number, optimizer in enumerate(OPTIMIZERS):
        for build, count in ((settings, 3), (residual, 1)):
            chosen = kinds if FULL else random.Random(number).sample(kinds, count)
            for ranks, stage in chosen:
                output = path("ranks")
                train(output, {**build(optimizer), "zero_optimization.stage": stage}, ranks=Ranks(ranks))
                expect_same(output, whole(optimizer, build)[0], "%s, %d ranks, stage %d" % (optimizer, ranks, stage))
                shutil.rmtree(output)
    hashes = [weights_sha256(os.path.join(whole(optimizer)[0], "last.bin")) for optimizer in OPTIMIZERS]
    # Of all of these only Adam, as DeepSpeed has it, is the same as another: AdamW.
    expect_equal(len(set(hashes)), len(hashes) - 1, "optimizers that do the same")


@check
def mpirun_and_bf16():
    """Whole tensors' sums and directions across processes, and bf16 copies for layers."""
    probe = finish(start([PROGRAM, *train_words(path("probe"), {"bf16.enabled": True}, "--dry-run")]))
    for optimizer in ("Lamb", "LARS", "Muon", "Lion"):
        bf16 = {"bf16.enabled": True} if probe.returncode == DONE else {}
        train(path("one"), {**settings(optimizer), **bf16})
        for ranks, stage in ((2, 2), (4, 3)) if not FULL else ((2, 1), (2, 2), (4, 2), (3, 3), (4, 3)):
            train(path("many"), {**settings(optimizer), **bf16, "zero_optimization.stage": stage},
                  ranks=Ranks(ranks, mpi=has_mpi()))
            expect_same(path("many"), path("one"), "%s, %d ranks, stage %d" % (optimizer, ranks, stage))
            shutil.rmtree(path("many"))
        shutil.rmtree(path("one"))


@check
def killed_and_resumed():
    numbers = random.Random(1)
    for turn, optimizer in enumerate(OPTIMIZERS if FULL else ("Lamb", "Muon", "Lion", "LARS")):
        output, longest = path("killed-%d" % turn), 1.2 * whole(optimizer)[1]

        def start_of(kills):
            ranks, stage, moment = Ranks(1 + (turn + kills) % 4), numbers.randrange(4), numbers.uniform(0.2, 1) * longest
            words = train_words(output, {**settings(optimizer), "train.save_interval": 1, "zero_optimization.stage": stage})
            return "%s, %s, stage %d" % (optimizer, ranks, stage), ranks.words(*words), moment

        expect_same(output, whole(optimizer)[0], *train_through_kills(2, start_of))


@check
def resumed_after_every_step_with_other_ranks():
    for optimizer in OPTIMIZERS:
        for step in range(1, STEPS) if FULL else (1, 4, 6):
            train(path("parts"), {**settings(optimizer), "train.max_steps": step, "zero_optimization.stage": step % 4},
                  ranks=Ranks(1 + step % 4))
        train(path("parts"), settings(optimizer))
        expect_same(path("parts"), whole(optimizer)[0], optimizer)
        shutil.rmtree(path("parts"))


def moments(output, step):
    """{name: elements as bytes} of a checkpoint's optimizer state, of all ranks' files."""
    folder = os.path.join(output, "ckpt", "step-%08d" % step)
    found = {}
    for name in sorted(os.listdir(folder)):
        if name.startswith("optim-"):
            found.update(safetensors(os.path.join(folder, name))[0])
    return found


@check
def checkpoints_have_pytorchs_states():
    parameters = ["%s.%s" % (layer, part) for layer in ("conv1", "conv2", "fc1", "fc2", "fc3") for part in ("weight", "bias")]
    for optimizer in OPTIMIZERS:
        names = set(moments(whole(optimizer)[0], STEPS))
        if optimizer == "Muon":  # AdamW for the vectors alone, no more
            expected = {p + ".momentum_buffer" for p in parameters if p.endswith("weight")}
            expected |= {p + s for p in parameters if p.endswith("bias") for s in (".exp_avg", ".exp_avg_sq")}
        elif optimizer in STATES:
            expected = {"%s.%s" % (p, s) for p in parameters for s in STATES[optimizer]}
        else:
            expected = {name for name in names if name.rpartition(".")[0] in parameters}
        expect_equal(names, expected, optimizer)


@check
def they_learn():
    for optimizer in OPTIMIZERS:
        train(path("learn"), settings(optimizer, train__max_steps=120, train__epochs=20, train__eval_interval=0, train__save_interval=0,
                                      scheduler__params__step_size=1000))
        losses = [r["loss"] for r in records(path("learn"), "step")]
        first, last = sum(losses[:5]) / 5, sum(losses[-5:]) / 5
        print("      %-8s %.3f -> %.3f" % (optimizer, first, last))
        expect(math.isfinite(last) and last < first - 0.02, optimizer, first, last)
        shutil.rmtree(path("learn"))


@check
def memory_is_predicted():
    """A rank's allocations equal the estimate, except at the bounds of ranks' parts; Muon has one state for a
    matrix."""
    for optimizer in ("Lamb", "LARS", "Muon", "Adam"):
        for stage in (0, 1, 2, 3) if FULL else (1, 3):
            sets = {**residual(optimizer), "zero_optimization.stage": stage, "train.max_steps": 1}
            train(path("memory"), sets, "--reset", ranks=Ranks(2))
            end = records(path("memory"), "end")[-1]
            words = [w for key, value in sets.items()
                     for w in ("--set", "%s=%s" % (key, str(value).lower() if isinstance(value, bool) else value))]
            done = succeeds("estimate", "--config", DEFAULT, *words, "--ranks", "2", "--json")
            rank = json.loads(done.stdout)["stages"][stage]["rank"]
            for key in ("weights", "gradients", "optimizer"):
                found = end["peak_bytes"][key]
                expect(abs(found - rank[key]) < 0.01 * rank[key], optimizer, "stage %d" % stage, key, found, rank[key])
            if optimizer == "Muon" and stage == 1:
                muon = end["peak_bytes"]["optimizer"]
            if optimizer == "Adam" and stage == 1:
                expect(muon < 0.6 * end["peak_bytes"]["optimizer"], muon, end["peak_bytes"]["optimizer"])


@check
def schedules_give_their_rates():
    expected = {
        "ConstantLR": ({"factor": 0.5, "total_iters": 3}, lambda t: 0.5 if t < 3 else 1),
        "MultiStepLR": ({"milestones": "[2,5]", "gamma": 0.1}, lambda t: 0.1 ** ((t >= 2) + (t >= 5))),
        "ExponentialLR": ({"gamma": 0.5}, lambda t: 0.5 ** t),
        "LinearLR": ({"start_factor": 1, "end_factor": 0.25, "total_iters": 6}, lambda t: 1 - 0.75 * min(t, 6) / 6),
        "PolynomialLR": ({"total_iters": 6, "power": 2}, lambda t: (1 - min(t, 6) / 6) ** 2),
        "CosineAnnealingLR": ({"T_max": "auto"}, lambda t: (1 + math.cos(math.pi * t / STEPS)) / 2),
        "CosineAnnealingWarmRestarts": ({"T_0": 3}, lambda t: (1 + math.cos(math.pi * (t % 3) / 3)) / 2),
        "LRRangeTest": ({"lr_range_test_min_lr": 0.001, "lr_range_test_step_size": 4}, lambda t: (1 + t / 4) / 2),
        "WarmupDecayLR": ({"warmup_max_lr": 0.002, "warmup_num_steps": 2, "warmup_type": "linear"},
                          lambda t: [0, 0, 0.5, 1, 5 / 6, 4 / 6, 3 / 6, 2 / 6][t])}
    for name, (params, share) in expected.items():
        sets = {key: value for key, value in settings("Adam").items() if not key.startswith("scheduler.")}
        sets["scheduler.type"] = name
        sets.update({"scheduler.params." + key: value for key, value in params.items()})
        train(path("schedule"), sets, "--reset")
        found = [r["lr"] for r in records(path("schedule"), "step")]
        expect_equal(len(found), STEPS)
        for t, lr in enumerate(found):
            expect(abs(lr - 0.002 * share(t)) <= 1e-15, name, t, lr, 0.002 * share(t))


@check
def an_overridden_rate_is_reported():
    for name, key in (("LRRangeTest", "lr_range_test_min_lr"), ("WarmupDecayLR", "warmup_max_lr")):
        sets = {key: value for key, value in settings("Lion").items() if not key.startswith("scheduler.")}
        done = train(path("said"), {**sets, "scheduler.type": name, "train.max_steps": 1}, "--reset")
        expect("%s 0.001 overrides optimizer.params.lr 5e-04" % key in done.stderr, done.stderr)


@check
def bench_measures_each():
    for optimizer in ("Adam", "Lion", "Adagrad", "Lamb", "LARS", "Muon"):
        done = succeeds("bench", "update", "--optimizer", optimizer, "--elements", "200000", "--windows", "1", "--seconds",
                   "0.01", "--json")
        found = json.loads(done.stdout)
        expect_equal(found["optimizer"], optimizer)
        expect(found["alone_gbytes_per_sec"] > 0, found)
        expect_equal("orthogonalize_peak_share" in found, optimizer == "Muon", found)
    fails(USAGE, run("bench", "step", "--optimizer", "Lion"), "--optimizer belongs to bench update")
    fails(USAGE, run("bench", "update", "--optimizer", "Lyon"), "did you mean Lion?")


@check
def unsuitable_settings_are_refused():
    for sets, words in (({"optimizer.type": "Muon", "optimizer.params.ns_coefficients": "[1]"}, "be three numbers"),
                        ({"optimizer.type": "Lamb", "optimizer.params.eps": 0}, "must be more than 0"),
                        ({"optimizer.type": "OneBitLamb"}, "OneBitLamb"),
                        ({"scheduler.type": "MultiStepLR"}, "milestones must be given")):
        plain = {k: v for k, v in settings("Adam").items()
                 if not k.startswith("scheduler.") and not k.startswith("optimizer.")}
        base = plain if "optimizer.type" in sets else {**plain, "optimizer.type": "Adam"}
        fails(USAGE, train(path("never"), {**base, **sets}, expecting=USAGE), words)


main()
