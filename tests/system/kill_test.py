"""A run killed at any moment while it saves every step, on any number of ranks with any ZeRO stage, continues to the
same bits; a run asked to stop saves and says so (exit 75).

CIFAR_TRAIN_KILLS: how many runs are killed (default 5), CIFAR_TRAIN_KILL_SEED: when.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import *

KILLS = int(os.environ.get("CIFAR_TRAIN_KILLS", 5))
SEED = int(os.environ.get("CIFAR_TRAIN_KILL_SEED", 1))
STEPS = 120
SETTINGS = {**FEW, "train.epochs": 10, "train.max_steps": STEPS, "train.save_interval": 3, "train.eval_interval": 7,
            "train.log_interval": 50, "train.best.split": "test"}
RANKS = [Ranks(1), Ranks(2, mpi=True), Ranks(4), Ranks(4, mpi=True), Ranks(2)]


def settings(**changed):
    return {**SETTINGS, "data.path": few(), **dotted(changed)}


def usable_ranks():
    return RANKS if has_mpi() else [r for r in RANKS if not r.mpi]


@functools.lru_cache(None)
def whole():
    """The uninterrupted run's folder, and its duration."""
    begin = time.monotonic()
    train(path("whole"), settings())
    return path("whole"), time.monotonic() - begin


def state_of(pid):
    """A letter of /proc: T stopped, Z dead; X: gone. While other threads of a dead one end, it still has its files."""
    try:
        with open("/proc/%d/stat" % pid) as stat:
            state = stat.read().rsplit(")", 1)[1].split()[0]
        return "R" if state == "Z" and len(os.listdir("/proc/%d/task" % pid)) > 1 else state
    except OSError:
        return "X"


def wait_for_state(pid, states):
    for _ in range(15000):  # 30 s, of which a pause of the machine uses nothing
        state = state_of(pid)
        if state in states:
            return
        time.sleep(0.002)
    raise AssertionError("process %d is in state %s" % (pid, state))


def kill_all(job):
    """Stops the launcher before listing its children, so that it starts no more, and kills all. Returns when all are
    dead: a process that is ending still has its files and locks."""
    os.kill(job.pid, signal.SIGSTOP)
    wait_for_state(job.pid, "TZX")
    pids = [job.pid, *children(job.pid)]
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    job.communicate()
    for pid in pids:
        wait_for_state(pid, "ZX")


@check
def killed_at_random_moments():
    numbers, kills, turn, longest = random.Random(SEED), 0, 0, 1.5 * whole()[1]
    while kills < KILLS:
        output, history = path("killed-%d" % turn), []
        while True:
            ranks = usable_ranks()[turn % len(usable_ranks())]
            stage = numbers.randrange(4)
            changed = settings(train__save_interval=1, zero_optimization__stage=stage)
            moment = numbers.uniform(0, longest)
            turn += 1
            job = start(ranks.words(*train_words(output, changed)))
            try:
                code = job.wait(moment if kills < KILLS else 120)
            except subprocess.TimeoutExpired:
                kill_all(job)
                kills += 1
                history.append("%s, stage %d, killed after %.3f s" % (ranks, stage, moment))
                continue
            text = "\n".join([*history, str(ranks), *job.communicate()])
            expect_equal(code, DONE, text)
            expect_same_result(output, result(whole()[0]), text)
            for name in ("last.bin", "best.bin"):
                expect_equal(weights_sha256(os.path.join(output, name)), weights_sha256(path("whole", name)), name, text)
            expect_equal(run("ckpt", "verify", output).returncode, DONE, text)
            hidden = [n for n in os.listdir(os.path.join(output, "ckpt")) if n.startswith(".")]
            expect_equal(hidden, [], "left behind", text)
            break


