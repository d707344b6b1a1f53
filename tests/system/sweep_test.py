"""sweep: a grid or a list of settings with repeats, stopped, killed and continued; its table, results.txt and plot."""
import os
import statistics
import sys
import xml.etree.ElementTree

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import *

LR = "optimizer.params.lr"
SETTINGS = {**FEW, "model.name": "linear", "scheduler.params.warmup_max_lr": 0.01, "train.epochs": 1,
            "optimizer.type": "SGD", "scheduler": "{}"}
GRID = ["--grid", LR + "=0.1,0.01", "--grid", "train.label_smoothing=0,0.1", "--repeats", "2"]
FOLDERS = ["%s=%s,train.label_smoothing=%s,seed=%d" % (LR, lr, smoothing, seed)
           for lr in ("0.1", "0.01") for smoothing in ("0", "0.1") for seed in (42, 43)]


def settings(**changed):
    plain = {k: v for k, v in SETTINGS.items() if not k.startswith("scheduler.params")}
    return {**plain, "data.path": few(), **dotted(changed)}


def words(output, sets, *more):
    config, name, _, _, *rest = train_words(output, sets)
    return [PROGRAM, "sweep", config, name, "--output", output, *rest, *more]


def sweep(output, *more, expecting=DONE, sets=None):
    done = finish(start(words(output, sets or settings(), *more)))
    expect_equal(done.returncode, expecting, done.stdout, done.stderr)
    return done


@functools.lru_cache(None)
def grid():
    """(folder, what it printed)."""
    return path("grid"), sweep(path("grid"), *GRID).stdout


def folders(output):
    return sorted(name for name in os.listdir(output) if os.path.isdir(os.path.join(output, name)))


def content(*names):
    with open(os.path.join(*names), encoding="utf-8") as file:
        return file.read()


def rows(text):
    """Rows of the table: lists of cells."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()
            if line.startswith("| ") and not line.startswith("| settings")]


def spread(numbers, digits):
    text = "%.*f" % (digits, statistics.mean(numbers))
    return text + (" ± %.*f" % (digits, statistics.stdev(numbers)) if len(numbers) > 1 else "")


def tests_of(output, name):
    return [r for r in records(os.path.join(output, name), "eval") if r["split"] == "test"]


def step_losses(output, epoch):
    return [r["loss"] for r in records(output, "step") if r["epoch"] == epoch]


def results(output):
    """Blocks of results.txt: a dictionary each."""
    return [dict(line.strip().split(": ", 1) for line in block.splitlines())
            for block in content(output, "results.txt").split("Experiment:\n")[1:]]


def events(output, *kinds):
    found = [json.loads(line) for line in content(output, "sweep.jsonl").splitlines()]
    return [r for r in found if r["event"] in kinds]


def processes(output):
    """Processes of the program whose command line has the folder."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/cmdline" % pid, "rb") as line:
                if os.fsencode(output) in line.read():
                    found.append(int(pid))
        except OSError:
            pass
    return found


def begun(output):
    """Folders of runs that have recorded steps."""
    return [name for name in (folders(output) if os.path.isdir(output) else [])
            if os.path.exists(os.path.join(output, name, "metrics.jsonl"))
            and '"event":"step"' in content(output, name, "metrics.jsonl")]


# ---- what is trained

@check
def every_combination_with_every_seed():
    output, _ = grid()
    expect_equal(folders(output), sorted(FOLDERS))
    train(path("by-hand"), settings(optimizer__params__lr=0.01, train__label_smoothing=0.1, seed=43))
    expect_same_result(os.path.join(output, FOLDERS[-1]), result(path("by-hand")))
    hashes = {result(os.path.join(output, name))[0] for name in FOLDERS}
    expect_equal(len(hashes), len(FOLDERS), "runs that should differ do not")
    expect("Finished Training" in content(output, FOLDERS[0], "log.txt"), "no output in the run's log")


