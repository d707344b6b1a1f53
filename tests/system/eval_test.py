"""eval: the run's own figures to the last digit, other precisions, and files that a run replaces meanwhile.

CIFAR_TRAIN_EVALUATIONS: how many evaluations while a run saves every step (default 10; 1000 with tools/test.sh --full).
With CIFAR_TRAIN_FULL=1 also 20 while vit_tiny trains.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import *

EVALUATIONS = int(os.environ.get("CIFAR_TRAIN_EVALUATIONS", 10))
FULL = os.environ.get("CIFAR_TRAIN_FULL", "") not in ("", "0")
SETTINGS = {**FEW, "train.epochs": 10, "train.max_steps": 24, "train.eval_interval": 6, "train.best.split": "test",
            "train.best.metric": "loss", "scheduler.params.warmup_max_lr": 0.003}


def settings(**changed):
    return {**SETTINGS, "data.path": few(), **dotted(changed)}


def can_bf16():
    done = finish(start([PROGRAM, *train_words(path("probe"), {"bf16.enabled": True}, "--dry-run")]))
    return done.returncode == DONE


def evaluated(target, *words):
    done = succeeds("eval", "--ckpt", target, "--json", *words)
    return json.loads(done.stdout)


# ---- the figures

@check
def the_best_files_loss_is_the_logged_one():
    """To the last digit."""
    residual = {"model__name": "resnet18", "model__width": 8, "train__max_steps": 4, "train__eval_interval": 2,
                "data__path": few(train=100, test=70)}
    cases = {"plain": {}, "odd": {"train__eval_batch_size": 37}, "held-out": {"data__validation": 90, "train__best__split": "val"},
             "direct": {**residual, "cpu__winograd": False}, "timed": {**residual, "cpu__autotune": True}}
    if can_bf16():
        cases["bf16"] = {"bf16__enabled": True}
        cases["bf16-residual"] = {**residual, "bf16__enabled": True}
    for name, changed in cases.items():
        output, sets = path(name), settings(**changed)
        train(output, sets)
        split = sets["train.best.split"]
        best = min((r for r in records(output, "eval") if r["split"] == split), key=lambda r: r["loss"])
        found = evaluated(output, "--split", split)
        for key in ("step", "loss", "accuracy", "per_class", "images"):
            expect_equal(found[key], best[key], name, key)
        lines = run("eval", "--ckpt", os.path.join(output, "best.bin"), "--split", split, "-q").stdout.splitlines()
        expect_equal(lines[0], "%s loss = %r" % (split.title(), best["loss"]), name)
        percent = re.fullmatch(r"%s accuracy: ([\d.]+)%%" % split.title(), lines[1])
        expect(percent and abs(float(percent[1]) - 100 * best["accuracy"]) < 1e-9, name, lines[1])
        expect(lines[2].startswith("Accuracy of the network on the %d " % best["images"]), lines[2])


@check
def other_precisions():
    train(path("f32"), settings())
    f32 = evaluated(path("f32"))
    expect_equal(evaluated(path("f32"), "--dtype", "fp32"), f32)
    fails(USAGE, run("eval", "--ckpt", path("f32"), "--dtype", "fp16", "--device", "cpu"), "--dtype fp16", "use --dtype fp32")
    fails(USAGE, run("eval", "--ckpt", path("f32"), "--dtype", "int8"), "--dtype")
    if not can_bf16():
        fails(USAGE, run("eval", "--ckpt", path("f32"), "--dtype", "bf16"), "--dtype bf16", "use --dtype fp32")
        return
    bf16 = evaluated(path("f32"), "--dtype", "bf16")
    expect(0 < abs(bf16["loss"] - f32["loss"]) < 0.02, bf16["loss"], f32["loss"])
    train(path("of-bf16"), settings(bf16__enabled=True))
    there, back = evaluated(path("of-bf16")), evaluated(path("of-bf16"), "--dtype", "fp32")
    expect_equal(evaluated(path("of-bf16"), "--dtype", "bf16"), there)
    expect(0 < abs(back["loss"] - there["loss"]) < 0.02, back["loss"], there["loss"])


def mirrored(folder):
    """A copy of a data set in CIFAR-10's format whose test images are mirrored."""
    shutil.copytree(folder, path("mirrored"))
    name = path("mirrored", "cifar-10-batches-bin", "test_batch.bin")
    with open(name, "rb") as file:
        data = file.read()
    with open(name, "wb") as file:
        for at in range(0, len(data), RECORD):
            file.write(data[at:at + 1])
            for row in range(at + 1, at + RECORD, 32):
                file.write(data[row:row + 32][::-1])
    return path("mirrored")


