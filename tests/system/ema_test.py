"""The exponential moving average of the weights (train.ema), also beside all else that draws or remembers: the same bits
on any ranks with any ZeRO stage, killed and resumed; what of it is evaluated, chosen, saved, exported and begun from.

A part of the combinations by default; all of them with CIFAR_TRAIN_FULL=1.
"""
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import *

FULL = os.environ.get("CIFAR_TRAIN_FULL", "") not in ("", "0")
STEPS = 26
# Twelve micro-batches a step, so that 1, 2, 3 and 4 ranks share them.
SETTINGS = {**FEW, "train_batch_size": 48, "train.epochs": 10, "train.max_steps": STEPS, "train.save_interval": 5,
            "train.eval_interval": 6, "train.best.split": "test", "train.best.metric": "loss",
            "scheduler.params.warmup_max_lr": 0.003, "train.ema.decay": 0.9, "train.ema.start": 4}


def settings(**changed):
    return {**SETTINGS, "data.path": few(), **dotted(changed)}


# Batch normalisation, whose running statistics are averaged too, in layers of several ranks' parts.
def residual():
    return settings(model__name="resnet18", model__width=8, train__max_steps=6, train__save_interval=2,
                    train__eval_interval=3, train__ema__start=1, data__path=few(train=300, test=40))


# Dropout, mixed images, a cycle of rate and momentum, clipping, accumulation and patience, which ends the run.
def transformer(**changed):
    narrow = {"name": "vit_tiny", "dim": 24, "depth": 2, "heads": 2, "dim_head": 8, "mlp_dim": 20}
    cycle = {"cycle_min_lr": 0.0001, "cycle_max_lr": 0.01, "cycle_first_step_size": 8}
    sets = {**settings(data__path=few(train=300, test=40), data__augment="[flip, {mixup: {p: 0.5}}, cutmix]",
                       optimizer__type="AdamW", scheduler__type="OneCycle", train__eval_interval=2, train__save_interval=1,
                       train__early_stopping__patience=2, train__early_stopping__metric="accuracy"),
            **{"model." + key: value for key, value in narrow.items()}, **dotted(changed)}
    return {**{key: value for key, value in sets.items() if not key.startswith("scheduler.params")},
            **{"scheduler.params." + key: value for key, value in cycle.items()}}


@functools.lru_cache(None)
def whole(of=settings):
    """The uninterrupted run's folder, and its duration."""
    begin, output = time.monotonic(), path("whole-" + of.__name__)
    train(output, of())
    return output, time.monotonic() - begin


def inspected(target, *words):
    done = succeeds("ckpt", "inspect", target, *words)
    return dict(re.findall(r"(?m)^(\w+_sha256): (\w+)$", done.stdout))


def hashes(output):
    """weights_sha256, ema_sha256 and state_sha256 of the newest checkpoint."""
    found = inspected(output, "--hash")
    expect_equal(sorted(found), ["ema_sha256", "state_sha256", "weights_sha256"])
    end = records(output, "end")[-1]
    expect_equal({key: end[key] for key in ("weights_sha256", "ema_sha256")},
                 {key: found[key] for key in ("weights_sha256", "ema_sha256")})
    return found


def averages(file):
    """{name: elements as bytes} of a file's averages, with the names of the averaged tensors."""
    return {name[:-4]: data for name, (_, _, data) in safetensors(file)[0].items() if name.endswith(".ema")}


def weights(file):
    return {name: data for name, (_, _, data) in safetensors(file)[0].items()
            if not name.endswith((".ema", "num_batches_tracked"))}


