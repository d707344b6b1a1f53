"""One configuration, trained again and again under disturbances; tools/soak.sh starts it."""
import argparse
import os
import statistics
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system", "lib"))
import clock
from harness import *

STEPS = 400
SETTINGS = {**FEW, "train_batch_size": 48, "train.max_steps": STEPS, "train.epochs": 100, "train.eval_interval": 25,
            "train.save_interval": 1, "steps_per_print": 50, "checkpoint.keep_last": 2}
ROOM = 10 << 20  # bytes of the run's file system
SOON = 3  # seconds after a start at which the first disturbance comes at the latest
TRAINS = 8000  # bytes of records after which a start has trained for some steps: its first record has 6,000
FEWEST = 5  # samples of a quarter that are compared
# Samples are of different stages and moments, so that the medians of few of them differ by some percent without a leak.
MOST_GROWTH = 1.05
LATE = 600  # seconds after which a run that does not end is a failure
STUCK = 60  # seconds without a rank after which mpirun is killed


class Folder:
    """Where the run lies: a small file system of its own if this process may mount one."""

    def __init__(self):
        self.at = path("small")
        os.mkdir(self.at)
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=%d" % ROOM, "soak", self.at], capture_output=True)
        self.is_small = mounted.returncode == 0

    def close(self):
        if self.is_small:
            subprocess.run(["umount", "-l", self.at], check=True)

    def fill(self, seconds):
        with open(os.path.join(self.at, "filler"), "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(1 << 16))
            except OSError:
                pass
            time.sleep(seconds)
        os.remove(file.name)


def undisturbed():
    """The folder of a run that keeps a checkpoint of each step, and its duration."""
    output, begin = path("undisturbed"), time.monotonic()
    words = train_words(output, {**SETTINGS, "data.path": few(), "checkpoint.keep_last": STEPS + 1})
    done = finish(start(Ranks(1).words(*words)), timeout=LATE)
    expect_equal(done.returncode, DONE, done.stderr)
    expect_equal(checkpoints(output), list(range(STEPS + 1)))
    return output, time.monotonic() - begin


def signalled(pids, number):
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


class Soak:
    def __init__(self, minutes, seed):
        self.numbers = random.Random(seed)
        self.end = time.monotonic() + 60 * minutes
        self.folder = Folder()
        self.output = os.path.join(self.folder.at, "run")
        self.counts = {}          # disturbances by kind
        self.wholes = 0           # runs that reached their end
        self.stuck = 0            # mpirun that did not end with its ranks
        self.samples = []         # of each start: (ranks and kind, peak resident bytes, descriptors)
        self.sizes = []           # bytes of the run's folder without records, at each end of a run
        self.shared = []          # names in /dev/shm after each start

    # A disturbance of a job that runs. It returns the exit codes that the job may have.

    def kill_all(self, job):
        signalled([job.pid], signal.SIGSTOP)
        signalled([*children(job.pid), job.pid], signal.SIGKILL)
        return None

    def kill_a_rank(self, job):
        ranks = ranks_of(job)
        signalled(self.numbers.sample(ranks, min(1, len(ranks))), signal.SIGKILL)
        return None

    def stop_on_request(self, job):
        """mpirun forwards USR1 and USR2, not TERM."""
        number = self.numbers.choice([signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM])
        signalled(ranks_of(job) if number == signal.SIGTERM else [job.pid], number)
        return None

    def suspend_all(self, job):
        pids = [job.pid, *children(job.pid)]
        signalled(pids, signal.SIGSTOP)
        time.sleep(self.numbers.uniform(0.1, 2))
        signalled(pids, signal.SIGCONT)
        return {DONE}

    def suspend_a_rank(self, job):
        ranks = ranks_of(job)
        if ranks:
            rank = self.numbers.choice(ranks)
            signalled([rank], signal.SIGSTOP)
            time.sleep(self.numbers.uniform(0.1, 2))
            signalled([rank], signal.SIGCONT)
        return {DONE}

    def fill_the_disk(self, job):
        seconds = self.numbers.uniform(0.2, 2)
        if self.folder.is_small:
            self.folder.fill(seconds)
        else:
            for limit in ("1000:", "unlimited:"):
                for rank in ranks_of(job):
                    subprocess.run(["prlimit", "--pid", str(rank), "--fsize=" + limit], capture_output=True)
                time.sleep(seconds)
        return {DONE, IO}  # the last save may fail

    def set_the_clock(self, job):
        clock.set_to(path("time"), "%+d" % self.numbers.randint(-10 ** 6, 10 ** 6))
        return {DONE}

    def kinds(self):
        return [self.kill_all, self.kill_a_rank, self.stop_on_request, self.suspend_all, self.suspend_a_rank,
                self.fill_the_disk, *([self.set_the_clock] if clock.LIBRARY else [])]

    # ----

    def start(self):
        number = self.numbers.choice([1, 2, 3, 4])
        ranks = Ranks(number, mpi=number > 1 and has_mpi() and self.numbers.random() < 0.5)
        settings = {**SETTINGS, "data.path": few(), "zero_optimization.stage": self.numbers.randrange(4)}
        self.before = self.records_size()
        self.what = "%s, stage %d" % (ranks, settings["zero_optimization.stage"])
        clock.set_to(path("time"), "+0")
        env = clock.environment(path("time")) if clock.LIBRARY else {}
        return repr(ranks), start(ranks.words(*train_words(self.output, settings)), env=env)

    def records_size(self):
        try:
            return os.path.getsize(os.path.join(self.output, "metrics.jsonl"))
        except FileNotFoundError:
            return 0

    def sample(self, ranks, job):
        """Of a run that trains: before, it has not yet allocated everything."""
        if self.records_size() < self.before + TRAINS:
            return
        for pid in ranks_of(job)[:1]:
            try:
                with open("/proc/%d/status" % pid) as status:
                    peak = int(re.search(r"VmHWM:\s+(\d+)", status.read())[1])
                self.samples.append((ranks, peak, len(os.listdir("/proc/%d/fd" % pid))))
            except (OSError, TypeError):  # it has ended
                pass

    def end_a_stuck_mpirun(self, job):
        """An mpirun of Open MPI 4.1 may wait forever for a rank that was killed while it connected (PMIX ERROR:
        UNREACHABLE), although all ranks have ended: it is killed, and counted."""
        lived = time.monotonic()
        while job.poll() is None:
            if ranks_of(job):
                lived = time.monotonic()
            elif time.monotonic() - lived > STUCK:
                self.stuck += 1
                job.kill()
            time.sleep(1)

    def disturb_once(self, longest):
        """One start. Returns whether the run has ended."""
        ranks, job = self.start()
        history, allowed = [self.what], {DONE}
        while allowed and job.poll() is None:
            try:
                job.wait(self.numbers.uniform(0, longest))
                break
            except subprocess.TimeoutExpired:
                pass
            self.sample(ranks, job)
            kind = self.numbers.choice(self.kinds())
            codes = kind(job)
            allowed = codes and allowed | codes
            self.counts[kind.__name__] = self.counts.get(kind.__name__, 0) + 1
            history.append(kind.__name__)
        threading.Thread(target=self.end_a_stuck_mpirun, args=(job,), daemon=True).start()
        try:
            done = finish(job, timeout=LATE)
        except AssertionError as late:
            raise AssertionError("\n".join([*history, str(late)])) from None
        text = "\n".join([*history, done.stdout, done.stderr])
        if allowed:
            expect(done.returncode in allowed, "exit code %d" % done.returncode, text)
        expect(done.returncode != BUG and "terminate called" not in done.stderr, text)
        return done.returncode == DONE, text

    def compare(self, text):
        """Weights and moments of all checkpoints are those of the undisturbed run. The rest of the state also knows
        which save of best.bin failed on a full disk."""
        if not os.path.isdir(os.path.join(self.output, "ckpt")):
            return
        for step in checkpoints(self.output):
            name = os.path.join("ckpt", "step-%08d" % step)
            shown = run("ckpt", "diff", os.path.join(self.undisturbed, name), os.path.join(self.output, name)).stdout
            expect(": 0 of " in shown, shown, text)

    def run(self):
        begin = time.monotonic()
        self.undisturbed, seconds = undisturbed()
        expected = result(self.undisturbed)
        longest = min(seconds, SOON)
        while time.monotonic() < self.end:
            ended, text = self.disturb_once(longest)
            self.compare(text)
            self.shared.append(sum(re.match("cifar-train-(?!test)", name) is not None for name in os.listdir("/dev/shm")))
            if ended:
                expect_same_result(self.output, expected, text)
                self.sizes.append(sum(os.path.getsize(os.path.join(at, name))
                                      for at, _, names in os.walk(self.output) if not at.endswith("tb")
                                      for name in names if not name.startswith("metrics.")))
                shutil.rmtree(self.output)
                self.wholes += 1
                print("%4d min: %d disturbances, %d whole runs" % (
                    (time.monotonic() - begin) / 60, sum(self.counts.values()), self.wholes), flush=True)
        for name in os.listdir("/dev/shm"):  # what libfaketime leaves of processes that were killed
            of_faketime = re.match(r"(sem\.)?faketime_\w+_(\d+)$", name)
            if of_faketime and not os.path.exists("/proc/" + of_faketime[2]):
                os.remove("/dev/shm/" + name)
        self.report()

    def report(self):
        """Fails if something has grown from the second quarter to the last, and says what could not be compared."""
        for name, count in sorted(self.counts.items()):
            print("%-16s %5d" % (name, count))
        if self.stuck:
            print("mpirun did not end with its ranks %d times" % self.stuck)
        grown, uncompared, few_of = [], [], set()
        # A sample may meet a file that is open for a moment: one descriptor more is no leak.
        for number, unit, moment in ((1, "KiB of peak memory", 0), (2, "descriptors", 1)):
            ratios = []
            for ranks in sorted({sample[0] for sample in self.samples}):
                of = [sample[number] for sample in self.samples if sample[0] == ranks]
                quarter = len(of) // 4
                if quarter < FEWEST:
                    few_of.add(ranks)
                else:
                    a, b = statistics.median(of[quarter:2 * quarter]), statistics.median(of[-quarter:])
                    ratios.append("%s %d -> %d" % (ranks, a, b))
                    if b > MOST_GROWTH * a + moment:
                        grown.append("%s of %s" % (unit, ranks))
            print("%s: %s" % (unit, "; ".join(ratios) or "too few samples"))
        if few_of or not self.samples:
            uncompared.append("memory and descriptors of " + (", ".join(sorted(few_of)) or "any run"))
        for series, unit in ((self.sizes, "bytes of the run's folder"), (self.shared, "names in /dev/shm")):
            if len(series) < 4:
                uncompared.append(unit)
            else:
                a, b = max(series[:len(series) // 2]), max(series[len(series) // 2:])
                print("%s: at most %d, then %d" % (unit, a, b))
                if b > 1.01 * a:
                    grown.append(unit)
        expect(not grown, "grown: " + "; ".join(grown))
        growth = "nothing grew"
        if uncompared:
            growth = "but too few samples to compare %s: run it longer" % ", ".join(uncompared)
        print("%d disturbances, %d whole runs: every checkpoint is the undisturbed run's, %s%s" % (
            sum(self.counts.values()), self.wholes, growth, "" if clock.LIBRARY else " (without jumps of the clock)"))


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--minutes", type=float, default=60)
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    soak = Soak(given.minutes, given.seed)
    try:
        soak.run()
    finally:
        soak.folder.close()
        shutil.rmtree(scratch(), ignore_errors=True)


main()
