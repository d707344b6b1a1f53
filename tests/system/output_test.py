"""A run's output while it trains: progress lines, times, DeepSpeed's CSV files."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import *

STEPS, BATCH = 24, 32
SETTINGS = {**FEW, "model.name": "linear", "train.epochs": 10, "train.max_steps": STEPS, "train.save_interval": 5,
            "train.eval_interval": 12, "scheduler.params.warmup_max_lr": 0.01}
NUMBER = r"(\d+\.\d+(?:e[+-]\d+)?)"
PREFIX = r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] \[INFO\] "
TIMES = ("forward", "backward", "communication", "update", "data", "step")


def settings(**changed):
    return {**SETTINGS, "data.path": few(), **dotted(changed)}


def found(pattern, done):
    """The pattern's groups in the lines of stderr that match it entirely."""
    return [match.groups() for line in done.stderr.splitlines() if (match := re.fullmatch(pattern, line))]


def step_lines(done, prefix=""):
    return found(prefix + r"step=(\d+), skipped=(\d+), lr=\[(\S+)\], mom=(\[\[0\.8, 0\.999\]\])", done)


def expect_same_weights(output):
    plain()
    expect_equal(result(output)[0], result(path("plain"))[0])


def csv_rows(folder, name):
    """Header and rows of each part: every start begins a part."""
    with open(os.path.join(folder, "Train_Samples_%s.csv" % name), newline="") as file:
        lines = file.read().split("\r\n")
    expect_equal(lines.pop(), "")
    parts = []
    for line in lines:
        x, value = line.split(",")
        if x == "step":
            expect_equal(value, name)
            parts.append([])
        else:
            parts[-1].append((int(x), float(value)))
    return parts


@functools.lru_cache(None)
def plain():
    return train(path("plain"), settings())


@functools.lru_cache(None)
def with_csv():
    train(path("csv-run"), settings(csv_monitor__enabled=True))
    return path("csv-run", "csv")


@check
def lines_come_with_the_records():
    done = train(path("lines"), settings(steps_per_print=6), "-v")
    steps = records(path("lines"), "step")
    expect_equal([(int(step), int(skipped), float(lr)) for step, skipped, lr, _ in step_lines(done)],
                 [(r["step"], 0, r["lr"]) for r in steps])
    expect_equal([r["step"] for r in steps], [6, 12, 18, 24])
    rates = found("samples/s: %s end to end, %s in the timed region, %s in the last 6 steps" % ((NUMBER,) * 3), done)
    expect_equal(len(rates), 4, done.stderr)
    for end_to_end, timed, _ in rates:  # opening, saves and evaluations take longer than these steps
        expect(0 < float(end_to_end) < float(timed), rates)
    expect_equal(found(r"(time \(ms\).*)", done), [], "asked for by nobody")
    expect_same_weights(path("lines"))


DATE = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  "
EPOCH = r"epoch (\d+)/(\d+)  train (\d\.\d{3})(?:  (val|test) (\d\.\d{3}) (\d+\.\d) % \(best (\d+\.\d)\))?" \
        r"  step (\d+)  lr ([\d.e-]+)  \d+ s(?:  \d+ s left)?"


def expect_lines_of_epochs(output, lines, evaluated=lambda step: True):
    """A line an epoch, with the numbers of the records."""
    train, evaluations, best = records(output, "epoch"), {}, 0
    rates = {r["step"]: r["lr"] for r in records(output, "step")}
    for r in records(output, "eval"):
        evaluations.setdefault(r["step"], r)  # the first is of the held-out images, if there are any
    expect_equal([int(line[0]) for line in lines], [r["epoch"] for r in train])
    for (_, of, loss, split, test_loss, accuracy, best_so_far, step, lr), r in zip(lines, train):
        expect_equal([int(of), loss, int(step)], [len(train), "%.3f" % r["loss"], r["step"]])
        expect(abs(float(lr) / rates[r["step"]] - 1) < 0.01, lr, rates)
        e = evaluations.get(r["step"])
        expect_equal(bool(split), e is not None)
        if e:
            best = max(best, e["accuracy"])
            expect_equal([split, test_loss, accuracy, best_so_far],
                         [e["split"], "%.3f" % e["loss"], "%.1f" % (100 * e["accuracy"]), "%.1f" % (100 * best)])


