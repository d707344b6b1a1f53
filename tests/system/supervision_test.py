"""A rank that dies, freezes or hangs ends the whole job at once, with one line that names it; a job asked to stop stops.

CIFAR_TRAIN_SUPERVISION: how many ranks are killed, frozen and jobs signalled (default 3 of each); "full" for 50, 40 and
100, and then with limits on the time that it takes, for a machine that does nothing else. CIFAR_TRAIN_SUPERVISION_SEED:
when.
"""
import ctypes
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import *

ASKED = os.environ.get("CIFAR_TRAIN_SUPERVISION", "3")
FULL = ASKED == "full"
KILLED, FROZEN, SIGNALLED = (50, 40, 100) if FULL else (int(ASKED),) * 3
NUMBERS = random.Random(int(os.environ.get("CIFAR_TRAIN_SUPERVISION_SEED", 1)))
HEARTBEAT = 1
ENDLESS = {**FEW, "train_batch_size": 48, "train.epochs": 10 ** 6, "train.max_steps": 10 ** 6, "train.save_interval": 10 ** 6,
           "train.eval_interval": 10 ** 6, "train.log_interval": 10 ** 6}
# What most of the time is spent on.
PHASES = {"step": {}, "save": {"train.save_interval": 1}, "evaluation": {"train.eval_interval": 1},
          "data": {"model.name": "linear", "data.augment": "[{random_crop: {padding: 4}}, {flip: {p: 0.5}}]"}}


def settings(phase="step", **changed):
    return {**ENDLESS, "data.path": few(400, 2000), **PHASES[phase], **dotted(changed)}


# ---- processes

def pids_by_rank(job, number):
    """{rank: pid} of the program's processes, once all exist and handle signals."""
    for _ in range(6000):
        found = {}
        for pid in ranks_of(job):
            try:
                with open("/proc/%d/status" % pid) as status:
                    caught = int(re.search(r"SigCgt:\s*(\w+)", status.read())[1], 16)
                rank = rank_of(pid)
            except OSError:
                continue
            if caught >> (signal.SIGUSR1 - 1) & 1:
                found[rank or 0] = pid
        if len(found) == number:
            return found
        if job.poll() is not None:
            raise AssertionError("the run ended before all ranks were there\n" + "\n".join(job.communicate()))
        time.sleep(0.005)
    raise AssertionError("not all ranks came up")


def alive(pid):
    try:
        with open("/proc/%d/stat" % pid) as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


class Job:
    """An endless run under mpirun, past its first step; killed at the end of the block in every case."""

    def __init__(self, name, number, sets, wrapper=(), from_step=1):
        self.output, self.number = path(name), number
        words = Ranks(number, mpi=True).words(*train_words(self.output, sets))
        at = words.index(PROGRAM)
        self.job = start(words[:at] + list(wrapper) + words[at:])
        self.pids = pids_by_rank(self.job, number)
        if from_step:
            wait_for_step(self.output, self.job, at_least=from_step)
            time.sleep(NUMBERS.uniform(0, 0.3))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for pid in [self.job.pid, *self.pids.values()]:
            if alive(pid):
                os.kill(pid, signal.SIGKILL)
        if self.job.poll() is None:
            self.job.communicate()

    def signal(self, rank, number):
        os.kill(self.pids[rank], number)

    def ends(self, code, *culprits, within=None):
        """Waits for the end of all ranks that are not stopped. Returns the error line."""
        begin = time.monotonic()
        done = finish(self.job, timeout=60)
        errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
        expect_equal(done.returncode, code, done.stderr)
        expect_equal(len(errors), 1, done.stderr)
        for culprit in culprits:
            expect(culprit in errors[0], "%r is not in %r" % (culprit, errors[0]))
        if FULL and within is not None:
            expect(time.monotonic() - begin <= within, "it took %.1f s" % (time.monotonic() - begin), errors[0])
        return errors[0]

    def stops(self):
        """The job was asked to stop, and stops correctly."""
        done = finish(self.job, timeout=60)
        expect_equal(done.returncode, STOPPED, done.stderr)
        expect("error:" not in done.stderr, done.stderr)
        expect_equal(done.stderr.count("stopped on request"), 1, done.stderr)
        steps = records(self.output, "step")
        expect_equal(max(checkpoints(self.output)), steps[-1]["step"] if steps else 0, "a checkpoint of another step")


def one_of(sequence):
    return sequence[NUMBERS.randrange(len(sequence))]


