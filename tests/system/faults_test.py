"""Whole runs of 2 ranks on a disk that fails at its N-th operation, for every N: a start with its saves, event file and
replacements of best.bin; a resume; a reset; an export; a conversion to a packed file; an import of a configuration.
Then the same command, on a disk that works, must find the old or the new state, whole, and end with the bits of an
uninterrupted run.

The disk is that of cifar-train-faulty (tests/faulty/), which is built beside the program. A sample of the cases by
default; all of them with CIFAR_TRAIN_FULL=1, on as many processes as CIFAR_TRAIN_FAULT_JOBS says (default: the cores).
"""
import collections
import concurrent.futures
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import *
from events import event_files, shown

FULL = os.environ.get("CIFAR_TRAIN_FULL", "") not in ("", "0")
JOBS = int(os.environ.get("CIFAR_TRAIN_FAULT_JOBS", 0)) or len(os.sched_getaffinity(0))
FAULTY = os.path.join(os.path.dirname(PROGRAM), "cifar-train-faulty")
CRASHED = 99
# These are no failures: the operation is repeated, or goes on.
HARMLESS = ("eintr", "partial")
# From the N-th operation on: all operations of its kind, or all, until the next save begins.
LASTING = ("lasting", "gone")
FAULTS = ("crash", "power_loss", "eio", "enospc", "edquot", "estale", "full", *LASTING, *HARMLESS)
SEEDS = {"power_loss": 3}  # what is lost differs
RANKS = Ranks(2)
STEPS = 4
MICRO_BATCHES = 2  # of a step


# ---- what runs

@functools.lru_cache(None)
def pictures():
    """Few and small ones, in two classes."""
    numbers = random.Random(5)
    for split, count in ("train", 16), ("val", 8):
        for i in range(count):
            folder = path("pictures", split, "ab"[i % 2])
            os.makedirs(folder, exist_ok=True)
            with open(os.path.join(folder, "%d.ppm" % i), "wb") as file:
                file.write(b"P6 8 8 255\n" + numbers.randbytes(8 * 8 * 3))
    return path("pictures")


@functools.lru_cache(None)
def packed():
    succeeds("data", "convert", "--from", pictures(), "--out", path("whole.ctpack"), "--threads", 1)
    return path("whole.ctpack")


def settings():
    return {"model.name": "linear", "data.path": packed(), "data.size": 8, "data.resize": 8, "data.augment": "[]",
            "train_batch_size": 4, "train_micro_batch_size_per_gpu": 2, "train.eval_batch_size": 8, "optimizer.type": "Adam",
            "train.epochs": 1, "train.max_steps": STEPS, "train.save_interval": 2, "train.eval_interval": 2,
            "train.best.split": "test", "checkpoint.keep_last": 1, "tensorboard.enabled": True, "csv_monitor.enabled": True,
            "train.ema.decay": 0.5, "steps_per_print": 1, "train.log_interval": MICRO_BATCHES}


def training(output):
    return RANKS.words(*train_words(output, settings(), "--verbose"))[1:]


@functools.lru_cache(None)
def whole():
    """The folder of the uninterrupted run."""
    done = finish(start([PROGRAM, *training(path("whole"))]))
    expect_equal(done.returncode, DONE, done.stderr)
    return path("whole")