@check
def images_are_seen_in_several_ways():
    """train.eval_views and --views: a mean over mirror images does not change when test images are mirrored."""
    train(path("plain-run"), settings())
    loss = {views: evaluated(path("plain-run"), "--views", views)["loss"] for views in ("plain", "mirrored", "shifted")}
    expect_equal(len(set(loss.values())), 3, loss)
    expect_equal(evaluated(path("plain-run"))["loss"], loss["plain"])
    other = mirrored(few())
    expect_equal(evaluated(path("plain-run"), "--views", "mirrored", "--data", other)["loss"], loss["mirrored"])
    expect(evaluated(path("plain-run"), "--data", other)["loss"] != loss["plain"], loss)
    for name, changed, ranks in (("alone", {}, 1), ("spread", {"zero_optimization__stage": 3}, 3)):
        sets = settings(train__eval_views="shifted", train__eval_batch_size=37, train_batch_size=6,
                        train_micro_batch_size_per_gpu=2, **changed)
        train(path(name), sets, ranks=Ranks(ranks))
        best = min(records(path(name), "eval"), key=lambda r: r["loss"])
        for key in ("loss", "accuracy", "per_class"):
            expect_equal(evaluated(path(name))[key], best[key], name, key)
        expect(evaluated(path(name), "--views", "plain")["loss"] != best["loss"], name)
    expect_equal([r["loss"] for r in records(path("spread"), "eval")], [r["loss"] for r in records(path("alone"), "eval")])


@check
def weights_that_give_no_numbers_hit_nothing():
    """After one step at a rate of 1e20 all weights are finite, and no logit is."""
    done = train(path("lost"), settings(train__max_steps=1, train__eval_interval=1, optimizer="{type: SGD, params: {lr: 1e20}}",
                                        scheduler="{type: ConstantLR}", gradient_clipping=0), expecting=DIVERGED)
    found = records(path("lost"), "eval")[-1]
    expect_equal([found["loss"], found["accuracy"], found["top5"], set(found["per_class"])], [None, 0, 0, {0}])
    expect("test nan 0.0 %" in done.stderr, done.stderr)
    for words in ((), ("--views", "mirrored")):
        done = run("eval", "--ckpt", path("lost", "last.bin"), *words)
        fails(DIVERGED, done, path("lost", "last.bin"), "the loss on the test images is not finite", "earlier checkpoint")
        for line in ("Test loss = nan", "Test accuracy: 0.0%", "Top-5 accuracy: 0.00 %"):
            expect(line in done.stdout.splitlines(), done.stdout)
    done = run("eval", "--ckpt", path("lost", "last.bin"), "--json")
    fails(DIVERGED, done, "not finite")
    expect_equal(json.loads(done.stdout)["top5"], 0)


# ---- while a run saves

def evaluate_meanwhile(output, count, sets, *words, config=DEFAULT):
    """Each evaluation reads the complete file of one step: its loss is the recorded loss of that step."""
    endless = {"train.epochs": 10 ** 6, "train.max_steps": 10 ** 9, "train.save_interval": 1, "train.eval_interval": 1,
               "train.best.split": "last", "checkpoint.keep_last": 2}
    job = start([PROGRAM, *train_words(output, {**sets, **endless}, config=config)])
    found = []
    try:
        while not os.path.exists(os.path.join(output, "best.bin")):
            expect(job.poll() is None, *(job.communicate() if job.poll() is not None else ()))
            time.sleep(0.01)
        for i in range(count):
            target = (output, os.path.join(output, "last.bin"), os.path.join(output, "best.bin"))[i % 3]
            found.append(evaluated(target, *words))
        expect(job.poll() is None, "the run ended before its evaluations did")
    finally:
        if job.poll() is None:
            os.kill(job.pid, signal.SIGTERM)
        done = finish(job)
    expect_equal(done.returncode, STOPPED, done.stderr)
    recorded = {r["step"]: r for r in records(output, "eval")}
    for one in found:
        expect(one["step"] in recorded, one["step"])
        expect_equal(one["loss"], recorded[one["step"]]["loss"], one["step"])
    steps = {one["step"] for one in found}
    print("      %d evaluations of %d steps, %d steps were saved" % (len(found), len(steps), len(recorded)))
    return steps


@check
def evaluations_while_training_saves():
    steps = evaluate_meanwhile(path("saves"), EVALUATIONS, settings())
    expect(len(steps) > 2, "the files were hardly replaced meanwhile", sorted(steps))


@check
def evaluations_while_vit_tiny_saves():
    """The test set has 250 images."""
    if not FULL:
        raise Skip("minutes: CIFAR_TRAIN_FULL=1 runs it")
    small = {"data.path": few(train=320, test=250), "data.on_corrupt": "skip", "data.validation": 0,
             "train_batch_size": 32, "train_micro_batch_size_per_gpu": 32, "train.early_stopping.patience": 0}
    steps = evaluate_meanwhile(path("vit"), 20, small, "--max-images", "250", config=os.path.join(CONFIGS, "vit_tiny.yaml"))
    expect(len(steps) > 4, "the files were hardly replaced meanwhile", sorted(steps))


main()