# ---- a rank is killed

@check
def ranks_killed():
    need_mpi()
    slowest = 0
    for i in range(KILLED):
        number, phase = 2 + i % 3, list(PHASES)[i % 4]
        with Job("killed-%d" % i, number, settings(phase)) as job:
            victim = NUMBERS.randrange(number)
            job.signal(victim, signal.SIGKILL)
            begin = time.monotonic()
            while any(alive(pid) for pid in job.pids.values()) and time.monotonic() - begin < 30:
                time.sleep(0.005)
            took = time.monotonic() - begin
            slowest = max(slowest, took)
            line = job.ends(128 + signal.SIGKILL, "rank %d (pid %d, host " % (victim, job.pids[victim]), "was lost",
                            "in phase ", "collective ")
            expect(took < (1.5 if FULL else 20), "survivors were there for %.2f s" % took, line)
        if i == 0:  # the remedy works
            reached = max(checkpoints(job.output))
            train(job.output, settings(phase, train__max_steps=reached + 2), ranks=Ranks(1))
            expect_equal(records(job.output, "end")[-1]["step"], reached + 2)
        shutil.rmtree(job.output)
    print("      survivors were gone %.2f s after the kill at the latest" % slowest)


@check
def survivors_exit_with_7():
    need_mpi()
    codes = path("codes")
    os.makedirs(codes)
    # mpirun's TERM is for the program, not for the shell that takes note of its exit code.
    wrapper = ["sh", "-c", 'trap "" TERM; "$@"; echo $? > %s/$OMPI_COMM_WORLD_RANK' % codes, "sh"]
    with Job("codes-of-survivors", 3, settings(), wrapper) as job:
        job.signal(1, signal.SIGKILL)
        for _ in range(1000):
            if all(os.path.exists(os.path.join(codes, str(r))) for r in range(3)):
                break
            time.sleep(0.01)
        finish(job.job)
    found = {}
    for rank in os.listdir(codes):
        with open(os.path.join(codes, rank)) as file:
            found[int(rank)] = int(file.read() or -1)
    expect_equal({r: c for r, c in found.items() if r != 1}, {0: LOST, 2: LOST})


# ---- a rank freezes or hangs

@check
def ranks_frozen():
    need_mpi()
    for i in range(FROZEN):
        number, phase = 2 + i % 2, list(PHASES)[i % 4]
        with Job("frozen-%d" % i, number, settings(phase, communication__heartbeat_s=HEARTBEAT)) as job:
            victim = NUMBERS.randrange(number)
            job.signal(victim, signal.SIGSTOP)
            # mpirun takes a second longer, to kill the one that does not react.
            job.ends(LOST, "rank %d (pid %d, host " % (victim, job.pids[victim]), "is silent for ", "in phase ",
                     within=HEARTBEAT + 2 + 2)
        shutil.rmtree(job.output)


@check
def a_rank_frozen_while_mpi_starts():
    """It stops before it is the program: the others wait for it in MPI_Init."""
    need_mpi()
    output = path("frozen-in-mpi")
    words = Ranks(2, mpi=True).words(*train_words(output, settings(), "--set", "communication.timeout_s=3"))
    at = words.index(PROGRAM)
    freezes = 'if [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then kill -STOP $$; fi; exec "$@"'
    done = finish(start([*words[:at], "sh", "-c", freezes, "sh", *words[at:]]), timeout=60)
    expect_equal(done.returncode, LOST, done.stderr)
    expect_match(done.stderr, r"error: rank 0 on host \S+: MPI did not start within 3 s: .*frozen")
    expect_equal(done.stderr.count("error: "), 1, done.stderr)
    expect(not os.path.exists(output), "it made the folder")


class StoppedThreads:
    """Threads of another process, stopped by ptrace; the other threads run."""
    SEIZE, INTERRUPT, WALL = 0x4206, 0x4207, 0x40000000

    def __init__(self, tids):
        self.tids, libc = tids, ctypes.CDLL(None, use_errno=True)
        libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        for tid in tids:
            if libc.ptrace(self.SEIZE, tid, None, None) != 0:
                raise Skip("ptrace is not permitted here (%s)" % os.strerror(ctypes.get_errno()))
            libc.ptrace(self.INTERRUPT, tid, None, None)

    def reap(self):
        """The parent is notified of a traced process's end only after its tracer."""
        for tid in self.tids:
            try:
                for _ in range(3000):
                    found, status = os.waitpid(tid, self.WALL | os.WNOHANG)
                    if found and (os.WIFEXITED(status) or os.WIFSIGNALED(status)):
                        break
                    time.sleep(0.01)
            except ChildProcessError:
                pass