def floats(data):
    return struct.unpack("<%df" % (len(data) // 4), data)


def expect_same(output, expected, *what):
    expect_same_result(output, result(expected), *what)
    expect_equal(hashes(output), hashes(expected), *what)
    for name in ("last.bin", "best.bin"):
        expect_equal(safetensors(os.path.join(output, name))[0], safetensors(os.path.join(expected, name))[0], name, *what)


# ---- the same bits

@check
def any_ranks_and_stage():
    last = os.path.join(whole(residual)[0], "last.bin")
    expect(averages(last)["bn1.running_var"] != weights(last)["bn1.running_var"], "running statistics are not averaged")
    expect_equal(records(whole(transformer)[0], "end")[-1]["reason"], "stopped early")
    kinds = [(ranks, stage) for ranks in (1, 2, 3, 4) for stage in range(4)][1:]
    for of, number in ((settings, 5), (residual, 3), (transformer, 4)):
        for ranks, stage in kinds if FULL else random.Random(3).sample(kinds, number):
            output = path("%s-%d-%d" % (of.__name__, ranks, stage))
            train(output, {**of(), "zero_optimization.stage": stage}, ranks=Ranks(ranks))
            expect_same(output, whole(of)[0], of.__name__, "%d ranks, stage %d" % (ranks, stage))
            shutil.rmtree(output)


@check
def killed_and_resumed():
    numbers = random.Random(1)
    for turn, of in enumerate([settings, transformer] * (6 if FULL else 1)):
        output, longest = path("killed-%d" % turn), 1.2 * whole(of)[1]

        def start_of(kills):
            ranks, stage, moment = Ranks(1 + (turn + kills) % 4), numbers.randrange(4), numbers.uniform(0.1, 1) * longest
            words = train_words(output, of(train__save_interval=1, zero_optimization__stage=stage))
            return "%s, %s, stage %d" % (of.__name__, ranks, stage), ranks.words(*words), moment

        expect_same(output, whole(of)[0], *train_through_kills(3, start_of))


@check
def resumed_after_every_step():
    for step in range(1, 10):
        train(path("parts"), settings(train__max_steps=step, zero_optimization__stage=step % 4), ranks=Ranks(1 + step % 4))
    train(path("parts"), settings())
    expect_same(path("parts"), whole()[0])


# ---- what it is

@check
def the_average_is_the_formulas():
    steps, start_at, decay = 9, 3, 0.8
    train(path("formula"), settings(train__max_steps=steps, train__save_interval=1, checkpoint__keep_last=99,
                                    train__ema__start=start_at, train__ema__decay=decay))
    expected = {}
    for step in range(steps + 1):
        file = path("formula", "ckpt", "step-%08d" % step, "weights.safetensors")
        now, average = weights(file), averages(file)
        expect_equal(sorted(average), sorted(now))
        if step <= start_at:
            expect_equal(average, now, "step %d" % step)
        for name in ("conv1.weight", "conv2.bias", "fc3.weight", "fc3.bias"):
            values = floats(now[name])
            expected[name] = values if step <= start_at else [
                decay * a + (1 - decay) * p for a, p in zip(expected[name], values)]
            for a, b in zip(floats(average[name]), expected[name]):
                expect(abs(a - b) <= 1e-6 * max(1, abs(b)), name, step, a, b)
        if step > start_at:
            expect(average["conv1.weight"] != now["conv1.weight"], "step %d" % step)


@check
def training_is_not_affected():
    without = {key: value for key, value in settings().items() if not key.startswith("train.ema")}
    train(path("without"), without)
    expect_equal(records(path("without"), "end")[-1]["weights_sha256"], hashes(whole()[0])["weights_sha256"])
    expect_equal(records(path("without"), "step")[-1]["loss"], records(whole()[0], "step")[-1]["loss"])
    expect("ema_sha256" not in records(path("without"), "end")[-1])


def loss(target, *words):
    done = succeeds("eval", "--ckpt", target, "--json", *words)
    return json.loads(done.stdout)["loss"]


@check
def evaluations_use_it_by_default():
    train(path("other"), settings(train__ema__evaluate=False))
    evaluated = {name: {r["step"]: r for r in records(folder, "eval")} for name, folder in
                 (("ema", whole()[0]), ("weights", path("other")))}
    expect_equal({r.get("weights") for r in evaluated["ema"].values()}, {"ema"})
    expect_equal({r.get("weights") for r in evaluated["weights"].values()}, {None})
    expect_equal(records(path("other"), "end")[-1]["ema_sha256"], hashes(whole()[0])["ema_sha256"])
    for name, folder, option in (("ema", whole()[0], "--ema"), ("weights", path("other"), "--no-ema")):
        best = os.path.join(folder, "best.bin")
        step = int(next(v for k, v in safetensors(best)[1].items() if k.endswith(".step")))
        expect_equal(step, min(evaluated[name].values(), key=lambda r: r["loss"])["step"], "best.bin of " + name)
        for file, at in ((best, step), (folder, step), (os.path.join(folder, "last.bin"), STEPS)):
            expect_equal(loss(file), evaluated[name][at]["loss"], file)
            expect_equal(loss(file, option), evaluated[name][at]["loss"], file)
            # The other set, as the other run evaluated it: the weights of both are the same.
            expect_equal(loss(file, "--no-ema" if option == "--ema" else "--ema"),
                         evaluated["weights" if name == "ema" else "ema"][at]["loss"], file)
    checkpoint = os.path.join(whole()[0], "ckpt", "step-%08d" % STEPS)
    expect_equal(loss(checkpoint), evaluated["ema"][STEPS]["loss"])
    said = run("eval", "--ckpt", whole()[0])
    expect("the moving average of the weights, as its run evaluated (--no-ema takes the other)" in said.stderr, said.stderr)


@check
def exported():
    best = os.path.join(whole()[0], "best.bin")
    found = inspected(best)
    for words, kept, sha in (([], averages(best), "ema_sha256"), (["--ema"], averages(best), "ema_sha256"),
                             (["--no-ema"], weights(best), "weights_sha256")):
        done = succeeds("export", "--ckpt", best, "--out", path("exported.safetensors"), *words)
        tensors = safetensors(path("exported.safetensors"))[0]
        expect_equal({name: data for name, (_, _, data) in tensors.items()}, kept, words)
        expect_equal(inspected(path("exported.safetensors")), {"weights_sha256": found[sha]}, words)
        expect_equal(loss(path("exported.safetensors")), loss(best, *words), words)
    # A run may begin with it, and so does its own average.
    train(path("begun"), settings(train__max_steps=0), "--init", best)
    first = path("begun", "ckpt", "step-00000000", "weights.safetensors")
    expect_equal(weights(first), averages(best))
    expect_equal(averages(first), averages(best))


@check
def the_tutorials_flag():
    sets = {k: v for k, v in settings(train__max_steps=2).items() if not k.startswith("train.ema")}
    train(path("flag"), sets, "--use_ema")
    with open(path("flag", "config.yaml")) as file:
        expect(re.search(r"ema:\n    decay: 0.999\n    start: 0\n    evaluate: true", file.read()), "config.yaml")
    expect(len(averages(path("flag", "last.bin"))) == 10, "no average")


@check
def memory_is_predicted():
    def optimizer(*words):
        sets = [w for key, value in settings().items() if not key.startswith("train.ema")
                for w in ("--set", "%s=%s" % (key, str(value).lower() if isinstance(value, bool) else value))]
        done = succeeds("estimate", "--config", DEFAULT, *sets, "--ranks", "4", "--json", *words)
        return [s["rank"]["optimizer"] for s in json.loads(done.stdout)["stages"]]
    with_it, without = optimizer("--set", "train.ema.decay=0.9"), optimizer()
    expect_equal([2 * bytes for bytes in with_it], [3 * bytes for bytes in without], "a third state beside Adam's two")


# ---- bad input

@check
def unsuitable_settings_are_refused():
    plain = {k: v for k, v in settings(train__max_steps=2).items() if not k.startswith("train.ema")}
    train(path("plain"), plain)
    for verb in (["eval"], ["export", "--out", path("never")]):
        fails(CHECKPOINT, run(*verb, "--ckpt", path("plain"), "--ema"), "best.bin", "no moving average", "--ema")
        fails(USAGE, run(*verb, "--ckpt", whole()[0], "--ema", "--no-ema"), "--no-ema")
    expect(not os.path.exists(path("never")), "a file was written")
    expect_equal(loss(path("plain"), "--no-ema"), loss(path("plain")))
    for key, value in (("train.ema.decay", 0.5), ("train.ema.decay", 0), ("train.ema.start", 5), ("train.ema.evaluate", False)):
        done = train(whole()[0], {**settings(), key: value, "train.max_steps": STEPS + 1}, expecting=CHECKPOINT)
        fails(CHECKPOINT, done, "train.ema")
    done = train(path("plain"), {**plain, "train.ema.decay": 0.5}, expecting=CHECKPOINT)
    fails(CHECKPOINT, done, "train.ema")
    fails(USAGE, train(path("never"), settings(train__ema__decay=1), expecting=USAGE), "train.ema.decay", "less than 1")


@check
def a_damaged_average_is_found():
    copy = path("damaged")
    shutil.copytree(whole()[0], copy)
    file = os.path.join(copy, "best.bin")
    with open(file, "rb") as stored:
        size, = struct.unpack("<Q", stored.read(8))
        header = json.loads(stored.read(size))
    flip(file, 8 + size + header["fc1.weight.ema"]["data_offsets"][0] + 5)
    fails(CHECKPOINT, run("eval", "--ckpt", file), "best.bin", "fc1.weight.ema")


main()