@check
def the_table():
    output, printed = grid()
    expect_equal(rows(printed), rows(content(output, "table.md")))
    expect_equal(len(rows(printed)), 4)
    for row, pair in zip(rows(printed), zip(FOLDERS[::2], FOLDERS[1::2])):
        last = [tests_of(output, name)[-1] for name in pair]
        expect_equal(row[:4], [pair[0].replace(",seed=42", "").replace(",", ", "), "2 of 2",
                               spread([100 * r["accuracy"] for r in last], 2), spread([r["loss"] for r in last], 4)])
        expect(re.fullmatch(r"\d+\.\d ± \d+\.\d", row[4]), row)
    lines = [line for line in printed.splitlines() if line.startswith("|")]
    expect_equal(len({len(line) for line in lines}), 1, "the columns do not stand below each other", *lines)


@check
def the_table_is_of_the_weights_that_train_best_chose():
    for split, name, metric in (("test", "test", "loss"), ("val", "val", "accuracy")):
        output, late = path("best-" + split), 0
        sets = settings(train__best__split=split, train__best__metric=metric, train__eval_interval=3,
                        optimizer__params__lr=2, data__validation=100 if split == "val" else 0)
        printed = sweep(output, "--grid", "train.label_smoothing=0,0.1", sets=sets).stdout
        for row, folder, block in zip(rows(printed), ("train.label_smoothing=0,seed=42", "train.label_smoothing=0.1,seed=42"),
                                      results(output)):
            found = records(os.path.join(output, folder), "eval")
            judged = [r for r in found if r["split"] == name]
            best = min(judged, key=lambda r: r["loss"]) if metric == "loss" else max(judged, key=lambda r: (r["accuracy"], r["step"]))
            tested = next(r for r in found if r["split"] == "test" and r["step"] == best["step"])
            beside = ["%.2f" % (100 * tested["accuracy"])] if split == "val" else []
            expect_equal(row[2:4 + len(beside)], ["%.2f" % (100 * best["accuracy"]), *beside, "%.4f" % best["loss"]], split)
            expect_equal(block["best_val_acc"], "%.2f" % (100 * best["accuracy"]), split)
            late += best["step"] != judged[-1]["step"]
        expect(late > 0, "all runs were best at their end: nothing was chosen")


@check
def blocks_of_results():
    output, _ = grid()
    blocks = content(output, "results.txt").split("Experiment:\n")[1:]
    expect_equal(len(blocks), len(FOLDERS))
    read, block = [], {}  # as the project does from which the form is: "Experiment:" ends a block that has lines
    for line in filter(None, map(str.strip, content(output, "results.txt").splitlines())):
        if line.startswith("Experiment:"):
            read, block = read + [block] * bool(block), {}
        else:
            key, value = line.split(":", 1)
            block[key.strip()] = value.strip()
    expect_equal([found["name"] for found in read + [block]], FOLDERS)
    keys = ("name notes arch params best_val_acc best_train_loss best_val_loss end_epoch train_seconds num_params "
            "git_hash timestamp seed lr weight_decay dropout max_epochs optimizer scheduler").split()
    for name, block in zip(FOLDERS, blocks):
        lines = block.splitlines()
        expect_equal([line.split(": ", 1)[0] for line in lines], ["\t%16s" % key for key in keys])
        found = dict(line.strip().split(": ", 1) for line in lines)
        best = max(tests_of(output, name), key=lambda r: r["accuracy"])
        losses = step_losses(os.path.join(output, name), best["epoch"])
        expect_equal(found["name"], name)
        expect_equal((found["arch"], found["num_params"], found["end_epoch"]), ("linear", "30730", "1"))
        expect_equal(found["best_val_acc"], "%.2f" % (100 * best["accuracy"]))
        expect(abs(float(found["best_val_loss"]) - best["loss"]) < 1e-6, found)
        expect(abs(float(found["best_train_loss"]) - statistics.mean(losses)) < 1e-6, found)
        expect_equal([found[k] for k in ("seed", "lr", "optimizer", "scheduler", "max_epochs", "dropout")],
                     [name[-2:], name.split(",")[0].split("=")[1], "SGD", "none", "1", "0"])
        time.strptime(found["timestamp"], "%Y-%m-%d %H:%M:%S")
        expect(float(found["train_seconds"]) > 0, found)


