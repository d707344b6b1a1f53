"""Standard streams that are closed, full or left by their reader, files that may not grow, and pipes in place of input
files: a message, and no loss."""
import contextlib
import fcntl
import os
import resource
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import *

CLOSED, FULL = ">&-", ">/dev/full"
LOST = "warning: standard output cannot be written"


def settings(**changed):
    return {**FEW, "data.path": few(), "train.max_steps": 12, "train.log_interval": 8, **dotted(changed)}


@functools.lru_cache(None)
def whole():
    train(path("whole"), settings())
    return path("whole")


def with_streams(redirections, before=""):
    """The command that starts a program with these redirections of a shell; `before`: commands of the shell before
    it."""
    return ["sh", "-c", before + 'exec "$@" ' + redirections, "sh"]


def expect_a_good_run(output, done, *what):
    expect_equal(done.returncode, DONE, done.stderr, *what)
    expect_same_result(output, result(whole()), *what)
    with open(os.path.join(output, ".lock")) as lock, open(os.path.join(whole(), ".lock")) as usual:
        expect_equal(len(lock.read().splitlines()), len(usual.read().splitlines()), "chatter in the lock", *what)


@check
def no_file_becomes_a_closed_stream():
    whole()
    for i, closed in enumerate(["<&- >&-", "<&- 2>&-", ">&- 2>&-", "<&- >&- 2>&-"]):
        output = path("closed-%d" % i)
        done = finish(start([PROGRAM, *train_words(output, settings())], prefix=with_streams(closed)))
        expect_a_good_run(output, done, closed)
        expect_equal(done.stderr.count(LOST), 1 if closed == "<&- >&-" else 0, closed)


@check
def no_file_of_a_rank_becomes_a_closed_stream():
    need_mpi()
    output = path("closed-ranks")
    done = finish(start(["mpirun", "-np", 2, *with_streams("<&- >&- 2>&-"), PROGRAM, *train_words(output, settings())]))
    expect_a_good_run(output, done)


@check
def output_that_cannot_be_written_is_named_with_its_reason():
    weights = os.path.join(whole(), "best.bin")
    for words in (["--help"], ["--version"], ["train", "--help"], ["train", "--print-config", "--config", DEFAULT],
                  ["config", "show", "--config", DEFAULT], ["eval", "--ckpt", weights], ["ckpt", "ls", whole()],
                  ["eval", "--ckpt", weights, "--json"], ["ckpt", "inspect", weights], ["ckpt", "verify", whole()],
                  ["data", "--help"], ["estimate", "--config", DEFAULT], ["doctor"]):
        for to, before, reason in [(CLOSED, "", "Bad file descriptor"), (FULL, "", "No space left on device"),
                                   (">" + path("limited"), "ulimit -f 0; ", "File too large")]:
            fails(IO, run(*words, prefix=with_streams(to, before)), "standard output", reason)
    for name in "/dev/stdout", "/dev/fd/1":
        fails(IO, run("export", whole(), "--out", name, prefix=with_streams(CLOSED)), name, "is closed")


@check
def a_pipe_that_does_not_wait_is_waited_for():
    from_program, to_reader = os.pipe()
    os.set_blocking(to_reader, False)
    filled = os.write(to_reader, bytes(1 << 20))
    job = start([PROGRAM, "--help"], prefix=with_streams(">&%d" % to_reader), pass_fds=[to_reader])
    os.close(to_reader)
    time.sleep(0.3)  # it would have given up
    with open(from_program, "rb") as reader:
        text = reader.read()
    done = finish(job)
    expect_equal(done.returncode, DONE, done.stderr)
    expect_equal(text[filled:].decode(), run("--help").stdout)


@contextlib.contextmanager
def piped(content):
    """The name of a pipe's end as from a shell's <(...), and options of start() that pass it on."""
    end, other = os.pipe()
    writer = os.fdopen(other, "wb")
    feeding = threading.Thread(target=lambda: (writer.write(content), writer.close()))
    feeding.start()
    try:
        yield "/dev/fd/%d" % end, {"pass_fds": [end]}
    finally:
        os.close(end)
        feeding.join()


