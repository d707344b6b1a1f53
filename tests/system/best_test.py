"""A run must not lose the weights of its best evaluation and its last finite checkpoint."""
import itertools
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
    return {**SETTINGS, "data.path": few(), **dotted(changed)}


@functools.lru_cache(None)
def finished():
    train(path("finished"), settings())
    return path("finished")


def copy_of_finished(name):
    """Copies each file: damage to one does not damage its hard links."""
    shutil.copytree(finished(), path(name))
    return path(name)


def saved_best(output, step=STEPS):
    return os.path.join(output, "ckpt", "best-%08d.bin" % step)


def best_bin(output):
    return os.path.join(output, "best.bin")


def step_in(file):
    return int(safetensors(file)[1]["cifar_train.step"])


def best_of(steps, output=None):
    """The step of the best evaluation of a run, or of a run's first steps."""
    losses = {r["step"]: r["loss"] for r in records(output or finished(), "eval") if r["step"] in steps}
    return min(losses, key=losses.get)


def warnings(done, *culprits):
    """The warnings that contain all these words."""
    return [line for line in done.stderr.splitlines()
            if line.startswith("warning: ") and all(str(culprit) in line for culprit in culprits)]


def files(output):
    return {name: digest for name, digest in snapshot(output).items() if name != ".lock"}