@check
def the_loss_of_training_is_the_epochs():
    """With any interval of step records; a run that ends within an epoch has none."""
    sweep(path("seldom"), "--repeats", "2", sets=settings(steps_per_print=1000, optimizer__params__lr=0.1))
    for block in results(path("seldom")):
        steps = path("every-step-" + block["seed"])
        train(steps, settings(optimizer__params__lr=0.1, seed=block["seed"]))
        expect(abs(float(block["best_train_loss"]) - statistics.mean(step_losses(steps, 1))) < 1e-6, block)
    sweep(path("cut"), "--repeats", "2", sets=settings(train__max_steps=3))
    expect_equal([block["best_train_loss"] for block in results(path("cut"))], ["-", "-"])


@check
def the_plot():
    output, _ = grid()
    space = "{http://www.w3.org/2000/svg}"
    svg = xml.etree.ElementTree.parse(os.path.join(output, "plot.svg")).getroot()
    expect_equal(svg.tag, space + "svg")
    expect_equal(len(svg.findall(space + "circle")), len(FOLDERS))
    labels = [text.text for text in svg.findall(space + "text")]
    for name in FOLDERS[::2]:
        expect(name.replace(",seed=42", "").replace(",", ", ") in labels, labels)
    # Circles stand by the accuracy: the higher the better.
    places = {}
    for circle, name in zip(svg.findall(space + "circle"), FOLDERS):
        places.setdefault(tests_of(output, name)[-1]["accuracy"], set()).add(float(circle.get("cy")))
    expect(all(len(heights) == 1 for heights in places.values()), places)
    heights = [places[accuracy] for accuracy in sorted(places, reverse=True)]
    expect_equal(heights, sorted(heights, key=min))


@check
def side_by_side_gives_the_same():
    sweep(path("beside"), *GRID, "--parallel", "3")
    for name in FOLDERS:
        expect_same_result(path("beside", name), result(os.path.join(grid()[0], name)))


@check
def a_terminal_shows_how_far_its_runs_are():
    # Without saves and evaluations, which a run reports in the place of its steps; it reports these once a second.
    sets = settings(train__epochs=1500, train__save_interval=10**6, train__eval_interval=10**6)
    text, silence = on_terminal(*words(path("terminal"), sets, "--grid", "seed=1,2")[1:])
    expect(silence < 2, silence, text)
    expect_match(text, r"\r0 of 2 runs have ended; \[1/2\] epoch \d+/1500, step \d+/\d+, loss \d\.\d{3}; \d+ s left")
    expect_match(text, r"\r1 of 2 runs has ended; \[2/2\] epoch \d+/1500, step \d+/\d+, loss \d\.\d{3}; \d+ s left")
    expect_match(text, r"\r\[1/2\] seed=1: accuracy \d+\.\d\d %, \d+ s")


@check
def a_list_of_cases():
    done = sweep(path("cases"), "--case", "optimizer.type=SGD optimizer.params.lr=0.1  optimizer.params.momentum=0.9",
                 "--case", "optimizer.params.lr=0.002 optimizer.type=Adam optimizer.params.betas=[0.8, 0.99]", "--grid",
                 "seed=1,2")
    expect_equal([row[:2] for row in rows(done.stdout)],
                 [["optimizer.type=SGD, optimizer.params.lr=0.1, optimizer.params.momentum=0.9", "2 of 2"],
                  ["optimizer.params.lr=0.002, optimizer.type=Adam, optimizer.params.betas=[0.8, 0.99]", "2 of 2"]])
    train(path("adam"), settings(optimizer__type="Adam", optimizer__params__betas="[0.8,0.99]", seed=2,
                                 optimizer__params__lr=0.002))
    wanted = result(path("adam"))[0]
    expect(wanted in [result(path("cases", name))[0] for name in folders(path("cases"))], folders(path("cases")))