@functools.lru_cache(None)
def halfway():
    """A run that ended after its first save, evaluation and best weights, and that more steps continue."""
    train(path("halfway"), {**settings(), "train.max_steps": STEPS // 2}, ranks=RANKS)
    return path("halfway")


def is_begun(event_file):
    """Does it have its second record, SessionLog START? A crash may leave less, of which TensorBoard shows nothing."""
    with open(event_file, "rb") as file:
        data = file.read()
    return 0 <= data.find(b"\x3a\x02\x08\x01") <= len(data) - 8


def curves(output):
    for file in event_files(os.path.join(output, "tb")):
        if not is_begun(file):
            os.remove(file)
    return {tag: values for tag, values in shown(os.path.join(output, "tb")).items() if tag != "configuration"}


def csv_files(output):
    """{path: lines}"""
    found = {}
    for at, _, names in os.walk(os.path.join(output, "csv")):
        for name in names:
            with open(os.path.join(at, name)) as file:
                found[os.path.relpath(os.path.join(at, name), output)] = file.read().splitlines()
    return found


class Training:
    """From nothing."""
    outcome = staticmethod(training)

    def prepare(self, output):
        pass

    def check_whole(self, output, warnings=""):
        """The state after a run that has ended."""
        expect_same_result(output, result(whole()))
        last, best = [weights_sha256(os.path.join(whole(), name)) for name in ("last.bin", "best.bin")]
        expect_equal(weights_sha256(os.path.join(output, "last.bin")), last)
        found = weights_sha256(os.path.join(output, "best.bin"))
        # With a warning, evaluated weights that cannot be written are not kept as the best, and curves may end.
        expect(found == best or (found == last and "the evaluated weights" in warnings), "best.bin")
        if "TensorBoard" not in warnings:
            expect_equal(curves(output), curves(whole()))
        if "csv_monitor" not in warnings:
            expect_equal(csv_files(output), csv_files(whole()))

    def check_end(self, done):
        """A failure ends a run at its start or its end, and never in the midst of training."""
        lines = re.findall(r"^\[1, *(\d+)\] loss", done.stdout, re.MULTILINE)
        expect(not lines or int(lines[-1]) == MICRO_BATCHES * STEPS, "a fault ended training")

    def check_found(self, output, done):
        """The state after a run that failed: what was reported as saved is there."""
        saved = [int(step) for step in re.findall(r"^saved .*/step-(\d+)$", done.stdout + done.stderr, re.MULTILINE)]
        if saved:
            checked = run("ckpt", "verify", output)
            expect_equal(checked.returncode, DONE, checked.stdout, checked.stderr)
            expect(max(checkpoints(output)) >= max(saved), "saved %s, found %s" % (saved, checkpoints(output)))

    def go_on(self, output, fault):
        done = finish(start([PROGRAM, *self.outcome(output)]))
        expect_equal(done.returncode, DONE, done.stdout, done.stderr)
        # Of a run that has ended all the same these are not written again, which would remove them.
        may = (".tmp-latest", ".tmp-evaluation.json", ".tmp-evaluation.png") if fault in LASTING else ()
        left = [os.path.join(at, name) for at, folders, names in os.walk(output) for name in folders + names
                if name.startswith((".tmp-", ".old-", ".trash-", ".shared")) and name not in may]
        expect_equal(left, [], "is left behind")
        return done


class Resume(Training):
    def prepare(self, output):
        shutil.copytree(halfway(), output)


class Reset(Resume):
    """From nothing, once the run that is there is deleted."""

    def outcome(self, output):
        return [*training(output), "--reset"]


class Replacement:
    """A file that replaces an older one."""
    beside = []  # all files that are written, if there are several

    def old(self):
        raise NotImplementedError

    def outcome(self, output, *words):
        raise NotImplementedError

    def made(self, folder, *words):
        """The file, of a disk that works."""
        os.makedirs(folder)
        succeeds(*self.outcome(folder, *words))
        return os.path.join(folder, self.name)

    @functools.lru_cache(None)
    def new(self):
        return self.made(path("whole-" + type(self).__name__))

    def prepare(self, output):
        os.makedirs(output)
        shutil.copy(self.old(), os.path.join(output, self.name))

    def content(self, output):
        with open(os.path.join(output, self.name), "rb") as file:
            return file.read()

    def check_whole(self, output, warnings=""):
        with open(self.new(), "rb") as file:
            expect(self.content(output) == file.read(), "the new file is not whole")

    def check_end(self, done):
        pass

    def check_found(self, output, done):
        with open(self.new(), "rb") as new, open(self.old(), "rb") as old:
            expect(self.content(output) in (new.read(), old.read()), "neither the old nor the new file")

    def go_on(self, output, fault):
        done = finish(start([PROGRAM, *self.outcome(output)]))
        expect_equal(done.returncode, DONE, done.stdout, done.stderr)
        expect_equal(sorted(os.listdir(output)), self.beside or [self.name])
        return done


class Export(Replacement):
    name = "weights.safetensors"

    def outcome(self, output):
        return ["export", "--ckpt", whole(), "--out", os.path.join(output, self.name)]

    def old(self):
        return os.path.join(whole(), "ckpt", "step-%08d" % STEPS, "weights.safetensors")


class ExportOnnx(Replacement):
    """The model, and the Python program beside it."""
    name = "model.onnx"
    beside = [name, name + ".py"]

    def outcome(self, output, *words):
        return ["export", "--ckpt", whole(), "--out", os.path.join(output, self.name), *words]

    @functools.lru_cache(None)
    def exported(self, *words):
        return self.made(path("-".join(["onnx", *words])), *words)

    def new(self):
        return self.exported()

    def old(self):
        return self.exported("--raw")

    def check_whole(self, output, warnings=""):
        super().check_whole(output)
        with open(self.new() + ".py") as sample, open(os.path.join(output, self.name + ".py")) as found:
            expect_equal(found.read(), sample.read())


class Convert(Replacement):
    name = "pictures.ctpack"

    def outcome(self, output):
        return ["data", "convert", "--from", pictures(), "--out", os.path.join(output, self.name), "--threads", 1, "--force"]

    def new(self):
        return packed()

    @functools.lru_cache(None)
    def old(self):
        shutil.copytree(os.path.join(pictures(), "val"), path("fewer", "train"))
        shutil.copytree(os.path.join(pictures(), "val"), path("fewer", "val"))
        succeeds("data", "convert", "--from", path("fewer"), "--out", path("fewer.ctpack"))
        return path("fewer.ctpack")


class Import(Replacement):
    """A new file, which is never replaced."""
    name = "ours.yaml"

    def prepare(self, output):
        os.makedirs(output)

    def outcome(self, output):
        return ["config", "import", theirs(), "--out", os.path.join(output, self.name)]

    def check_found(self, output, done):
        if os.path.exists(os.path.join(output, self.name)):
            self.check_whole(output)

    def go_on(self, output, fault):
        if not os.path.exists(os.path.join(output, self.name)):
            return super().go_on(output, fault)
        again = finish(start([PROGRAM, *self.outcome(output)]))
        fails(USAGE, again, self.name, "exists already")
        return again


@functools.lru_cache(None)
def theirs():
    with open(path("ds_config.json"), "w") as file:
        file.write('{"train_batch_size": 16, "optimizer": {"type": "Adam", "params": {"lr": 0.001}}}')
    return file.name


SCENARIOS = {"start": Training(), "resume": Resume(), "reset": Reset(), "export": Export(), "onnx": ExportOnnx(),
             "convert": Convert(), "import": Import()}


# ---- faults

def fault_of(fault, at, seed, folder):
    os.makedirs(folder, exist_ok=True)
    return {"CIFAR_TRAIN_FAULT": "%s %d %d %s" % (fault, at, seed, folder)}


def report_of(folder):
    """(the operation that had the fault, {fault: operations that could have had it})"""
    with open(os.path.join(folder, "report")) as file:
        failed, *counts = file.read().splitlines()
    return failed, {fault: int(count) for fault, count in (line.split() for line in counts)}


@functools.lru_cache(None)
def counts_of(scenario):
    """{fault: number of operations that can have it} of a run without a fault."""
    output, folder = path(scenario + "-counted"), path(scenario + "-counted-disk")
    SCENARIOS[scenario].prepare(output)
    done = finish(start([FAULTY, *SCENARIOS[scenario].outcome(output)], env=fault_of("none", -1, 0, folder)))
    expect_equal(done.returncode, DONE, done.stderr)
    SCENARIOS[scenario].check_whole(output)
    return report_of(folder)[1]


def try_case(scenario, fault, at, seed):
    """How the program ended, and its warnings and error; AssertionError if anything is lost."""
    name = "-".join(map(str, (scenario, fault, at, seed)))
    output, folder = path(name), path(name + "-disk")
    what = SCENARIOS[scenario]
    what.prepare(output)
    done = finish(start([FAULTY, *what.outcome(output)], env=fault_of(fault, at, seed, folder)))
    failed, _ = report_of(folder)
    told = ["%s fault at %d (%s), seed %d: exit %d" % (fault, at, failed or "after the end", seed, done.returncode),
            done.stdout, done.stderr]
    try:
        warned = "\n".join(line for line in done.stderr.splitlines() if line.startswith("warning: "))
        if done.returncode == DONE:
            what.check_whole(output, warned)
            expect(not failed or fault not in HARMLESS or not warned, "a warning without need")
        elif done.returncode != CRASHED:
            expect(fault not in HARMLESS, "no failure, and yet it ended")
            place = os.path.basename(failed.split(" ", 1)[1]).removeprefix(".tmp-")
            line = fails(done.returncode, done, "")
            expect(done.returncode in (IO, CHECKPOINT, DATA), "another exit code")
            what.check_end(done)
            # If the fault lasts, it names a file of one of the failures.
            expect(fault in ("full", *LASTING) or place in line or os.path.basename(os.path.dirname(failed)) in line,
                   "the error does not name the file")
        if (done.returncode != DONE or warned) and os.path.exists(output):
            what.check_found(output, done)
            resumed = what.go_on(output, fault)
            told += [resumed.stdout, resumed.stderr]
            what.check_whole(output, warned)
    except Exception as error:
        raise AssertionError("\n".join([name, *told, repr(error)])) from error
    shutil.rmtree(output, ignore_errors=True)
    shutil.rmtree(folder)
    end = {DONE: "warned" if warned else "done", CRASHED: "crashed"}.get(done.returncode, "exit %d" % done.returncode)
    return end, [line for line in done.stderr.splitlines() if line.startswith(("error: ", "warning: "))]


def fail_everywhere(scenario, sample, faults=FAULTS):
    """Tries `sample` of the cases, evenly distributed, or all."""
    if not os.path.exists(FAULTY):
        raise Skip("cifar-train-faulty was not built")
    counts = counts_of(scenario)
    cases = [(scenario, fault, at, seed) for fault in faults for at in range(counts[fault] + (fault == "power_loss"))
             for seed in range(SEEDS.get(fault, 1))]  # power_loss: also after the end
    some = cases if FULL else cases[len(cases) // sample // 2::len(cases) // sample]
    lost, table, lines = [], collections.Counter(), collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        for case, outcome in [(case, pool.submit(try_case, *case)) for case in some]:
            try:
                end, said = outcome.result()
            except AssertionError as error:
                lost.append(str(error))
                print("LOST", error, flush=True)
                continue
            table[case[1], end] += 1
            for line in said:
                lines[re.sub(r"'?/[^ ']*/", "", re.sub(r"\d+", "N", line))] += 1
    for (fault, end), count in sorted(table.items(), key=str) if FULL else ():
        print("%6d %-10s %s" % (count, fault, end))
    for line, count in lines.most_common() if FULL else ():
        print("%6d %s" % (count, line))
    print("%s: %d of %d cases, %d lost" % (scenario, len(some), len(cases), len(lost)), flush=True)
    expect_equal(len(lost), 0, *lost[:3])


@check
def a_start_with_its_saves():
    fail_everywhere("start", 24)


@check
def a_start_on_a_disk_that_fails_for_a_while():
    if not FULL:  # where it has tried these cases already
        fail_everywhere("start", 16, LASTING)


@check
def a_resume():
    fail_everywhere("resume", 24)


@check
def a_reset():
    fail_everywhere("reset", 16)


@check
def an_export():
    fail_everywhere("export", 8)


@check
def an_export_as_onnx():
    fail_everywhere("onnx", 8)


@check
def a_conversion():
    fail_everywhere("convert", 8)


@check
def an_import():
    fail_everywhere("import", 16)


@check
def a_checkpoint_that_cannot_be_read_is_not_called_damaged():
    """A fault that passes is none; one that lasts is of the disk (8), not of the checkpoint (5)."""
    def verified(fault, at):
        folder = path("verify-%s-%d-disk" % (fault, at))
        done = finish(start([FAULTY, "ckpt", "verify", whole()], env=fault_of(fault, at, 0, folder)))
        return (done, *report_of(folder))

    done, _, counts = verified("none", -1)
    expect_equal(done.returncode, DONE, done.stderr)
    ends = collections.Counter()
    for fault in ("eio", "estale", "lasting", "gone"):
        for at in range(0, counts[fault], 1 if FULL else 5):
            done, failed, _ = verified(fault, at)
            ends[fault, done.returncode] += 1
            expect(done.returncode in (DONE, IO), fault, at, failed, done.stdout, done.stderr)
            if done.returncode == IO:
                fails(IO, done, whole())
    expect(ends["eio", DONE] > 0 and ends["estale", DONE] > 0, "faults that pass", ends)
    expect(ends["lasting", IO] > 0 and ends["gone", IO] > 0, "faults that last", ends)


@functools.lru_cache(None)
def lost_best():
    """A run without its best.bin, of whose copies the newest is damaged; and the weights of the other one."""
    run = path("lost-best")
    train(run, {**settings(), "checkpoint.keep_last": 2, "train.best.metric": "loss", "optimizer.params.lr": 5,
                "train.epochs": 2, "train.max_steps": 6})
    copies = [os.path.join(run, "ckpt", "best-%08d.bin" % step) for step in (4, 6)]
    best = weights_sha256(copies[0])
    expect_equal(weights_sha256(copies[1]), best, "the best evaluation is not the first one")
    os.remove(os.path.join(run, "best.bin"))
    with open(copies[1], "rb") as file:
        data = bytearray(file.read())
    data[-1] ^= 1
    os.remove(copies[1])  # it may be one file with others
    with open(copies[1], "wb") as file:
        file.write(data)
    return run, best


def with_lost_best(fault, at, words_of):
    """What a command does with a copy of that run; and the copy."""
    run, report = path("lost-%s-%d" % (fault, at)), path("lost-%s-%d-disk" % (fault, at))
    shutil.rmtree(run, ignore_errors=True)
    shutil.copytree(lost_best()[0], run)
    done = finish(start([FAULTY, *words_of(run)], env=fault_of(fault, at, 0, report)))
    return done, run, *report_of(report)


@check
def a_copy_of_best_that_cannot_be_read_once_is_not_pruned():
    pruning = lambda run: ["ckpt", "prune", "--keep", "1", run]
    best = lost_best()[1]
    operations = with_lost_best("none", -1, pruning)[3]["eio"]
    for at in range(0 if FULL else operations - 30, operations):
        done, run, failed, _ = with_lost_best("eio", at, pruning)
        expect(done.returncode in (DONE, IO), at, failed, done.stdout, done.stderr)
        expect_equal(weights_sha256(os.path.join(run, "ckpt", "best-00000004.bin")), best, at, failed)
        shutil.rmtree(run)


@check
def a_copy_of_best_that_cannot_be_read_once_is_not_replaced():
    resuming = lambda run: ["--config", os.path.join(run, "config.yaml"), "--output", run]
    best = lost_best()[1]
    operations = with_lost_best("none", -1, resuming)[3]["eio"]
    for at in range(0, operations, 1 if FULL else 7):
        done, run, failed, _ = with_lost_best("eio", at, resuming)
        expect(done.returncode in (DONE, IO), at, failed, done.stdout, done.stderr)
        succeeds(*resuming(run))
        expect_equal(weights_sha256(os.path.join(run, "best.bin")), best, at, failed)
        shutil.rmtree(run)


main()