@check
def inputs_come_through_pipes():
    with open(DEFAULT, "rb") as file:
        default = file.read()
    usual = run("config", "show", DEFAULT).stdout
    with piped(default) as (name, options):
        done = run("config", "show", name, **options)
        expect_equal(re.sub("(?m) +#.*", "", done.stdout), re.sub("(?m) +#.*", "", usual), done.stderr)
        fails(USAGE, run("config", "show", name, **options), name, "this pipe is empty")
    with piped(b'{"steps_per_print": 7}') as (name, options):
        done = run("config", "show", DEFAULT, "--deepspeed_config", name, **options)
        expect("steps_per_print: 7" in done.stdout, done.stdout, done.stderr)
    with piped(b"PATH_TO_CONFIG_FILE=tutorial.yaml\n") as (name, options):
        done = run("train", "--print-config", "--ranks", "1", "--env", name, **options)
        expect("type: SGD" in done.stdout, done.stdout, done.stderr)
    with piped(b"a slots=3\n") as (hosts, options), piped(b"A=1\n") as (variables, more):
        done = run("launch", "--no_ssh", "--dry-run", "-H", hosts, env={"DS_ENV_FILE": variables},
                   pass_fds=options["pass_fds"] + more["pass_fds"])
        expect_equal(len(re.findall("A=1 .* WORLD_SIZE=3 ", done.stdout)), 3, done.stdout, done.stderr)


@check
def files_read_more_than_once_cannot_be_pipes():
    with open(DEFAULT, "rb") as file:
        default = file.read()
    for words in [["sweep", "--grid", "seed=1,2", "--output", path("sweep")], ["jobscript", "--scheduler", "slurm", "--time", "1h"]]:
        with piped(default) as (name, options):
            fails(USAGE, run(*words, "--config", name, **options), name, "is a pipe, which can be read once")
    with piped(default) as (name, options):
        fails(USAGE, run("train", "--config", name, env={"RANK": "0", "WORLD_SIZE": "2"}, **options), name, "each rank would read it")
        fails(USAGE, run("launch", "--launcher", "slurm", "--num_gpus", "2", "train", "--config=" + name, **options), name,
              "is a pipe, which can be read once, and each rank would read it")
    fails(USAGE, run("train", "--config", "/dev/fd/63"), "--config '/dev/fd/63': no file is open here", "write its text into a file")
    with open(os.path.join(whole(), "best.bin"), "rb") as file:
        weights = file.read()
    with piped(weights[:4096]) as (name, options):
        fails(IO, run("eval", "--ckpt", name, **options), name, "not a regular file")


@check
def a_pipe_reaches_no_ranks_of_mpirun():
    need_mpi()
    for option in ["--config", "--deepspeed_config", "--env"]:
        with piped(b"") as (name, options):
            done = run("launch", "--num_gpus", "2", "train", option, name, **options)
            fails(USAGE, done, name, "is a pipe, which can be read once, and each rank would read it")
            expect_equal(len(done.stderr.splitlines()), 1, "mpirun was started", done.stderr)
    with piped(b"") as (name, options):
        done = finish(start(["mpirun", "-np", 2, PROGRAM, "train", "--config", name], **options))
        expect("write its text into a file" in done.stderr, done.stderr)


@check
def a_stuck_pipe_is_named():
    pipe = path("stuck")
    os.mkfifo(pipe)
    job = start([PROGRAM, "config", "check", pipe])
    expect_equal(job.stderr.readline(), "waiting for '%s': this pipe delivers nothing\n" % pipe)
    with open(DEFAULT) as file, open(pipe, "w") as writer:
        writer.write(file.read())
    expect_equal(finish(job).returncode, DONE)


@check
def training_goes_on_without_its_output():
    for i, to in enumerate([FULL, CLOSED]):
        output = path("unwritten-%d" % i)
        done = finish(start([PROGRAM, *train_words(output, settings())], prefix=with_streams(to)))
        expect_a_good_run(output, done, to)
        expect_equal(done.stderr.count(LOST), 1, done.stderr)


class NoReader:
    """A pipe whose reader is closed."""

    def __enter__(self):
        gone, self.end = os.pipe()
        os.close(gone)
        return self

    def __exit__(self, *_):
        os.close(self.end)

    def start(self, words, streams=">&%d", before=""):
        return start(words, prefix=with_streams(streams.replace("%d", str(self.end)), before), pass_fds=[self.end])


@check
def training_outlives_its_reader():
    with NoReader() as pipe:
        for i, (streams, warnings) in enumerate([(">&%d", 1), (">&%d 2>&%d", 0), (">&%d 2>&-", 0)]):
            output = path("left-%d" % i)
            done = finish(pipe.start([PROGRAM, *train_words(output, settings())], streams))
            expect_a_good_run(output, done, streams)
            expect_equal(done.stderr.count(LOST), warnings, done.stderr)
    # The first line still arrives.
    output = path("head")
    job = start([PROGRAM, *train_words(output, settings())])
    expect_equal(job.stdout.readline(), "[1,     8] loss: %.3f\n" % records(output, "step")[0]["loss"])
    job.stdout.close()
    job.stdout = None
    expect_a_good_run(output, finish(job))