@check
def values_of_cases_may_hold_blanks():
    """In brackets and quotes; an apostrophe within a word is not a quote."""
    for case, folder in (("data.augment=[ {flip: {p: 0.5}}, cutout ] train.epochs=2",
                          "data.augment=__flip__p_0.5__,cutout_,train.epochs=2"),
                         ("tensorboard.output_path='/my data' train.epochs=2", "tensorboard.output_path=__mydata_,train.epochs=2"),
                         ('tensorboard.output_path="/a \\" b=c" train.epochs=2', "tensorboard.output_path=__a__b=c_,train.epochs=2"),
                         ("tensorboard.output_path='/it''s here' train.epochs=2", "tensorboard.output_path=__it_shere_,train.epochs=2"),
                         ("tensorboard.output_path=/it's train.epochs=2", "tensorboard.output_path=__it_s_,train.epochs=2"),
                         ("tensorboard.output_path=/a[b train.epochs=2", "tensorboard.output_path=__a_b_,train.epochs=2")):
        done = sweep(path("dry"), "--case", case, "--dry-run", sets={k: v for k, v in settings().items()
                                                                     if k not in ("data.path", "data.augment")})
        expect_equal(re.sub(r",seed=42-[0-9a-f]{8}\n$", "", os.path.basename(done.stdout)), folder)
    for case in ("data.augment=[flip train.epochs=2", "tensorboard.output_path='/a train.epochs=2"):
        fails(USAGE, finish(start(words(path("dry"), settings(), "--case", case))), case[:20])


@check
def repeats_alone():
    done = sweep(path("seeds"), "--repeats", "3", sets=settings(seed=7))
    expect_equal(folders(path("seeds")), ["seed=7", "seed=8", "seed=9"])
    expect_equal([row[:2] for row in rows(done.stdout)], [["as configured", "3 of 3"]])


@check
def a_dry_run_lists_them():
    done = sweep(path("dry"), *GRID, "--dry-run")
    expect_equal(done.stdout.splitlines(), [path("dry", name) for name in FOLDERS])
    expect(not os.path.exists(path("dry")))


# ---- stopped, killed and continued

LONG = dict(train__epochs=150, train__eval_interval=1000)
LONG_GRID = ["--grid", LR + "=0.1,0.01", "--repeats", "2", "--parallel", "2"]


@functools.lru_cache(None)
def undisturbed():
    sweep(path("undisturbed"), *LONG_GRID, sets=settings(**LONG))
    return path("undisturbed")


def start_long(output):
    job = start(words(output, settings(**LONG), *LONG_GRID))
    # Two runs that go on: a third, where one has ended, may not have its folder yet.
    wait_until(lambda: sum('"event":"end"' not in content(output, name, "metrics.jsonl") for name in begun(output)) >= 2
               or job.poll() is not None)
    expect_equal(job.poll(), None, "the sweep is over before it could be disturbed")
    return job


def expect_undisturbed(output):
    for name in folders(undisturbed()):
        expect_same_result(os.path.join(output, name), result(os.path.join(undisturbed(), name)))
    expect_equal([row[:4] for row in rows(content(output, "table.md"))],
                 [row[:4] for row in rows(content(undisturbed(), "table.md"))])


@check
def a_stopped_sweep_continues():
    output = path("stopped")
    for number in (signal.SIGINT, signal.SIGTERM):
        job = start_long(output)
        os.kill(job.pid, number)
        done = finish(job)
        expect_equal(done.returncode, STOPPED, done.stderr)
        expect("run the same command again" in done.stderr, done.stderr)
        expect_equal(processes(output), [], "runs were left behind")
        for name in begun(output):
            expect("the checkpoint is good" in content(output, name, "log.txt"), content(output, name, "log.txt"))
    sweep(output, *LONG_GRID, sets=settings(**LONG))
    expect_undisturbed(output)