def stopped_and_resumed(name, ranks, number, to_all=False, code=STOPPED, words=()):
    """Asks a running job to stop. It must end with the code and continue to the same result. mpirun forwards USR1 and
    USR2 but not TERM: TERM goes to the ranks, as from a scheduler."""
    output = path(name)
    long = settings(train__max_steps=10 ** 6, train__epochs=10 ** 6, train__eval_interval=10 ** 6)
    job = start(ranks.words(*train_words(output, long, *words)))
    wait_for_step(output, job)
    for pid in ranks_of(job) if to_all else [job.pid]:
        os.kill(pid, number)
    done = finish(job, timeout=20)
    expect_equal(done.returncode, code, done.stdout, done.stderr)
    expect("error:" not in done.stderr, done.stderr)
    expect_equal(done.stderr.count("stopped on request"), 1, done.stderr)
    expect(("run the same command again without --reset to continue" in done.stderr) == ("--reset" in words), done.stderr)
    step = records(output, "step")[-1]["step"]
    expect_equal(max(checkpoints(output)), step, "the checkpoint is not that of the last step")
    expect_equal([(r["step"], r["reason"]) for r in records(output, "end")], [(step, "stopped")])
    until = settings(train__max_steps=step + 5, train__epochs=10 ** 6, train__eval_interval=10 ** 6)
    train(output, until, ranks=Ranks(2 if ranks.number == 1 else 1))
    train(output + "-whole", until)
    expect_same_result(output, result(output + "-whole"), "stopped at step %d" % step)


@check
def usr1_on_1_rank():
    stopped_and_resumed("usr1", Ranks(1), signal.SIGUSR1)


@check
def usr2_on_2_threads():
    stopped_and_resumed("usr2", Ranks(2), signal.SIGUSR2, words=("--reset",))


@check
def term_on_2_threads():
    stopped_and_resumed("term", Ranks(2), signal.SIGTERM)


@check
def int_on_1_rank():
    stopped_and_resumed("int", Ranks(1), signal.SIGINT)


@check
def terminal_signals_ignored_by_the_parent_stay_ignored():
    output = path("ignored")
    endless = settings(train__max_steps=10 ** 6, train__epochs=10 ** 6, train__eval_interval=10 ** 6)
    job = start([PROGRAM, *train_words(output, endless)], prefix=["sh", "-c", "trap '' INT HUP; exec \"$@\"", "sh"])
    wait_for_step(output, job)
    for number in (signal.SIGINT, signal.SIGINT, signal.SIGHUP):
        os.kill(job.pid, number)
    wait_for_step(output, job, at_least=records(output, "step")[-1]["step"] + 2)
    os.kill(job.pid, signal.SIGTERM)
    done = finish(job, timeout=20)
    expect_equal(done.returncode, STOPPED, done.stdout, done.stderr)


AS_LEFT_BY_A_DAEMON = ["python3", "-c", "import os, signal, sys\n"
                       "signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
                       "signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())\n"
                       "os.execv(sys.argv[1], sys.argv[1:])"]


@check
def requests_that_the_parent_holds_back_stop_a_run():
    output = path("held-back")
    endless = settings(train__max_steps=10 ** 6, train__epochs=10 ** 6, train__eval_interval=10 ** 6)
    job = start([PROGRAM, *train_words(output, endless)], prefix=AS_LEFT_BY_A_DAEMON)
    wait_for_step(output, job)
    os.kill(job.pid, signal.SIGTERM)
    done = finish(job, timeout=20)
    expect_equal(done.returncode, STOPPED, done.stdout, done.stderr)


@check
def the_ends_of_children_are_seen_where_the_parent_ignores_them():
    short = settings(train__max_steps=4)
    for words in (["sweep", *train_words(path("children"), short, "--grid", "seed=1,2")],
                  ["launch", "--no_ssh", "--num_gpus", "2", *train_words(path("ranks"), short)]):
        done = finish(start([PROGRAM, *words], prefix=AS_LEFT_BY_A_DAEMON), timeout=60)
        expect_equal(done.returncode, DONE, done.stdout, done.stderr)


@check
def xcpu_on_1_rank():
    stopped_and_resumed("xcpu", Ranks(1), signal.SIGXCPU)