@check
def training_outlives_a_reader_that_stalls():
    for streams in (">&%d", ">&%d 2>&%d"):
        reader, end = os.pipe()
        fcntl.fcntl(end, 1031, 16384)  # F_SETPIPE_SZ
        output = path("stalled-%d" % len(streams))
        sets = settings(train__log_interval=8, train__max_steps=1500, train__epochs=1000, train__eval_interval=1000, communication__timeout_s=5)
        job = start([PROGRAM, *train_words(output, sets)], prefix=with_streams(streams.replace("%d", str(end))),
                    pass_fds=[end])
        os.close(end)
        wait_for_step(output, job, at_least=1000)
        text, part = "", b"-"
        while part:  # now it reads
            part = os.read(reader, 1 << 16)
            text += part.decode()
        os.close(reader)
        done = finish(job)
        expect_equal(done.returncode, DONE, text, done.stderr)
        expect_match(text + done.stderr, r"(?m)^warning: standard (output|error) was not read: \d+ bytes were dropped$")
        expect_in("[1,     8] loss: ", text)
        expect_in("\nFinished Training\n", text)
        for line in text.splitlines():
            expect_match(line, r"^(\[\d+, +\d+\] loss: \d\.\d{3}|[^\[].*)$")


@check
def verbs_that_only_print_end_with_their_reader():
    weights = os.path.join(whole(), "best.bin")
    with NoReader() as pipe:
        for words in ["eval", "--ckpt", weights], ["ckpt", "inspect", weights], ["train", "--print-config", "--config",
                                                                                 DEFAULT]:
            done = finish(pipe.start([PROGRAM, *words]))
            expect_equal(done.returncode, -signal.SIGPIPE, words, done.stderr)
            expect("error" not in done.stderr, done.stderr)
            fails(IO, finish(pipe.start([PROGRAM, *words], before="trap '' PIPE; ")), "standard output", "Broken pipe")


# ---- files that may not grow

def limited(words, file_bytes):
    return finish(start(words, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))))


@check
def a_limit_of_file_sizes_is_a_failed_write():
    weights, kilobyte = os.path.join(whole(), "best.bin"), 1 << 10
    reasons = ["File too large", "ulimit -f"]
    for file_bytes in 0, 8 * kilobyte:
        fails(IO, limited([PROGRAM, *train_words(path("no-room"), settings())], file_bytes), *reasons)
    fails(IO, limited([PROGRAM, "data", "synth", "--out", path("no-room-data")], 100 * kilobyte), *reasons)
    expect(not os.path.exists(path("no-room-data")), "a folder was left")
    out = path("no-room.safetensors")
    fails(IO, limited([PROGRAM, "export", "--ckpt", weights, "--out", out], 100 * kilobyte), "no-room", *reasons)
    expect(not os.path.exists(out))
    # A set that cannot be written is kept in memory, which is said.
    os.makedirs(path("small"))
    sets = {"data.path": path("small"), "data.dataset": "synthetic", "train.max_steps": 1}
    done = limited([PROGRAM, *train_words(path("in-memory"), sets)], 4 << 20)
    expect_equal(done.returncode, DONE, done.stderr)
    expect("in memory (" in done.stderr and "ulimit -f" in done.stderr, done.stderr)


def limit_while_training(ranks, asynchronous):
    """A run reaches a limit: it warns and continues; when asked to stop, it cannot save."""
    output = path("limited-%d-%s" % (ranks.number, asynchronous))
    sets = settings(train__max_steps=100000, train__epochs=100000, train__save_interval=5,
                    checkpoint__asynchronous=asynchronous, train__eval_interval=100000)
    job = start(ranks.words(*train_words(output, sets)))
    while job.poll() is None and not (os.path.isdir(os.path.join(output, "ckpt")) and checkpoints(output)):
        time.sleep(0.01)
    for pid in [job.pid, *children(job.pid)]:
        if os.path.basename(PROGRAM) in os.path.basename(os.readlink("/proc/%d/exe" % pid)):
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
    read = []
    for line in job.stderr:
        read.append(line)
        if line.startswith("warning: no checkpoint was saved"):
            break
    expect(read[-1:] and "File too large" in read[-1], ranks, "".join(read))
    job.send_signal(signal.SIGUSR1)
    fails(IO, finish(job), "File too large", "ulimit -f")
    # What was saved before is whole.
    sets["train.max_steps"] = checkpoints(output)[-1] + 5
    train(output, sets)


@check
def a_limit_of_file_sizes_while_training():
    for asynchronous in False, True:
        limit_while_training(Ranks(1), asynchronous)


@check
def a_limit_of_file_sizes_under_mpirun():
    need_mpi()
    limit_while_training(Ranks(2, mpi=True), True)
    # Ranks meet in a file.
    words = ["mpirun", "-np", 2, "sh", "-c", 'ulimit -f 16; exec "$@"', "sh", PROGRAM]
    fails(MEMORY, finish(start([*words, *train_words(path("no-meeting"), settings())])), "ulimit -f", "shared memory")


if __name__ == "__main__":
    main()