@check
def a_killed_sweep_continues():
    output = path("killed")
    job = start_long(output)
    wait_until(lambda: len(begun(output)) >= 3 or job.poll() is not None)

    def at_work():
        ended = [r["run"] for r in events(output, "run")]
        return [name for name in begun(output) if name not in ended]

    wait_until(lambda: at_work() or job.poll() is not None)
    job.kill()
    job.communicate()
    wait_until(lambda: not processes(output))
    ended = [r["run"] for r in events(output, "run")]
    killed = {r["run"]: r["time"] for r in events(output, "begin") if r["run"] not in ended}
    longest = {name: time.time() - begin for name, begin in killed.items()}
    expect(ended and killed, "nothing had ended, or nothing was killed")
    done = sweep(output, *LONG_GRID, sets=settings(**LONG))
    for block in results(output):  # what the kill has cut off counts
        parts = [r for r in events(output, "run") if r["run"] == block["name"]]
        expect_equal([r["code"] for r in parts], [LOST, DONE] if block["name"] in killed else [DONE], parts)
        expect_equal(block["train_seconds"], "%.2f" % sum(r["seconds"] for r in parts))
        expect(len(parts) == 1 or parts[0]["seconds"] <= longest[block["name"]], parts, longest)
    lost = [r["seconds"] for r in events(output, "run") if r["code"] == LOST]
    expect(max(lost) > 0, lost)
    for name in ended:
        expect(name.replace(",", ", ") + ": is done" in done.stderr, name, done.stderr)
    expect_undisturbed(output)
    before = events(output, "begin", "run")
    again = sweep(output, *LONG_GRID, sets=settings(**LONG))
    expect_equal(again.stderr.count(": is done"), 4, again.stderr)
    expect_equal(events(output, "begin", "run"), before)


@check
def a_second_interrupt_ends_everything_at_once():
    output = path("twice")
    job = start_long(output)
    for pid in processes(output):
        if pid != job.pid:
            os.kill(pid, signal.SIGSTOP)  # cannot do what it is asked for
    os.kill(job.pid, signal.SIGINT)
    time.sleep(0.3)
    expect_equal(job.poll(), None, "it has not waited for its runs")
    os.kill(job.pid, signal.SIGINT)
    expect_equal(finish(job, timeout=10).returncode, 128 + signal.SIGINT)
    wait_until(lambda: not processes(output))


@check
def two_sweeps_in_one_folder():
    output = path("one-folder")
    job = start_long(output)
    fails(USAGE, finish(start(words(output, settings(**LONG), *LONG_GRID))), output, "in use", str(job.pid))
    os.kill(job.pid, signal.SIGTERM)
    expect_equal(finish(job).returncode, STOPPED)


@check
def a_run_does_not_take_a_sweeps_place():
    output, _ = grid()
    before = sorted(os.listdir(output))
    fails(USAGE, run("train", *train_words(output, settings())), output, "holds a sweep", "another --output")
    expect_equal(sorted(os.listdir(output)), before)


@check
def more_epochs_continue_and_another_rate_is_refused():
    output = path("grown")
    for epochs in (1, 2):
        sweep(output, "--repeats", "2", sets=settings(train__epochs=epochs))
    expect_equal([len(tests_of(output, name)) for name in folders(output)], [2, 2])
    done = finish(start(words(output, settings(train__epochs=2, optimizer__params__lr=0.5), "--repeats", "2")))
    before = {k: v for k, v in snapshot(output).items() if k != ".lock"}
    fails(USAGE, done, "another sweep", "seed=42", LR, "another --output")
    for fewer in ({"train__epochs": 1}, {"train__epochs": 2, "train__max_steps": 3}, {"train__epochs": 2, "train__eval_interval": 2}):
        done = finish(start(words(output, settings(**fewer), "--repeats", "2")))
        fails(USAGE, done, "another sweep", list(fewer)[-1].replace("__", "."))
    expect_equal({k: v for k, v in snapshot(output).items() if k != ".lock"}, before)


