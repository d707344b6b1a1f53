"""What a run must not lose: the weights of its best evaluation, and its last checkpoint that is all finite."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import *

STEPS = 10
# The linear model learns 400 images by heart within a few steps: its best evaluation, by the loss, is an early one.
SETTINGS = {**FEW, "model.name": "linear", "optimizer.params.lr": 0.03, "scheduler.params.warmup_max_lr": 0.03,
            "train.max_steps": STEPS, "train.save_interval": 2, "train.eval_interval": 3, "train.epochs": 10,
            "train.best.split": "test", "train.best.metric": "loss"}


def settings(**changed):
    return {**SETTINGS, "data.path": few(), **{k.replace("__", "."): v for k, v in changed.items()}}


@functools.lru_cache(None)
def finished():
    train(path("finished"), settings())
    return path("finished")


def copy_of_finished(name):
    """Its files, each by itself: damage to one is not damage to all its names."""
    shutil.copytree(finished(), path(name))
    return path(name)


def saved_best(output, step=STEPS):
    return os.path.join(output, "ckpt", "best-%08d.bin" % step)


def best_bin(output):
    return os.path.join(output, "best.bin")


def step_in(file):
    return int(safetensors(file)[1]["cifar_train.step"])


def best_of(steps, output=None):
    """The step of the best evaluation, of a run or of a run's first steps."""
    losses = {r["step"]: r["loss"] for r in records(output or finished(), "eval") if r["step"] in steps}
    return min(losses, key=losses.get)


def warnings(done, *culprits):
    """The warnings that name all of these."""
    return [line for line in done.stderr.splitlines()
            if line.startswith("warning: ") and all(str(culprit) in line for culprit in culprits)]


def damages():
    """Name and function: the ways to lose a file."""
    return {"cut": lambda file: os.truncate(file, os.path.getsize(file) // 2),
            "flipped": lambda file: flip(file, -1000),
            "missing": os.remove}


def expect_whole(output):
    expect_equal(run("ckpt", "verify", output).returncode, DONE, output)
    expect_equal(run("eval", "--ckpt", best_bin(output)).returncode, DONE, output)


# ---- the best weights

@check
def every_damage_to_best_weights():
    """best.bin whole or lost in one of three ways, and so its copy beside the checkpoint; then the run continues. Where
    one of them is whole the result is as if nothing had happened; a warning names the other."""
    train(path("undisturbed"), settings(train__max_steps=STEPS + 4))
    expected = weights_sha256(best_bin(path("undisturbed")))
    best = best_of(range(STEPS))
    expect_equal(step_in(saved_best(finished())), best, "the run's end is its best evaluation: this shows nothing")
    ways = {"whole": lambda file: None, **damages()}
    for of_best, of_saved in itertools.product(ways, ways):
        output = copy_of_finished("%s-%s" % (of_best, of_saved))
        # As if the end had not been evaluated: both files are of the same evaluation.
        shutil.copy(saved_best(output), best_bin(output))
        ways[of_best](best_bin(output)), ways[of_saved](saved_best(output))
        lost = [os.path.join(output, "ckpt", "best-%08d.bin" % step) for step in checkpoints(output)[:-1]]
        if of_best != "whole" and of_saved != "whole":
            for file in lost:  # these are copies too
                os.remove(file)
        done = train(output, settings(train__max_steps=STEPS + 4))
        what = "best.bin %s, its copy %s\n%s" % (of_best, of_saved, done.stderr)
        expect_equal(len(warnings(done, best_bin(output))) > 0, of_best != "whole" or of_saved != "whole", what)
        expect_equal(len(warnings(done, saved_best(output))) > 0, of_best != "whole" or of_saved != "whole", what)
        if of_best == "whole" or of_saved == "whole":
            expect_equal(weights_sha256(best_bin(output)), expected, what)
            expect_equal(warnings(done, "are lost"), [], what)
        else:
            expect_equal(len(warnings(done, "are lost", "of step %d" % best, "chosen anew")), 1, what)
            expect(step_in(best_bin(output)) >= STEPS, what)
        expect_whole(output)
        shutil.rmtree(output)