@check
def a_main_thread_that_hangs():
    need_mpi()
    with Job("hanging", 3, settings(communication__timeout_s=2)) as job:
        threads = StoppedThreads([job.pids[1]])
        threads.reap()
        job.ends(LOST, "rank 1 (pid %d, host " % job.pids[1], "makes no progress for 2 s")


@check
def threads_that_hang():
    output = path("hanging-threads")
    job = start(Ranks(2).words(*train_words(output, settings(communication__timeout_s=2))))
    try:
        wait_for_step(output, job)

        def name(tid):
            with open("/proc/%d/task/%s/comm" % (job.pid, tid)) as file:
                return file.read().strip()
        tids = [int(t) for t in os.listdir("/proc/%d/task" % job.pid) if name(t) != "watchdog"]
        threads = StoppedThreads([tid for tid in tids if tid != job.pid])
        threads.reap()
        done = finish(job)
    finally:
        if job.poll() is None:
            job.kill()
            job.communicate()
    fails(LOST, done, "rank ", "pid %d" % job.pid, "makes no progress for 2 s")


# ---- no false alarm

@check
def a_slow_rank_is_no_lost_rank():
    need_mpi()
    with Job("slow", 2, settings(communication__heartbeat_s=HEARTBEAT, communication__timeout_s=5)) as job:
        for _ in range(80 if FULL else 30):  # a tenth of the time
            job.signal(1, signal.SIGSTOP)
            time.sleep(0.09)
            job.signal(1, signal.SIGCONT)
            time.sleep(0.01)
        os.kill(job.job.pid, signal.SIGUSR1)
        job.stops()


@check
def a_suspended_job_goes_on():
    need_mpi()
    with Job("suspended", 3, settings(communication__heartbeat_s=HEARTBEAT, communication__timeout_s=2)) as job:
        before = records(job.output, "step")[-1]["step"]
        for number in (signal.SIGSTOP, signal.SIGCONT):
            for rank in job.pids:
                job.signal(rank, number)
            time.sleep(3)
        wait_for_step(job.output, job.job, at_least=before + 2)
        os.kill(job.job.pid, signal.SIGUSR1)
        job.stops()


# ---- requests to stop

@check
def signals_in_every_phase():
    """To mpirun, which forwards them, or to one rank; once or twice; from the time when every rank is in main."""
    need_mpi()
    for i in range(SIGNALLED):
        number, phase = 2 + i % 2, list(PHASES)[i // 2 % 4]
        with Job("signalled-%d" % i, number, settings(phase), from_step=0) as job:
            to_one = NUMBERS.random() < 0.5
            which = one_of([signal.SIGUSR1, signal.SIGUSR2] + ([signal.SIGXCPU, signal.SIGTERM, signal.SIGINT] if to_one else []))
            target = one_of(list(job.pids.values())) if to_one else job.job.pid
            twice = which in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU) and NUMBERS.random() < 0.5
            time.sleep(one_of([0, NUMBERS.uniform(0, 0.2), NUMBERS.uniform(0, 2)]))
            for again in (False, True) if twice else (False,):
                if again:
                    time.sleep(NUMBERS.uniform(0, 0.05))
                try:
                    os.kill(target, which)
                except ProcessLookupError:  # it has stopped already
                    pass
            try:
                job.stops()
            except AssertionError as error:
                raise AssertionError("%s to %s%s, %d ranks, phase %s\n%s" % (
                    which.name, "one rank" if to_one else "mpirun", " twice" * twice, number, phase, error))
        shutil.rmtree(job.output)


@check
def two_terminations_at_once_are_one_request():
    """Of two that are further apart, the second ends the run at once: kill_test.py."""
    output = path("twice")
    job = start([PROGRAM, *train_words(output, settings())])
    pids_by_rank(job, 1)
    # Stopped, it hears both at the same time.
    os.kill(job.pid, signal.SIGSTOP)
    os.kill(job.pid, signal.SIGTERM)
    os.kill(job.pid, signal.SIGINT)
    os.kill(job.pid, signal.SIGCONT)
    done = finish(job)
    expect_equal(done.returncode, STOPPED, done.stderr)


main()