@check
def runs_begin_with_weights_of_a_file_and_take_the_flags_of_train():
    weights = os.path.join(grid()[0], FOLDERS[0], "last.bin")
    output, more = path("pretrained"), ["--repeats", "2", "--batch-size", "8", "--epochs", "2", "--lr", "0.05"]
    sets = {k: v for k, v in settings().items() if k not in ("train.epochs", "train_batch_size", LR)}
    sweep(output, *more, "--pretrained", weights, sets=sets)
    for name in folders(output):
        config = content(output, name, "config.yaml")
        for line in ("# started with --init '%s' --init-head fit" % weights, "train_batch_size: 8", "epochs: 2", "lr: 0.05"):
            expect_in(line, config)
    fails(USAGE, finish(start(words(output, sets, *more))), "another sweep", "began with --pretrained " + weights)
    fails(CHECKPOINT, finish(start(words(path("misfit"), {**sets, "model.name": "cnn"}, *more, "--init", weights))),
          "seed=42", "give --model linear")
    expect(not os.path.exists(path("misfit")), "something was written")


@check
def overridden_values_of_a_schedule_are_reported_once():
    sets = {**settings(), "scheduler.type": "WarmupLR", LR: 0.05}
    sets.pop("scheduler", None)
    rate = "scheduler.params.warmup_max_lr"
    done = finish(start(words(path("overridden"), sets, "--grid", rate + "=0.1,0.02", "--repeats", "2", "--dry-run")))
    expect_equal(done.stderr.count(rate + " 0.1 overrides optimizer.params.lr"), 1, done.stderr)


@check
def another_sweep_does_not_take_a_sweeps_place():
    output, first = path("two"), ["--grid", LR + "=0.1", "--repeats", "2"]
    sweep(output, *first)
    before = {k: v for k, v in snapshot(output).items() if k != ".lock"}
    for dry in [], ["--dry-run"]:
        fails(USAGE, finish(start(words(output, settings(), "--grid", "train.label_smoothing=0,0.1", *dry))),
              output, "another sweep", LR + "=0.1,seed=42", "another --output")
    expect_equal({k: v for k, v in snapshot(output).items() if k != ".lock"}, before)
    # The same may grow, by values and by seeds.
    done = sweep(output, "--grid", LR + "=0.1,0.01", "--repeats", "3")
    expect_equal(done.stderr.count(": is done"), 2, done.stderr)
    expect_equal([row[1] for row in rows(done.stdout)], ["3 of 3", "3 of 3"])


# ---- failures

@check
def its_own_files_stop_no_run():
    """A folder has the name of one of them: the table cannot be written."""
    output = path("no-table")
    job = start_long(output)
    os.mkdir(os.path.join(output, "table.md"))
    done = finish(job)
    fails(IO, done, "table.md")
    expect_equal(done.stderr.count("warning: cannot replace"), 1, done.stderr)
    os.rmdir(os.path.join(output, "table.md"))
    again = sweep(output, *LONG_GRID, sets=settings(**LONG))
    expect_equal(again.stderr.count(": is done"), 4, again.stderr)
    expect_undisturbed(output)


def put(output, name, text):
    with open(os.path.join(output, ".new"), "w") as file:
        file.write(text)
    os.rename(os.path.join(output, ".new"), os.path.join(output, name))


@check
def a_file_that_appears_meanwhile_is_not_replaced():
    for name in "table.md", "sweep.jsonl":
        output = path("another-" + name)
        job = start_long(output)
        put(output, name, "mine\n")
        done = finish(job)
        fails(IO, done, name, "move it away")
        expect_equal(done.stderr.count("warning: "), 1, done.stderr)
        expect_equal(content(output, name), "mine\n")
        os.remove(os.path.join(output, name))
        again = sweep(output, *LONG_GRID, sets=settings(**LONG))
        expect_equal(again.stderr.count("%"), 4 if name == "sweep.jsonl" else 0, again.stderr)
        expect_undisturbed(output)


