"""Event files for TensorBoard: their contents, and each step once in a resumed run."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import *
from events import event_files, events_in, shown

EPOCH = 12  # steps
STEPS = 30  # stops fall on ends of epochs, on saves and evaluations, and between
SETTINGS = {**FEW, "tensorboard.enabled": True, "model.name": "linear", "train.epochs": 10, "train.max_steps": STEPS,
            "train.save_interval": 5, "train.eval_interval": 4}


def settings(**changed):
    return {**SETTINGS, "data.path": few(), **dotted(changed)}


def by_epoch(**changed):
    """Saves and evaluates at the ends of epochs."""
    asked = settings(**{"train__epochs": 3, **changed})
    return {k: v for k, v in asked.items() if k not in ("train.max_steps", "train.eval_interval")
            and (k != "train.save_interval" or "train__save_interval" in changed)}


def tb(output):
    return os.path.join(output, "tb")


@functools.lru_cache(None)
def whole():
    train(path("whole"), settings())
    return path("whole")


@functools.lru_cache(None)
def epochs():
    train(path("epochs"), by_epoch())
    return path("epochs")


def f32(number):
    return struct.unpack("<f", struct.pack("<f", number))[0]


def curves(folder):
    """All values except the configuration, which each start writes."""
    return {tag: values for tag, values in shown(folder).items() if tag != "configuration"}


def starts(folder):
    return [events_in(file)[1]["step"] for file in event_files(folder)]


@check
def the_scalars_of_metrics_jsonl():
    found = shown(tb(whole()))
    steps, evals = records(whole(), "step"), records(whole(), "eval")
    expect_equal(len(steps), STEPS)
    expect_equal(found["train/loss"], {r["step"]: f32(r["loss"]) for r in steps})
    expect_equal(found["train/lr"], {r["step"]: f32(r["lr"]) for r in steps})
    expect_equal(found["train/epoch"], {r["step"]: r["epoch"] for r in steps})
    expect_equal(found["eval/acc"], {r["step"]: f32(r["accuracy"]) for r in evals})


@check
def between_records_of_steps_there_are_none():
    train(path("sparse"), settings(steps_per_print=10, train__log_interval=7 * 8, train__max_steps=20))
    # Seven steps are a line; lines begin anew with each epoch.
    expect_equal(sorted(shown(tb(path("sparse")))["train/loss"]), [7, 10, 19, 20])


@check
def the_tags_of_epochs():
    found, batch = shown(tb(epochs())), FEW["train_batch_size"]
    steps, evals = records(epochs(), "step"), records(epochs(), "eval")
    expect_equal(sorted(found["AvgTrainLoss"]), [EPOCH * batch * e for e in (1, 2, 3)])
    for x, mean in found["AvgTrainLoss"].items():
        losses = [r["loss"] for r in steps if r["epoch"] == x // batch // EPOCH]
        expect(abs(mean - sum(losses) / EPOCH) < 1e-6 * mean, mean, losses)
    expect_equal(found["ValAcc"], {r["step"] * batch: f32(100 * r["accuracy"]) for r in evals})
    expect_equal(found["AvgValLoss"], {r["step"] * batch: f32(r["loss"]) for r in evals})
    with open(os.path.join(few(), "cifar-10-batches-bin", "test_batch.bin"), "rb") as file:
        images = [file.read(RECORD) for _ in range(2)]
    # Planar, one after the other; a picture has them side by side, pixel by pixel.
    rows = [b"".join(bytes(i[1 + 1024 * c + 32 * y + x] for c in range(3)) for i in images for x in range(32))
            for y in range(32)]
    for tag in ("input", "label0", "label1", "output0", "output1"):
        expect_equal(sorted(found[tag]), [0, 1, 2], tag)
    for epoch in range(3):
        expect_equal(found["input"][epoch], rows)
        for i in (0, 1):
            expect_equal(found["label%d" % i][epoch], images[i][0])
            h = found["output%d" % i][epoch]
            expect_equal((h["num"], sum(h["counts"]), len(h["limits"])), (10, 10, len(h["counts"])), h)
            expect(h["min"] < h["max"] and h["sum_squares"] >= h["sum"] ** 2 / 10, h)
            expect(h["limits"] == sorted(h["limits"]) and h["limits"][-1] >= h["max"] - 1e-6, h)
    before, after = found["output0"][0], found["output0"][2]
    expect(before["max"] != after["max"], "the weights have changed, and the logits have not")


@check
def a_held_out_split_is_what_is_validated():
    train(path("held"), by_epoch(data__validation=100, train__epochs=1))
    found, evals = shown(tb(path("held"))), records(path("held"), "eval")
    accuracy = {r["split"]: r["accuracy"] for r in evals}
    loss = {r["split"]: r["loss"] for r in evals}
    expect_equal(list(found["ValAcc"].values()), [f32(100 * accuracy["val"])])
    expect_equal(list(found["AvgValLoss"].values()), [f32(loss["val"])])
    expect_equal(list(found["eval/acc"].values()), [f32(accuracy["test"])])


@check
def the_configuration_as_text():
    text, = shown(tb(whole()))["configuration"].values()
    expect(text.startswith("```yaml\n") and text.endswith("```\n"), text)
    with open(path("shown.yaml"), "w") as file:
        file.write(text[len("```yaml\n"):-len("```\n")])
    train(path("repeated"), {}, config=path("shown.yaml"))
    expect_same_result(path("repeated"), result(whole()))


@check
def any_number_of_ranks_shows_the_same():
    for ranks, stage in ((2, 0), (4, 3)):
        output = path("ranks-%d" % ranks)
        train(output, by_epoch(zero_optimization__stage=stage), ranks=Ranks(ranks))
        expect_equal(curves(tb(output)), curves(tb(epochs())), ranks)


@check
def a_resumed_run_shows_each_step_once():
    wanted = curves(tb(whole()))
    for k in (0, 1, 4, 5, 8, 12, 13, 24, 25):
        output = path("resumed-%d" % k)
        train(output, settings(train__max_steps=k))
        train(output, settings(), ranks=Ranks(2))
        expect_equal(curves(tb(output)), wanted, "stopped at %d" % k)
        expect_equal(starts(tb(output))[-1], k)
        expect_equal(result(output)[0], result(whole())[0])
        shutil.rmtree(output)


@check
def a_run_resumed_many_times_too():
    for k in (3, 12, 13, 20, 24, STEPS):
        train(path("chain"), settings(train__max_steps=k))
    expect_equal(curves(tb(path("chain"))), curves(tb(whole())))
    expect_equal(starts(tb(path("chain"))), [0, 3, 12, 13, 20, 24])


@check
def images_are_counted_when_the_batch_changes():
    """The batch size follows from the number of ranks."""
    sets = settings(train_batch_size="auto", gradient_accumulation_steps=1, train__eval_interval=5)
    for steps, ranks in ((10, 1), (20, 2)):
        train(path("derived"), {**sets, "train.max_steps": steps}, ranks=Ranks(ranks))
    images = {step: 4 * min(step, 10) + 8 * max(step - 10, 0) for step in range(1, 21)}
    expect_equal({r["step"]: r["samples"] for r in records(path("derived"), "step")}, images)
    found = shown(tb(path("derived")))
    expect_equal(sorted(found["ValAcc"]), [images[step] for step in (5, 10, 15, 20)])
    expect_equal(sorted(found["eval/acc"]), [5, 10, 15, 20])


@check
def epochs_of_one_step():
    """x in epochs equals x in steps."""
    one = by_epoch(train_batch_size=400, train__epochs=6)
    train(path("one"), one)
    for k in (2, 4, 6):
        train(path("one-resumed"), {**one, "train.epochs": k})
    expect_equal(curves(tb(path("one-resumed"))), curves(tb(path("one"))))


def killed_at(output, step, sets):
    """A run that is killed after that step, once a later checkpoint exists."""
    job = start([PROGRAM, *train_words(output, sets), "--ranks", "1"])
    end = time.monotonic() + 60
    while job.poll() is None and time.monotonic() < end:
        if os.path.exists(os.path.join(output, "metrics.jsonl")):
            with open(os.path.join(output, "metrics.jsonl")) as lines:
                if '"step":%d,"epoch"' % step in lines.read():
                    break
        time.sleep(0.001)
    os.killpg(job.pid, signal.SIGKILL)
    job.communicate()


@check
def a_killed_run_shows_each_step_once():
    sets = settings(train__max_steps=333, train__epochs=100, train__save_interval=7, train__eval_interval=9)
    train(path("long"), sets)
    for step in (3, 30, 90, 150, 200):  # a busy machine may see step 200 after step 306: the last start has steps left
        killed_at(path("killed"), step, {**sets, "train.max_steps": 306})
    for file in event_files(tb(path("killed"))):  # what a crash of the machine leaves may end anywhere
        with open(file, "ab") as tail:
            tail.write(b"\x18\0\0\0\0\0")
    train(path("killed"), sets)
    expect_equal(curves(tb(path("killed"))), curves(tb(path("long"))))


@check
def nothing_is_written_unless_it_is_asked_for():
    train(path("without"), settings(tensorboard__enabled=False))
    expect(not os.path.exists(tb(path("without"))), os.listdir(path("without")))
    expect_same_result(path("without"), result(whole()))


@check
def an_unwritable_folder_is_reported_once():
    with open(path("a-file"), "w") as file:
        file.write("somebody's own")
    done = train(path("unwritten"), settings(tensorboard__output_path=path("a-file"), tensorboard__job_name="job"))
    warnings = [line for line in done.stderr.splitlines() if "TensorBoard" in line]
    expect_equal(len(warnings), 1, done.stderr)
    expect("warning: " in warnings[0] and "a-file" in warnings[0] and "training continues" in warnings[0], warnings)
    expect_same_result(path("unwritten"), result(whole()))


@check
def a_removed_folder_is_reported_once():
    output = path("removed")
    job = start(Ranks(1).words(*train_words(output, by_epoch(train__epochs=100000, train__save_interval=1000000))))
    wait_until(lambda: os.path.exists(tb(output)), job)
    shutil.rmtree(tb(output))
    time.sleep(1)
    job.send_signal(signal.SIGUSR1)
    done = finish(job)
    expect_equal(done.returncode, STOPPED, done.stderr)
    warnings = [line for line in done.stderr.splitlines() if "TensorBoard" in line]
    expect_equal(len(warnings), 1, done.stderr)
    expect("was removed while the run used it" in warnings[0] and "training continues" in warnings[0], warnings)


@check
def a_file_that_cannot_grow_is_reported_once():
    """The limit of file size exceeds all other files of the run; pictures make event files long."""
    long = by_epoch(train__epochs=60, steps_per_print=100000, train__save_interval=100000)
    done = train(path("cut"), long, prefix=("bash", "-c", 'ulimit -f 300; exec "$@"', "bash"))
    expect_equal(sum("TensorBoard" in line for line in done.stderr.splitlines()), 1, done.stderr)
    expect_equal(records(path("cut"), "end")[-1]["reason"], "finished")
    train(path("cut"), {**long, "train.epochs": 61})
    found = shown(tb(path("cut")))["eval/acc"]
    expect(EPOCH in found and EPOCH * 61 in found, sorted(found))


@check
def another_folder_by_deepspeeds_keys():
    with open(path("ds_config.json"), "w") as file:
        json.dump({"tensorboard": {"enabled": True, "output_path": path("logs"), "job_name": "cifar10"}}, file)
    plain = {k: v for k, v in by_epoch(train__epochs=1).items() if k != "tensorboard.enabled"}
    for output in ("one-of-two", "two-of-two"):  # in one folder, as their users may have it
        train(path(output), plain, "--deepspeed_config", path("ds_config.json"))
    folder = path("logs", "cifar10")
    first, second = event_files(folder)
    kept = events_in(first)
    train(path("two-of-two"), {**plain, "train.epochs": 2}, "--deepspeed_config", path("ds_config.json"))
    expect_equal(events_in(first), kept, "a run has changed another's event file")
    expect(not os.path.exists(tb(path("two-of-two"))))
    writers = [events_in(file)[0]["source"]["writer"] for file in event_files(folder)]
    expect_equal(writers, ["cifar-train, the run in " + path(run) for run in ("one-of-two", "two-of-two", "two-of-two")])


@check
def reset_forgets_them_and_nothing_else():
    sets = settings(train__max_steps=3)
    train(path("again"), sets)
    os.makedirs(path("again", "tb", "own"))
    for name in ("notes.txt", "events.out.tfevents.1.elsewhere"):
        with open(path("again", "tb", name), "w") as file:
            file.write("somebody's own")
    train(path("again"), settings(train__max_steps=2, tensorboard__enabled=False), "--reset")
    expect_equal(sorted(os.listdir(tb(path("again")))), ["events.out.tfevents.1.elsewhere", "notes.txt", "own"])
    os.remove(path("again", "tb", "events.out.tfevents.1.elsewhere"))
    train(path("again"), sets, "--reset")
    train(path("again"), settings(train__max_steps=2), "--reset")
    expect_equal(sorted(shown(tb(path("again")))["train/loss"]), [1, 2])


@check
def wrong_keys_are_refused():
    for key, value, culprit in (("tensorboard.enable", True, "did you mean 'tensorboard.enabled'"),
                                ("tensorboard.job_name", "a/b", "must name one folder"),
                                ("tensorboard.job_name", "..", "must name one folder")):
        fails(USAGE, run("config", "check", DEFAULT, "--set", "%s=%s" % (key, str(value).lower())), key, culprit)


main()