@check
def an_epoch_has_a_line():
    sets = {**settings(train__epochs=3, train__max_steps=-1, train__eval_interval=0), "train_batch_size": 48}
    done = train(path("epochs"), sets)
    lines = found(DATE + EPOCH, done)
    expect_equal(len(lines), 3, done.stderr)
    expect_lines_of_epochs(path("epochs"), lines)
    expect_not_in("test accuracy", done.stderr)
    expect_equal(step_lines(done) + found("samples/s.*", done), [], done.stderr)
    expect_match(done.stderr, r"(?m)^8 steps per epoch, 24 in all, each of 12 micro-batches, which lines of losses count")
    expect_match(done.stderr, r"(?m)^trained 24 steps in \d+\.\d s, \d+ images/s end to end, \d+ in steps; \S+ MB of memory a process$")
    quiet = train(path("epochs"), sets, "--quiet", "--reset")
    expect_equal([quiet.stderr, quiet.stdout], ["", done.stdout])
    # Held-out images; an epoch without an evaluation, and evaluations within one; a run that goes on.
    sets.update({"data.validation": 100, "train.eval_interval": 4, "train.best.split": "val"})
    first, rest = train(path("some"), {**sets, "train.epochs": 2}), train(path("some"), sets)
    lines = found(DATE + EPOCH, first) + found(DATE + EPOCH, rest)
    expect_equal([line[:2] + line[3:4] for line in lines], [("1", "2", None), ("2", "2", "val"), ("3", "3", "val")])
    expect_lines_of_epochs(path("some"), [(n, "3", *others) for n, _, *others in lines])
    expect_match(first.stderr, r"(?m)^step 4: val accuracy \d+\.\d\d %, loss \d\.\d{4}$")


@check
def a_terminal_shows_what_runs():
    # Steps of half a second or so.
    sets = {**settings(train__epochs=1, train__max_steps=-1, train__eval_interval=0), "model.name": "resnet18",
            "model.width": 32, "train_batch_size": 100, "train_micro_batch_size_per_gpu": 100}
    text, silence = on_terminal(*train_words(path("terminal"), sets))
    expect(silence < 2, silence, text)
    for pattern in (r"\ropening the data +\r", r"\rplanning the program", r"\rsaving the checkpoint of step 0", r"\repoch 1/1  step 1/4 +\r",
                    r"\repoch 1/1  step 4/4  loss \d\.\d{3}  lr \S+  \d+ images/s  \d+ s left", r"\revaluating: test image \d+/200  ",
                    r"(?m)(^|\r)epoch 1/1  train ", r"\rwriting last\.bin and best\.bin"):
        expect_match(text, pattern)
    expect_lines_of_epochs(path("terminal"), re.findall(EPOCH, text))
    expect_in("Accuracy in evaluations (%)", text)  # the curves, at the end
    # DeepSpeed's lines of steps do not hide what runs, and nothing does with -q.
    text, _ = on_terminal(*train_words(path("terminal"), settings(compat="[console]"), "--reset"))
    expect_match(text, r"\repoch 1/2  step 1/24")
    expect_not_in("  train ", text)
    text, _ = on_terminal(*train_words(path("terminal"), settings(), "-q", "--reset"))
    expect_not_in("\r", text.replace("\r\n", "\n"))
    expect_not_in("epoch", text)
    expect_not_in("Accuracy in evaluations", text)


@check
def quiet_runs_print_no_lines_of_steps():
    expect_equal(step_lines(plain()), [])
    quiet = train(path("quiet"), settings(), "--quiet")
    expect_equal(step_lines(quiet), [])
    expect_equal(quiet.stdout, plain().stdout)


@check
def time_goes_to_the_parts_of_a_step():
    for ranks in (Ranks(1), Ranks(2)):
        output = path("times-%d" % ranks.number)
        done = train(output, settings(wall_clock_breakdown=True, steps_per_print=8), "-v", ranks=ranks)
        expect_same_weights(output)
        times = [r["time_ms"] for r in records(output, "step")]
        expect_equal(len(times), 3)
        for t in times:
            expect_equal(tuple(t), TIMES)
            expect(min(t[name] for name in ("forward", "backward", "update", "step")) > 0, t)
            expect((t["communication"] > 0) == (ranks.number > 1), t)
            parts = sum(t[name] for name in TIMES[:-1])
            expect(parts <= 1.001 * t["step"], "parts of more than the step", t)
        lines = found(r"time \(ms\)" + "".join(r" \| %s: (\d+\.\d\d)" % name for name in TIMES), done)
        expect_equal(lines, [tuple("%.2f" % t[name] for name in TIMES) for t in times])