@check
def removed_records_are_written_anew():
    output = path("no-records")
    job = start_long(output)
    os.remove(os.path.join(output, "sweep.jsonl"))
    done = finish(job)
    expect_equal(done.returncode, DONE, done.stderr)
    expect_equal(done.stderr.count("warning: "), 1, done.stderr)
    expect_in("sweep.jsonl' was removed or replaced while the sweep was using it: it is written anew", done.stderr)
    expect_equal(sorted(r["run"] for r in events(output, "run")), sorted(folders(undisturbed())))
    expect_equal(sweep(output, *LONG_GRID, sets=settings(**LONG)).stderr.count(": is done"), 4)
    expect_undisturbed(output)


@check
def a_moved_folder_begins_no_run():
    output = path("moved")
    job = start_long(output)
    os.rename(output, path("elsewhere"))
    done = finish(job)
    fails(IO, done, output, "was moved, removed or replaced while the sweep was using it")
    expect(not os.path.exists(output), "a run began")
    os.rename(path("elsewhere"), output)
    sweep(output, *LONG_GRID, sets=settings(**LONG))
    expect_undisturbed(output)


@check
def a_run_that_cannot_begin_stops_no_other():
    output = path("no-log")
    os.makedirs(os.path.join(output, "seed=42", "log.txt"))
    done = finish(start(words(output, settings(), "--repeats", "3", "--parallel", "2")))
    fails(IO, done, "1 of 3 runs failed", "seed=42", "log.txt")
    expect_equal([row[:2] for row in rows(done.stdout)], [["as configured", "2 of 3"]])


@check
def a_run_that_diverges_stops_no_other():
    output, more = path("diverged"), ["--grid", LR + "=0.1,1e38", "--repeats", "1"]
    sets = settings(gradient_clipping=0, train__epochs=3)
    done = finish(start(words(output, sets, *more)))
    fails(DIVERGED, done, "1 of 2 runs failed", LR + "=1e+38", "log.txt")
    expect_equal([row[1] for row in rows(done.stdout)], ["1 of 1", "0 of 1"])
    again = finish(start(words(output, sets, *more)))
    fails(DIVERGED, again, LR + "=1e+38")
    expect("has diverged before" in again.stderr and ": is done" in again.stderr, again.stderr)


@check
def a_run_that_is_killed_is_named():
    output = path("one-killed")
    job = start_long(output)
    victim = next(pid for pid in processes(output) if pid != job.pid)
    os.kill(victim, signal.SIGKILL)
    fails(LOST, finish(job), "1 of 4 runs failed", "seed=", "log.txt")
    sweep(output, *LONG_GRID, sets=settings(**LONG))
    expect_undisturbed(output)


@check
def missing_data_is_an_error_of_data():
    for more in ((), ("--dry-run",)):
        done = finish(start(words(path("nodata"), settings(data__path=path("nowhere")), "--repeats", "2", *more)))
        fails(DATA, done, path("nowhere"))
        expect(not os.path.exists(path("nodata")))
    sweep(path("nodata"), "--repeats", "2", "--jobscript", "slurm", "--time", "1h",
          sets=settings(data__path=path("nowhere")))


