"""A run stopped after any step and continued on any number of ranks ends as if it had never stopped."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import *

STEPS = 30  # an epoch has 12: stops fall on epoch ends, on save and evaluation intervals, and between
SETTINGS = {**FEW, "train.epochs": 10, "train.max_steps": STEPS, "train.save_interval": 5, "train.eval_interval": 4,
            "train.log_interval": 20, "train.best.split": "test"}
SHORT = 15  # of epochs of 6
CYCLE = [Ranks(1), Ranks(2, mpi=True), Ranks(4), Ranks(1, mpi=True), Ranks(2), Ranks(4, mpi=True)]


def settings(**changed):
    return {**SETTINGS, "data.path": few(), **dotted(changed)}


def short(steps=SHORT):
    return settings(data__path=few(train=200), train__max_steps=steps, train__save_interval=4, train__eval_interval=5,
                    train__log_interval=7)


def ranks_of_turn(turn):
    cycle = CYCLE if has_mpi() else [r for r in CYCLE if not r.mpi]
    return cycle[turn % len(cycle)]


@functools.lru_cache(None)
def whole():
    """The uninterrupted run: its folder."""
    train(path("whole"), settings())
    return path("whole")


@functools.lru_cache(None)
def short_whole():
    train(path("short"), short())
    return path("short")


def copy_of_whole(name):
    shutil.copytree(whole(), path(name))
    return path(name)


def expect_same_files(output):
    """Compares also the files that evaluations select."""
    for name in ("last.bin", "best.bin"):
        expect_equal(weights_sha256(os.path.join(output, name)), weights_sha256(os.path.join(short_whole(), name)), name)


@check
def stopped_after_every_step():
    for k in range(SHORT):
        output, first, second = path("stop-%d" % k), Ranks(1 << k % 3), ranks_of_turn(k + 1)
        what = "stopped at step %d on %s, continued on %s" % (k, first, second)
        train(output, short(k), ranks=first)
        train(output, short(), ranks=second)
        expect_same_result(output, result(short_whole()), what)
        expect_same_files(output)
        shutil.rmtree(output)


@check
def stopped_after_every_step_of_one_run():
    printed = []
    for k in range(SHORT + 1):
        done = train(path("chain"), short(k), "--resume", "must" if k else "auto", ranks=ranks_of_turn(k))
        printed += [line for line in done.stdout.splitlines() if line.startswith("[")]
    expect_same_result(path("chain"), result(short_whole()))
    expect_same_files(path("chain"))
    train(path("printed"), short())
    again = train(path("printed"), short(), "--reset").stdout.splitlines()
    expect_equal(printed, [line for line in again if line.startswith("[")], "the tutorial's lines")


@check
def an_evaluation_at_a_stop_is_undone():
    """The best evaluation is one that only a stop makes: the resumed run must discard it from best.bin. The linear
    model fits 400 images within a few steps, so that its best is early."""
    fast = settings(model__name="linear", optimizer__params__lr=0.03, scheduler__params__warmup_max_lr=0.03,
                    train__best__metric="loss")
    train(path("probe"), {**fast, "train.eval_interval": 1})
    losses = {r["step"]: r["loss"] for r in records(path("probe"), "eval")}
    k = min(losses, key=losses.get)
    # Evaluations every n steps: not at k, and the best of them before k, so that none after it replaces best.bin.
    fitting = [n for n in range(2, k) if k % n != 0 and min(range(n, STEPS + 1, n), key=losses.get) < k]
    expect(fitting, "the losses of this run show nothing", losses)
    fast["train.eval_interval"] = fitting[0]
    train(path("undisturbed"), fast)
    train(path("stopped"), {**fast, "train.max_steps": k})
    stopped_at = safetensors(path("stopped", "best.bin"))[1]["cifar_train.step"]
    expect_equal(stopped_at, str(k))
    train(path("stopped"), fast, ranks=Ranks(2))
    expect_same_result(path("stopped"), result(path("undisturbed")))
    expect_equal(weights_sha256(path("stopped", "best.bin")), weights_sha256(path("undisturbed", "best.bin")))


@check
def epoch_by_epoch():
    """The default intervals: save and evaluate at the end of each epoch; epochs instead of max_steps."""
    plain = {k: v for k, v in settings().items() if k not in ("train.max_steps", "train.save_interval",
                                                             "train.eval_interval")}
    train(path("epochs"), {**plain, "train.epochs": 3})
    for epochs in (1, 2, 3):
        train(path("grown"), {**plain, "train.epochs": epochs}, ranks=Ranks(2))
    expect_same_result(path("grown"), result(path("epochs")))
    expect_equal([r["step"] for r in records(path("grown"), "eval")], [12, 24, 36])


@check
def a_batch_of_evaluation_larger_than_the_test_set():
    """It is reduced to the test set, but the checkpoint has the configured size: the same command resumes."""
    larger = settings(train__eval_batch_size=100000, train__max_steps=4)
    train(path("larger"), larger)
    train(path("larger"), {**larger, "train.max_steps": STEPS})
    expect_same_result(path("larger"), result(whole()))


@check
def early_stopping_remembers_its_patience():
    stopping = settings(optimizer__params__lr=0, scheduler__params__warmup_max_lr=0, train__early_stopping__patience=3)
    train(path("patient"), stopping)
    end = records(path("patient"), "end")[-1]["step"]
    expect(4 < end < STEPS, "no early stop: %d" % end)
    for k in (6, 10, STEPS):
        train(path("patient-resumed"), {**stopping, "train.max_steps": k}, ranks=Ranks(2))
    expect_same_result(path("patient-resumed"), result(path("patient")))
    # With more of it a run that was stopped goes on, as if it had had it from the start.
    longer = {**stopping, "train.early_stopping.patience": 5}
    train(path("patient"), longer)
    train(path("patience-5"), longer)
    expect(records(path("patient"), "end")[-1]["step"] > end, "no step more")
    expect_same_result(path("patient"), result(path("patience-5")))


@check
def a_finished_run_repeats_its_evaluation_only():
    output = copy_of_whole("finished")
    before = snapshot(output)
    for ranks in [Ranks(1), Ranks(2)]:
        done = train(output, settings(), ranks=ranks)
        expect_equal([l for l in done.stderr.splitlines() if "the run is finished, after %d steps" % STEPS in l]
                     .__len__(), 1, done.stderr)
        expect("Accuracy of the network on the 200 test images" in done.stdout, done.stdout)
        expect("Finished Training" not in done.stdout, done.stdout)
        after = snapshot(output)
        before.pop(".lock", None), after.pop(".lock", None)
        expect_equal(after, before, "files changed")


@check
def resume_must():
    fails(CHECKPOINT, train(path("must"), settings(), "--resume", "must", expecting=CHECKPOINT), "--resume must")
    train(path("must"), settings(train__max_steps=7))
    train(path("must"), settings(), "--resume", "must")
    expect_same_result(path("must"), result(whole()))


@check
def resume_never_and_reset():
    output = copy_of_whole("never")
    before = snapshot(output)
    line = fails(USAGE, train(output, settings(), "--resume", "never", expecting=USAGE), "--reset")
    expect(output in line, line)
    before.pop(".lock"), expect_equal({k: v for k, v in snapshot(output).items() if k != ".lock"}, before)
    with open(os.path.join(output, "notes.txt"), "w") as file:
        file.write("mine")
    with open(os.path.join(output, "ckpt", "notes.txt"), "w") as file:
        file.write("mine")
    train(output, settings(seed=1), "--reset")
    expect(result(output)[0] != result(whole())[0], "--reset continued the old run")
    expect_equal(records(output)[0]["seed"], 1)
    expect_equal(len(records(output, "start")), 1, "the old run's records are still there")
    for name in ("notes.txt", os.path.join("ckpt", "notes.txt")):
        expect(os.path.exists(os.path.join(output, name)), "--reset deleted %s, which is not the program's" % name)
    train(path("never-new"), settings(train__max_steps=1), "--resume", "never")
    os.makedirs(path("foreign"))
    with open(path("foreign", "thesis.txt"), "w") as file:
        file.write("mine")
    fails(USAGE, train(path("foreign"), settings(), "--reset", expecting=USAGE), "foreign")
    for own in "best.bin", "ckpt/step-%08d" % STEPS, ".":
        before = snapshot(os.path.join(output, "ckpt"))
        for dry in [], ["--dry-run"]:
            refused = train(output, settings(), "--reset", "--init", os.path.join(output, own), *dry, expecting=USAGE)
            fails(USAGE, refused, "--reset would delete", "--init")
        expect_equal(snapshot(os.path.join(output, "ckpt")), before)
    expect_equal(os.listdir(path("foreign")).count("thesis.txt"), 1)


@check
def reset_keeps_a_checkpoint_that_is_named_by_a_link():
    output, step = path("linked"), "step-00000005"
    train(output, settings(train__max_steps=5))
    folder, link, beside = os.path.join(output, "ckpt", step), path("link"), os.path.join(output, "mine")
    for name in link, beside:
        os.symlink(folder, name)
    before = snapshot(os.path.join(output, "ckpt"))
    for name in folder, folder + "/.", folder + "//", link, link + "/", beside, os.path.join(link, "..", step):
        fails(USAGE, train(output, settings(), "--reset", "--resume", name, expecting=USAGE), "--reset would delete",
              "--resume")
        for file in "", "weights.safetensors":
            refused = train(output, settings(), "--reset", "--init", os.path.join(name, file), expecting=USAGE)
            fails(USAGE, refused, "--reset would delete", "--init")
    fails(USAGE, finish(start([PROGRAM, *train_words("../..", settings(), "--reset", "--resume", ".")], cwd=folder)),
          "--reset would delete")
    expect_equal(snapshot(os.path.join(output, "ckpt")), before)
    # Without --reset the run goes on from it, whatever its name.
    train(output, settings(), "--resume", link + "/.")
    expect_same_result(output, result(whole()))


@check
def resume_from_a_path():
    train(path("source"), settings(train__max_steps=10, checkpoint__keep_last=9))
    train(path("elsewhere"), settings(), "--resume", path("source", "ckpt", "step-00000005"))
    expect_equal(result(path("elsewhere"))[0], result(whole())[0])
    expect_equal([r["step"] for r in records(path("elsewhere"), "step")], list(range(6, STEPS + 1)))
    # What was best by then comes along, wherever the checkpoint lies.
    train(path("further"), settings(checkpoint__keep_last=9, train__max_steps=6), "--resume",
          path("source", "ckpt", "step-00000005"))
    with open(path("source", "ckpt", "best-00000005.bin"), "rb") as old, \
            open(path("further", "ckpt", "best-00000005.bin"), "rb") as new:
        expect_equal(new.read(), old.read(), "best.bin at step 5")
    # Back to an earlier checkpoint of the same run.
    train(path("source"), settings(checkpoint__keep_last=9), "--resume", path("source", "ckpt", "step-00000005"))
    expect_same_result(path("source"), result(whole()))
    fails(USAGE, train(path("source"), settings(), "--resume", path("elsewhere", "ckpt", "step-00000030"),
                       expecting=USAGE), "source")
    fails(USAGE, train(path("nothing"), settings(), "--resume", path("nowhere"), expecting=USAGE), "--resume")
    os.makedirs(path("hollow"))
    fails(CHECKPOINT, train(path("nothing"), settings(), "--resume", path("hollow"), expecting=CHECKPOINT), "hollow")


@check
def another_configuration_is_refused():
    output = copy_of_whole("other-config")
    before = {k: v for k, v in snapshot(output).items() if k != ".lock"}
    for key, value, was in [("seed", 43, "42"), ("optimizer.params.lr", 0.5, "0.001"),
                            ("train_batch_size", 64, "32"), ("data.shuffle", False, "true"),
                            ("gradient_clipping", 0, "1"), ("train.eval_batch_size", 40, "50"),
                            ("data.augment", "[flip]", "random_crop"), ("train.label_smoothing", 0.1, "0"),
                            ("model.name", "linear", "cnn")]:
        done = train(output, settings(**{key.replace(".", "__"): value}), expecting=CHECKPOINT)
        shown = "flip" if key == "data.augment" else str(value).lower()
        fails(CHECKPOINT, done, key if key != "model.name" else "model", shown, was)
    expect_equal({k: v for k, v in snapshot(output).items() if k != ".lock"}, before, "a refused resume changed files")


@check
def other_data_is_refused():
    output = copy_of_whole("other-data")
    done = train(output, settings(data__path=few(train=390), train__max_steps=40), expecting=CHECKPOINT)
    fails(CHECKPOINT, done, "data.path")


@check
def changes_that_are_allowed():
    train(path("before"), settings(train__max_steps=11))
    shutil.copytree(few(), path("moved"))
    shutil.move(path("before"), path("after"))
    done = train(path("after"), settings(train__epochs=4, train__save_interval=0, train__log_interval=7,
                                         checkpoint__keep_last=1, device="cpu", data__path=path("moved")),
                 ranks=Ranks(2))
    expect("warning" not in done.stderr, done.stderr)
    expect_same_result(path("after"), result(whole()))
    expect_equal(checkpoints(path("after")), [STEPS])
    # A run that was finished goes on when it is given more to do.
    output = copy_of_whole("longer")
    train(output, settings(train__max_steps=STEPS + 5))
    train(path("long"), settings(train__max_steps=STEPS + 5))
    expect_same_result(output, result(path("long")))


@check
def derived_batch_keys_may_change_with_a_warning():
    derived = {k: v for k, v in settings().items() if k != "train_micro_batch_size_per_gpu"}
    config = path("derived.yaml")
    with open(DEFAULT) as source, open(config, "w") as file:
        file.writelines(line for line in source if not line.startswith("train_micro_batch_size_per_gpu"))
    train(path("derived"), {**derived, "train.max_steps": 3}, config=config)
    done = train(path("derived"), {**derived, "train.max_steps": 6}, config=config, ranks=Ranks(2))
    expect("warning: train_micro_batch_size_per_gpu: 32 on the saved run's 1 rank, 16 on 2 now" in done.stderr, done.stderr)


@check
def a_run_that_has_not_saved_starts_over():
    output = copy_of_whole("no-checkpoint")
    shutil.rmtree(os.path.join(output, "ckpt"))
    with open(os.path.join(output, "metrics.jsonl")) as file:
        before_saves = [line for line in file if json.loads(line)["event"] in ("start", "step")]
    with open(os.path.join(output, "metrics.jsonl"), "w") as file:
        file.writelines(before_saves)
    done = train(output, settings())
    expect("starts over" in done.stderr, done.stderr)
    expect_same_result(output, result(whole()))
    expect_equal(len(records(output, "start")), 1, "the earlier run's records are still there")


@check
def max_steps_0_leaves_the_initial_weights():
    train(path("zero"), settings(train__max_steps=0))
    initial = path("zero", "ckpt", "step-00000000", "weights.safetensors")
    expect_equal(weights_sha256(path("zero", "last.bin")), weights_sha256(initial))
    expect_equal(checkpoints(path("zero")), [0])


@check
def damaged_checkpoints():
    output = copy_of_whole("damaged")
    expect_equal(checkpoints(output), [20, 25, 30])
    flip(os.path.join(output, "ckpt", "step-00000030", "weights.safetensors"), -1000)
    os.truncate(os.path.join(output, "ckpt", "step-00000025", "state.json"), 30)
    done = train(output, settings(), ranks=Ranks(2))
    warnings = [line for line in done.stderr.splitlines() if line.startswith("warning: ")]
    for culprit in ("step-00000030/weights.safetensors", "step-00000025/state.json"):
        expect(any(culprit in line for line in warnings), culprit, done.stderr)
    expect("step-00000020 at step 20" in done.stderr, done.stderr)
    expect_same_result(output, result(whole()))
    expect(run("ckpt", "verify", output).returncode == DONE, "the run's checkpoints are still damaged")


@check
def a_larger_batch_ends_an_epoch_that_has_fewer_steps_now():
    run = path("larger-batch")
    settings = {**FEW, "data.path": few(), "data.limit": 64, "train.epochs": 9, "train_batch_size": "auto",
                "gradient_accumulation_steps": 1}
    train(run, {**settings, "train.max_steps": 10})  # of 16 an epoch
    done = train(run, {**settings, "train.max_steps": 14}, ranks=Ranks(4))  # of 4 an epoch
    expect_in("not to the same bits", done.stderr)
    expect_equal([(r["step"], r["epoch"]) for r in records(run, "step")][-4:], [(step, 2) for step in (11, 12, 13, 14)])


main()