def damages():
    """Names and functions that damage or remove a file."""
    return {"cut": lambda file: os.truncate(file, os.path.getsize(file) // 2),
            "flipped": lambda file: flip(file, -1000), "missing": os.remove}


# ---- the best weights

@check
def the_best_evaluation_is_reported_at_the_end():
    done = train(path("told"), settings())
    best = best_of(range(STEPS + 1), path("told"))
    loss = next(r["loss"] for r in records(path("told"), "eval") if r["step"] == best)
    expect_equal(records(path("told"), "end")[-1]["best"], {"step": best, "split": "test", "metric": "loss", "value": loss})
    expect_match(done.stderr, "best: step %d \\(epoch %d\\), test \\d+.\\d\\d %%, chosen by its loss of %.4f; these images chose"
                 % (best, (best + 11) // 12, loss))


@check
def every_damage_to_best_weights():
    """best.bin and its copy next to the checkpoint, each whole or damaged in one of three ways; then the run continues.
    If one of them is whole, the result is as without damage; a warning names the other."""
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
            expect_equal(run("ckpt", "verify", output).returncode, DONE, what)
        else:
            expect_equal(len(warnings(done, "are lost", "of step %d" % best, "chosen again")), 1, what)
            expect(step_in(best_bin(output)) >= STEPS, what)
        expect_equal(run("eval", "--ckpt", best_bin(output)).returncode, DONE, what)
        shutil.rmtree(output)


@check
def an_evaluation_that_is_undone_is_better_than_none():
    """A run ends at its best step, whose evaluation was not due, and a continuation gets worse: the best weights of the
    last checkpoint come back. If they are lost, the weights of the end are reported as the best."""
    train(path("probe"), settings(train__eval_interval=1))
    k = best_of(range(1, STEPS - 1), path("probe"))
    interval = next((n for n in range(2, k) if k % n), None)
    expect(interval, "the losses of this run show nothing", records(path("probe"), "eval"))
    for damage in (None, *damages().values()):
        output = path("undone")
        train(output, settings(train__max_steps=k, train__save_interval=100, train__eval_interval=interval))
        expect_equal(step_in(best_bin(output)), k)
        at_end, at_checkpoint = weights_sha256(best_bin(output)), step_in(saved_best(output, k))
        expect(at_checkpoint < k, at_checkpoint)
        if damage:
            damage(saved_best(output, k))
        done = train(output, settings(train__max_steps=k + 1, train__save_interval=100, train__eval_interval=100))
        if damage:
            expect_equal(weights_sha256(best_bin(output)), at_end, done.stderr)
            expect_equal(len(warnings(done, saved_best(output, k), best_bin(output), "are lost")), 1, done.stderr)
            expect_equal(weights_sha256(saved_best(output, k)), at_end, "beside the checkpoint", done.stderr)
        else:
            expect_equal(warnings(done), [], done.stderr)
        shutil.rmtree(output)


@check
def weights_from_after_the_checkpoint_are_not_its_best():
    output = copy_of_finished("back")
    first = checkpoints(output)[0]
    # best.bin as an evaluation after the checkpoint would have left it, and no others.
    shutil.copy(os.path.join(output, "last.bin"), best_bin(output))
    for step in checkpoints(output):
        os.remove(saved_best(output, step))
    done = train(output, settings(train__max_steps=first + 1), "--resume",
                 os.path.join(output, "ckpt", "step-%08d" % first))
    expect_equal(len(warnings(done, saved_best(output, first), "chosen again", "from step %d on" % first)), 1,
                 done.stderr)
    expect(first <= step_in(best_bin(output)) <= first + 1, step_in(best_bin(output)))


@check
def a_finished_run_is_repeated():
    """The repeated command restores best.bin, from the copy or from the last weights, whichever are the best."""
    for split, ranks in [("test", Ranks(1)), ("last", Ranks(2))]:
        for way, damage in damages().items():
            whole, output = path("repeated-" + split), path("repeated-%s-%s" % (split, way))
            if not os.path.exists(whole):
                train(whole, settings(train__best__split=split))
            shutil.copytree(whole, output)  # each file by itself
            before = files(output)
            damage(best_bin(output))
            done = train(output, settings(train__best__split=split), ranks=ranks)
            expect_equal(len(warnings(done, best_bin(output))), 1, done.stderr)
            expect_equal(files(output), before, split, way)
            expect_equal(warnings(train(output, settings(train__best__split=split))), [])
    # Nothing is left to make it of.
    output = copy_of_finished("repeated-lost")
    for file in [best_bin(output), *(saved_best(output, step) for step in checkpoints(output))]:
        os.remove(file)
    done = train(output, settings())
    expect_equal(len(warnings(done, best_bin(output), saved_best(output), "are lost")), 1, done.stderr)
    expect_equal(step_in(best_bin(output)), checkpoints(output)[-1], "the run's end is all that is left")


@check
def best_weights_lost_while_training():
    """Every save checks best.bin."""
    for way, damage in damages().items():
        output = path("lost-" + way)
        job = start(Ranks(2).words(*train_words(output, settings(train__max_steps=1000000, train__epochs=1000000,
                                                                  train__save_interval=50, train__eval_interval=60))))
        wait_until(lambda: len(checkpoints_of(output)) == 3)  # by then the best evaluation is over
        best = weights_sha256(best_bin(output))
        shutil.copy(best_bin(output), path("aside.bin"))  # of its own, so that its other names stay whole
        damage(path("aside.bin"))
        if way == "missing":
            os.remove(best_bin(output))
        else:
            os.replace(path("aside.bin"), best_bin(output))
        now = checkpoints_of(output)[-1]
        wait_until(lambda: checkpoints_of(output)[-1] > now + 100)
        job.send_signal(signal.SIGUSR1)
        done = finish(job)
        expect_equal(done.returncode, STOPPED, done.stderr)
        expect_equal(len(warnings(done, best_bin(output), "replaces it")), 1, done.stderr)
        expect_equal(weights_sha256(best_bin(output)), best, done.stderr)
        expect_equal(run("ckpt", "verify", output).returncode, DONE)


def checkpoints_of(output):
    return checkpoints(output) if os.path.isdir(os.path.join(output, "ckpt")) else []


# ---- weights that are not finite

@check
def the_last_finite_checkpoint_stays():
    """Adam with eps 0 divides 0 by 0 if a weight has no gradient; the loss shows it a step later."""
    nan = {**FEW, "data.path": few(), "train.epochs": 10, "train.max_steps": 20, "optimizer.params.eps": 0,
           "optimizer.params.weight_decay": 0, "train.save_interval": 1, "checkpoint.keep_last": 1,
           "train.eval_interval": 100}
    for ranks, stage in [(Ranks(1), 0), (Ranks(2), 3)]:
        output = path("nan-%d" % stage)
        words = train_words(output, {**nan, "zero_optimization.stage": stage})
        done = finish(start(ranks.words(*words)))
        kept = checkpoints(output)
        expect_equal(len(kept), 2, done.stderr)
        finite, bad = (os.path.join(output, "ckpt", "step-%08d" % step) for step in kept)
        fails(DIVERGED, done, "'%s'" % finite, "--init '%s" % finite)
        expect_equal(len(warnings(done, "step %d" % kept[1], "not finite", "step %d" % kept[0])), 1, done.stderr)
        verify = run("ckpt", "verify", output)
        expect_equal(verify.returncode, DONE, verify.stdout)
        expect(finite + ": good\n" in verify.stdout, verify.stdout)
        expect(bad + ": good, but " in verify.stdout and "not finite" in verify.stdout, verify.stdout)
        expect("not finite" in run("ckpt", "verify", bad).stdout)
        ls = run("ckpt", "ls", output)
        expect_equal([line.split()[6:] for line in ls.stdout.splitlines()[1:]], [["good"], ["not", "finite"]], ls.stdout)
        # Again: a warning says how to go back. Back: it starts from there.
        done = finish(start(ranks.words(*words)))
        fails(DIVERGED, done, finite)
        expect_equal(len(warnings(done, bad, "not finite", "--resume '%s'" % finite)), 1, done.stderr)
        done = finish(start(ranks.words(*words, "--resume", finite)))
        expect("resumed from %s at step %d" % (finite, kept[0]) in done.stderr, done.stderr)
        fails(DIVERGED, done, finite)
        expect_equal(checkpoints(output), kept)


main()