@check
def mistakes_are_refused_before_anything_begins():
    cases = [
        (["--grid", LR + "=0.1,0.2", "--set", "scheduler={type: WarmupLR}"],
         ["--grid %s=0.1 changes nothing" % LR, "sweep scheduler.params.warmup_max_lr instead"]),
        (["--lr", "0.5", "--grid", LR + "=0.1,0.2"], ["--lr 0.5 and --grid %s=0.1 give two values of %s" % (LR, LR)]),
        (["--grid", "optimizer.params.lrr=0.1,0.2"], ["--grid optimizer.params.lrr=0.1: unknown key 'optimizer.params.lrr'"]),
        (["--grid", "train.epoch=1,2"], ["unknown key 'train.epoch'", "did you mean 'train.epochs'"]),
        (["--case", "trian.epochs=1"], ["--case trian.epochs=1: unknown key 'trian.epochs'", "did you mean 'train.epochs'"]),
        (["--grid", "train.epochs="], ["list of values is empty"]),
        (["--grid", "train.epochs=1,,2"], ["train.epochs=1,,2"]),
        (["--case", " "], ["list of settings is empty"]),
        (["--case", "train.epochs"], ["write KEY=VALUE"]),
        (["--case", "train.epochs="], ["train.epochs has no value"]),
        (["--grid", "data.validation=10,1000000"], ["data.validation=1000000, seed=42: data.validation"]),
        (["--grid", "train.epochs=1,x"], ["train.epochs expects a whole number"]),
        (["--grid", "train.epochs=[1"], ["train.epochs=[1"]),
        (["--grid", "train.epochs=1,2", "--grid", "train.epochs=3"], ["given twice"]),
        (["--grid", LR + "=0.1,1e-1"], ["the same run is listed twice"]),
        (["--grid", "seed=1,2", "--repeats", "2"], ["'seed' is given twice"]),
        (["--case", "seed=1", "--case", "train.epochs=2"], ["some cases have a seed"]),
        (["--grid", "output=a,b"], ["puts the folders of its runs"]),
        (["--repeats", "2", "--set", "output=a"], ["puts the folders of its runs"]),
        (["--grid", "train.max_steps=" + ",".join(map(str, range(200))), "--repeats", "51"], ["more than 10000 runs"]),
        (["--grid", "train_batch_size=32,30"], ["train_batch_size"]), ([], ["nothing to sweep"])]
    for more, culprits in cases:
        fails(USAGE, finish(start(words(path("refused"), settings(), *more))), *culprits)
        expect(not os.path.exists(path("refused")), "left behind by", more)
    for key in ("vit_tinyy", "linear\x1b[31m", "\udcff"):
        done = finish(start(words(path("refused"), settings(), "--grid", "model.name=cnn," + key)))
        expect("\x1b" not in fails(USAGE, done), "control characters were printed")
    if has_mpi():
        mpi = ["mpirun", "-np", "2", *words(path("refused"), settings(), "--repeats", "2")]
        fails(USAGE, finish(start(mpi)), "sweep starts its runs itself")


@check
def files_of_others_are_not_replaced():
    more = ["--repeats", "2"]
    for name in ("results.txt", "table.md", "plot.svg", "sweep.jsonl"):
        output = path("foreign-" + name)
        os.makedirs(output)
        with open(os.path.join(output, name), "w") as file:
            file.write("Experiment:\n\t            name: somebody's own\n")
        before = snapshot(output)
        fails(USAGE, finish(start(words(output, settings(), *more))), name, "move it away")
        expect_equal({k: v for k, v in snapshot(output).items() if k != ".lock"}, before)
    output = path("edited")
    sweep(output, *more)
    with open(os.path.join(output, "table.md"), "a") as file:
        file.write("and a remark\n")
    fails(USAGE, finish(start(words(output, settings(), *more))), "table.md", "edited")
    train(path("a-run"), settings())
    fails(USAGE, finish(start(words(path("a-run"), settings(), *more))), path("a-run"), "holds a run")


@check
def a_folder_that_no_configuration_can_name_is_refused():
    for name in "line\nbreak", "not-utf8\udcff":
        output = path(name)
        for verb in ["sweep", "--repeats", "2"], ["sweep", "--repeats", "2", "--dry-run"], ["compare"]:
            fails(USAGE, finish(start([PROGRAM, *verb, *train_words(output, settings())])), "no configuration can name it")
            expect(not os.path.exists(output), "something was written")


@check
def names_that_no_folder_can_have():
    """Values with slashes, spaces and quotes, and very long ones."""
    link = path("data of 'mine'")
    os.symlink(few(), link)
    other = path("x" * 200)
    os.symlink(few(), other)
    sets = {k: v for k, v in settings(data__augment="[]").items() if k != "data.path"}
    sweep(path("names"), "--grid", 'data.path="%s","%s"' % (link, other), sets=sets)
    expect_equal(len(folders(path("names"))), 2)
    for name in folders(path("names")):
        expect(re.fullmatch(r"[\w.=,+-]{1,200}", name), name)
        expect_equal(records(path("names", name), "end")[-1]["reason"], "finished")


main()