@check
def deepspeeds_own_lines():
    done = train(path("console"), settings(compat="[console]", wall_clock_breakdown=True, steps_per_print=4))
    by_rank_0 = PREFIX + r"\[logging\.py:\d+:log_dist\] \[Rank 0\] "
    told = step_lines(done, by_rank_0)
    expect_equal([int(step) for step, *_ in told], [0, 4, 8, 12, 16, 20, 24], done.stderr)
    used = {r["step"]: r["lr"] for r in records((plain(), path("plain"))[1], "step")}
    for step, _, lr, _ in told[:-1]:  # the rate that comes next
        expect_equal(float(lr), used[int(step) + 1])
    speed = found(PREFIX + r"\[timer\.py:\d+:stop\] epoch=0/micro_step=(\d+)/global_step=(\d+), RunningAvgSamplesPerSec=%s, "
                  "CurrSamplesPerSec=%s, MemAllocated=%sGB, MaxMemAllocated=%sGB" % ((NUMBER,) * 4), done)
    expect_equal([(int(m), int(g)) for m, g, *_ in speed], [(8 * n, n) for n in (4, 8, 12, 16, 20, 24)], done.stderr)
    names = ("fwd", "bwd", "bwd_inner", "bwd_allreduce", "step")
    for suffix in ("", "_microstep"):
        times = found(by_rank_0 + r"time \(ms\)" + "".join(r" \| %s%s: (\d+\.\d\d)" % (name, suffix) for name in names),
                      done)
        expect_equal(len(times), 6, done.stderr)
        for fwd, bwd, inner, reduce, _ in times:
            expect(abs(float(bwd) - float(inner) - float(reduce)) < 0.02, times)
    expect_same_weights(path("console"))


@check
def csv_files_have_every_step():
    folder, steps = with_csv(), records((plain(), path("plain"))[1], "step")
    expect_equal(sorted(os.listdir(folder)), ["Train_Samples_lr.csv", "Train_Samples_train_loss.csv"])
    expect_equal(csv_rows(folder, "train_loss"), [[(r["samples"] - BATCH, r["loss"]) for r in steps]])
    lr, = csv_rows(folder, "lr")
    expect_equal([x for x, _ in lr], [r["samples"] for r in steps])
    expect_equal([value for _, value in lr[:-1]], [r["lr"] for r in steps[1:]])
    seldom = path("seldom")
    train(seldom, settings(csv_monitor__enabled=True, steps_per_print=7, wall_clock_breakdown=True))
    for name in ("lr", "train_loss"):  # rows of every step, whatever is printed
        expect_equal(csv_rows(os.path.join(seldom, "csv"), name), csv_rows(folder, name))
    for name in ("forward", "backward", "backward_inner", "backward_allreduce", "step"):
        times, = csv_rows(os.path.join(seldom, "csv"), "elapsed_time_ms_" + name)
        expect_equal([x for x, _ in times], [7 * BATCH, 14 * BATCH, 21 * BATCH])


@check
def a_resumed_run_has_each_step_once_in_csv_files():
    output, changes = path("resumed"), {"csv_monitor__enabled": True, "csv_monitor__job_name": "a job"}
    for last in (7, 15, 16, STEPS):
        train(output, settings(train__max_steps=last, **changes))
    sets = settings(**changes)
    killed = path("killed")
    history = train_through_kills(3, lambda kills: (
        "start %d" % kills, Ranks(1).words(*train_words(killed, {**sets, "train.max_steps": 600, "train.save_interval": 40, "train.epochs": 1000})),
        0.5 + 0.3 * kills))
    for name in ("train_loss", "lr"):
        expect_equal(csv_rows(os.path.join(output, "csv", "a job"), name), csv_rows(with_csv(), name))
        rows, = csv_rows(os.path.join(killed, "csv", "a job"), name)
        expect_equal([x // BATCH for x, _ in rows], list(range(name == "lr", 600 + (name == "lr"))), *history)


@check
def an_unwritable_csv_folder_is_reported_once():
    with open(path("a-file"), "w") as file:
        file.write("somebody's own")
    done = train(path("unwritten"), settings(csv_monitor__enabled=True, csv_monitor__output_path=path("a-file"),
                                             csv_monitor__job_name="job"))
    warnings = [line for line in done.stderr.splitlines() if "csv_monitor" in line]
    expect_equal(len(warnings), 1, done.stderr)
    expect("warning: " in warnings[0] and "a-file" in warnings[0] and "training continues" in warnings[0], warnings)
    plain()
    expect_same_result(path("unwritten"), result(path("plain")))


@check
def a_csv_folder_by_deepspeeds_keys():
    with open(path("ds_config.json"), "w") as file:
        json.dump({"csv_monitor": {"enabled": True, "output_path": path("logs"), "job_name": "cifar10"}}, file)
    for _ in range(2):  # a second run begins another part, as in DeepSpeed
        train(path("by-json"), settings(train__max_steps=3), "--deepspeed_config", path("ds_config.json"), "--reset")
    first, second = csv_rows(path("logs", "cifar10"), "train_loss")
    expect_equal(first, second)
    expect(not os.path.exists(path("by-json", "csv")), os.listdir(path("by-json")))


main()