@check
def usr1_through_mpirun():
    need_mpi()
    stopped_and_resumed("usr1-mpi", Ranks(2, mpi=True), signal.SIGUSR1)


@check
def term_to_the_ranks_of_mpirun():
    need_mpi()
    stopped_and_resumed("term-mpi", Ranks(2, mpi=True), signal.SIGTERM, to_all=True)


@check
def usr1_to_one_rank_of_mpirun_stops_all():
    need_mpi()
    output = path("usr1-one")
    job = start(Ranks(2, mpi=True).words(*train_words(output, settings(train__max_steps=10 ** 6, train__epochs=10 ** 6))))
    wait_for_step(output, job)
    os.kill(ranks_of(job)[-1], signal.SIGUSR1)
    done = finish(job, timeout=20)
    expect_equal(done.returncode, STOPPED, done.stderr)


@check
def requeue_code_99():
    stopped_and_resumed("requeue", Ranks(2), signal.SIGUSR1, code=99, words=("--requeue-code", "99"))
    if has_mpi():
        stopped_and_resumed("requeue-mpi", Ranks(2, mpi=True), signal.SIGUSR1, code=99, words=("--requeue-code", "99"))


@check
def repeated_usr1_changes_nothing():
    output = path("repeated")
    job = start(Ranks(1).words(*train_words(output, settings(train__max_steps=10 ** 6, train__epochs=10 ** 6))))
    wait_for_step(output, job)
    for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU, signal.SIGTERM):
        os.kill(job.pid, number)
    expect_equal(finish(job).returncode, STOPPED)


def second_signal_stops_now(name, first, second):
    """Two TERM in one step: a step of 50,000 images on one rank is long enough for both."""
    slow = {"data.dataset": "synthetic", "data.path": synthetic(), "train_batch_size": 50000, "train.epochs": 10 ** 6,
            "train_micro_batch_size_per_gpu": 50, "steps_per_print": 1, "train.save_interval": 10 ** 6,
            "train.eval_interval": 10 ** 6}
    job = start(Ranks(1).words(*train_words(path(name), slow)))
    wait_until(lambda: os.path.isdir(path(name, "ckpt", "step-00000000")), job)
    time.sleep(0.1)
    os.kill(job.pid, first)
    time.sleep(0.7)
    os.kill(job.pid, second)
    done = finish(job)
    expect_equal(done.returncode, 128 + second, done.stderr)
    expect_equal(run("ckpt", "verify", path(name)).returncode, DONE, "something was lost")


@check
def one_term_that_comes_twice_at_once_is_one():
    """As timeout sends it."""
    output = path("twice")
    job = start(Ranks(1).words(*train_words(output, settings(train__max_steps=10 ** 6, train__epochs=10 ** 6))))
    wait_for_step(output, job)
    for _ in range(3):
        os.kill(job.pid, signal.SIGTERM)
        time.sleep(0.01)
    expect_equal(finish(job).returncode, STOPPED)


@check
def a_second_term_stops_now():
    second_signal_stops_now("second-term", signal.SIGTERM, signal.SIGTERM)


@check
def int_after_term_stops_now():
    second_signal_stops_now("second-int", signal.SIGTERM, signal.SIGINT)


@check
def a_killed_rank_ends_the_job():
    need_mpi()
    output = path("one-rank-killed")
    job = start(Ranks(2, mpi=True).words(*train_words(output, settings(train__max_steps=10 ** 6, train__epochs=10 ** 6))))
    wait_for_step(output, job, at_least=5)
    os.kill(ranks_of(job)[-1], signal.SIGKILL)
    done = finish(job, timeout=30)
    expect(done.returncode != DONE, done.stderr)
    expect_equal(children(job.pid), [])
    changed = settings(train__max_steps=records(output, "step")[-1]["step"] + 3, train__epochs=10 ** 6)
    train(output, changed)
    train(output + "-whole", changed)
    expect_same_result(output, result(output + "-whole"))


main()
