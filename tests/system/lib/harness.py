"""What the scripts of tests/system/ share: running the program, reading its files, and a list of named checks.

A script marks functions with @check and ends with main(): each runs by itself and prints one line. Exit status: 0 all
passed, 1 one failed, 77 all were skipped (the last line says why). A check that failed while the machine stood still, as
a virtual one does when it is moved to another host, is repeated: every time limit ends in such a pause.
"""
import functools
import hashlib
import json
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback

PROGRAM = os.path.abspath(os.environ["CIFAR_TRAIN"]) if os.environ.get("CIFAR_TRAIN") else ""
CONFIGS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "configs")
DEFAULT = os.path.join(CONFIGS, "default.yaml")
DONE, BUG, USAGE, DATA, DIVERGED, CHECKPOINT, MEMORY, LOST, IO, STOPPED = 0, 1, 2, 3, 4, 5, 6, 7, 8, 75
RECORD = 3073  # bytes: a label and 3 x 32 x 32 pixels
# Its --device cuda computes on the host; not every build has it.
ON_HOST = os.path.join(os.path.dirname(PROGRAM), "cifar-train-on-host")
# Fields of step and eval records that two runs with the same result need not share.
FREE_FIELDS = {"samples_per_sec", "wait_fraction", "seconds", "host", "peak_bytes", "time_ms", "seconds_left"}

# As root, and with more ranks than cores, Open MPI wants to be told that this is meant.
os.environ.setdefault("OMPI_ALLOW_RUN_AS_ROOT", "1")
os.environ.setdefault("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
os.environ.setdefault("OMPI_MCA_rmaps_base_oversubscribe", "1")


# nohup and a script's & have these ignored, and so would all that is started here.
for _number in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(_number) == signal.SIG_IGN:
        signal.signal(_number, signal.SIG_DFL)


class Skip(Exception):
    """This machine cannot run the check; the text says why."""


# ---- checks

_checks = []


def check(function):
    _checks.append(function)
    return function


_pauses = []  # in seconds: this process did not run


def _notice_pauses():
    while True:
        begin = time.monotonic()
        time.sleep(0.2)
        if time.monotonic() - begin > 5:
            _pauses.append(time.monotonic() - begin)


def _fails_for_good(function, name):
    """Prints that a check failed. If the machine stood still during it, the check is repeated instead, in a process and
    a folder of its own, which prints the result."""
    time.sleep(0.5)  # until a pause that has just ended is noticed
    if not _pauses:
        print("FAIL  %s\n%s" % (name, traceback.format_exc()), flush=True)
        return True
    print("again %s, because the machine stood still for %.0f s\n%s" % (name, sum(_pauses), traceback.format_exc()),
          flush=True)
    return subprocess.run([sys.executable, sys.argv[0], function.__name__]).returncode != 0


def main():
    if not PROGRAM:
        print("CIFAR_TRAIN does not name the program")
        sys.exit(77)
    wanted = sys.argv[1:]  # names of checks, to run some by hand
    passed, failed, reasons = 0, [], []
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the folder below goes, whatever happens
    threading.Thread(target=_notice_pauses, daemon=True).start()
    try:
        for function in _checks:
            if wanted and function.__name__ not in wanted:
                continue
            name, begin = function.__name__.replace("_", " "), time.monotonic()
            _pauses.clear()
            try:
                function()
                passed += 1
                print("ok    %s (%.1f s)" % (name, time.monotonic() - begin), flush=True)
            except Skip as reason:
                reasons.append("%s: %s" % (name, reason))
                print("skip  %s: %s" % (name, reason), flush=True)
            except Exception:
                if _fails_for_good(function, name):
                    failed.append(name)
                else:
                    passed += 1
    finally:
        if scratch.cache_info().currsize:
            shutil.rmtree(scratch(), ignore_errors=True)
    if failed:
        print("failed: " + "; ".join(failed))
    elif not passed:
        print("; ".join(reasons) or "no such check")
    sys.exit(1 if failed else 0 if passed else 77)


def expect(condition, *what):
    if not condition:
        raise AssertionError("\n".join(map(str, what)))


def expect_equal(found, expected, *what):
    expect(found == expected, "found    %r" % (found,), "expected %r" % (expected,), *what)


def expect_in(part, whole):
    expect(part in whole, "%r is not in" % (part,), whole)


def expect_not_in(part, whole):
    expect(part not in whole, "%r is in" % (part,), whole)


def expect_match(text, pattern):
    expect(re.search(pattern, text), "%r matches nothing of" % pattern, text)


# ---- folders and data

@functools.lru_cache(None)
def scratch():
    """A folder for all files, removed at the end. It is in memory if there is space, because hundreds of checkpoints
    are synced."""
    shm = "/dev/shm"
    roomy = os.path.isdir(shm) and shutil.disk_usage(shm).free > 4 << 30 and "TMPDIR" not in os.environ
    return tempfile.mkdtemp(prefix="cifar-train-test-", dir=shm if roomy else None)


def path(*names):
    return os.path.join(scratch(), *names)


@functools.lru_cache(None)
def synthetic():
    """A data.path with the synthetic set."""
    done = run("data", "synth", "--out", path("data"))
    expect_equal(done.returncode, DONE, done.stderr)
    return path("data")


@functools.lru_cache(None)
def few(train=400, test=200):
    """A data.path with this number of images, in files of the full length: all other records have an invalid label, so
    that data.on_corrupt: skip leaves them out. An epoch takes milliseconds."""
    folder = path("few-%d-%d" % (train, test), "cifar-10-batches-bin")
    os.makedirs(folder)
    blank = b"\xff" + bytes(RECORD - 1)
    numbers = random.Random(7)

    def record():
        """Noise, brighter in the class's stripe, so that a network can learn it."""
        label = numbers.randrange(10)
        pixels = bytearray(numbers.randbytes(RECORD - 1))
        for row in range(3 * label, 3 * label + 3):
            pixels[32 * row:32 * row + 32] = b"\xf0" * 32
        return bytes([label]) + bytes(pixels)

    for name, count in [("data_batch_1.bin", train), ("test_batch.bin", test), ("data_batch_2.bin", 0)]:
        with open(os.path.join(folder, name), "wb") as file:
            file.write(b"".join(record() for _ in range(count)) + blank * (10000 - count))
    for i in (3, 4, 5):
        os.link(os.path.join(folder, "data_batch_2.bin"), os.path.join(folder, "data_batch_%d.bin" % i))
    return os.path.dirname(folder)


FEW = {"data.on_corrupt": "skip", "train_batch_size": 32, "train_micro_batch_size_per_gpu": 4,
       "train.eval_batch_size": 50, "steps_per_print": 1, "gradient_clipping": 1,
       "data.augment": "[{random_crop: {padding: 4}}, {flip: {p: 0.5}}]", "scheduler.params.warmup_num_steps": 10}


# ---- the program

@functools.lru_cache(None)
def has_mpi():
    return shutil.which("mpirun") is not None and "MPI" in run("--version").stdout


def need_mpi():
    if not has_mpi():
        raise Skip("there is no mpirun, or the program was built without MPI")


def need_on_host():
    if not os.path.exists(ON_HOST):
        raise Skip("needs a build with cifar-train-on-host")


class Ranks:
    """The number of ranks, and their kind: threads of one process, or processes under mpirun."""

    def __init__(self, number, mpi=False):
        self.number, self.mpi = number, mpi

    def __repr__(self):
        return ("mpirun -np %d" if self.mpi else "--ranks %d") % self.number

    def words(self, *words):
        if self.mpi:
            return ["mpirun", "-np", str(self.number), PROGRAM, *map(str, words)]
        return [PROGRAM, *map(str, words), "--ranks", str(self.number)]


def dotted(changed):
    """Settings from keyword arguments: train__epochs=3."""
    return {key.replace("__", "."): value for key, value in changed.items()}


def train_words(output, settings, *words, config=DEFAULT):
    if os.path.basename(config) == "default.yaml":  # tests are of all images, unless they say otherwise
        settings = {"data.validation": 0, "train.best.split": "last", **settings}
    sets = ["%s=%s" % (key, str(value).lower() if isinstance(value, bool) else value) for key, value in settings.items()]
    return ["--config", config, "--output", output, *[w for s in sets for w in ("--set", s)], *words]


def start(words, env=None, prefix=(), **options):
    """A job in its own process group, which can be signalled as a whole."""
    # What Open MPI would leave in /tmp and /dev/shm when it is killed.
    folders = {"OMPI_MCA_orte_tmpdir_base": scratch(), "OMPI_MCA_btl_vader_backing_directory": scratch()}
    variables = {**os.environ, **folders, **(env or {})}
    return subprocess.Popen([*prefix, *map(str, words)], text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, start_new_session=True, errors="replace",
                            env={k: v for k, v in variables.items() if v is not None}, **options)


def finish(job, timeout=120):
    """Waits for a job: returncode, stdout, stderr."""
    try:
        out, err = job.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        # The ranks of mpirun have process groups of their own, but its session.
        living = subprocess.run(["ps", "-o", "pid,ppid,stat,wchan:24,etime,args", "-s", str(job.pid)], capture_output=True,
                                text=True).stdout
        subprocess.run(["pkill", "-KILL", "-s", str(job.pid)])
        out, err = job.communicate()
        raise AssertionError("%r took more than %d s\n%s%s%s" % (job.args, timeout, living, out, err))
    return subprocess.CompletedProcess(job.args, job.returncode, out, err)


def wait_until(condition, *jobs, patience=60, pause=0.005):
    """Waits for the condition; the jobs must not end before."""
    end = time.monotonic() + patience
    while not condition():
        ended = [job.args for job in jobs if job.poll() is not None]
        if ended or time.monotonic() > end:
            for job in jobs:
                if job.poll() is None:
                    os.killpg(job.pid, signal.SIGKILL)
            raise AssertionError("\n".join(["%r ended before it was time" % ended if ended else "waited in vain",
                                            *[text for job in jobs for text in job.communicate()]]))
        time.sleep(pause)


def wait_for_step(output, *jobs, at_least=1):
    """Waits until the records have that step. The last line may be incomplete."""
    def reached():
        try:
            with open(os.path.join(output, "metrics.jsonl")) as lines:
                seen = [json.loads(line) for line in lines.read().split("\n")[:-1]]
        except FileNotFoundError:
            return False
        return any(r["event"] == "step" and r["step"] >= at_least for r in seen)
    wait_until(reached, *jobs)


def run(*words, **options):
    return finish(start([PROGRAM, *words], **options))


def on_terminal(*words, columns=200, **environment):
    """(what the program writes on a terminal, the longest silence in seconds); it must succeed. `environment`: as for
    good()."""
    from terminal import Terminal  # which uses this file
    terminal = Terminal([PROGRAM, *words], columns=columns, env=environment)
    text, status = terminal.all()
    expect_equal(status, DONE, text)
    return text, terminal.silence


def succeeds(*words, **options):
    """run() that must succeed."""
    done = run(*words, **options)
    expect_equal(done.returncode, DONE, done.stderr)
    return done


def good(*words, program=None, **environment):
    """The program's output; it must succeed. `environment`: None removes a variable."""
    done = finish(start([program or PROGRAM, *words], env=environment), timeout=300)
    expect_equal(done.returncode, DONE, done.stderr)
    expect_not_in("error:", done.stderr)
    return done.stdout


def bad(code, culprit, *words, program=None, **environment):
    """The program's output; it must end with that code and one line of error with these words."""
    done = finish(start([program or PROGRAM, *words], env=environment), timeout=300)
    fails(code, done, culprit)
    return done.stdout


def train(output, settings, *words, ranks=Ranks(1), expecting=DONE, config=DEFAULT, **options):
    done = finish(start(ranks.words(*train_words(output, settings, *words, config=config)), **options))
    expect_equal(done.returncode, expecting, "%s with %s" % (output, ranks), done.stdout, done.stderr)
    return done


def train_through_kills(most, start_of):
    """A run that is killed up to `most` times and then ends. start_of(kills): the name of the next start, its
    arguments, and the seconds until it is killed. Returns the history, for failure messages."""
    history, kills = [], 0
    while True:
        name, words, moment = start_of(kills)
        job = start(words)
        history.append(name)
        try:
            job.wait(moment if kills < most else 120)
        except subprocess.TimeoutExpired:
            job.kill()
            job.communicate()
            kills += 1
            history.append("killed after %.3f s" % moment)
            continue
        expect_equal(job.returncode, DONE, *history, *job.communicate())
        return history


def fails(code, done, *culprits):
    """The job must have ended with that code and one line of error with these words. Returns the line."""
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    text = "%r\n%s%s" % (done.args, done.stdout, done.stderr)
    expect_equal(done.returncode, code, text)
    expect_equal(len(errors), 1, text)
    for culprit in culprits:
        expect(culprit in errors[0], "%r is not in %r" % (culprit, errors[0]))
    expect("terminate called" not in done.stderr and "Sanitizer" not in done.stderr, text)
    return errors[0]


def children(pid):
    """All descendants of pid: mpirun gives each rank its own process group."""
    parents = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/stat" % name) as stat:
                parents.setdefault(int(stat.read().rsplit(")", 1)[1].split()[1]), []).append(int(name))
        except OSError:  # gone meanwhile
            pass
    found, todo = [], [pid]
    while todo:
        below = parents.get(todo.pop(), [])
        found += below
        todo += below
    return found


def ranks_of(job):
    """Processes of the program."""
    def is_program(pid):
        try:
            return os.path.samefile("/proc/%d/exe" % pid, PROGRAM)
        except OSError:
            return False
    return [pid for pid in [job.pid, *children(job.pid)] if is_program(pid)]


def rank_of(pid):
    """The rank that mpirun gave a process; None: none. OSError for a process that has ended."""
    with open("/proc/%d/environ" % pid, "rb") as environ:
        found = re.search(rb"(?:^|\0)OMPI_COMM_WORLD_RANK=(\d+)", environ.read())
    return found and int(found[1])


# ---- what a run leaves behind

def records(output, event=None):
    with open(os.path.join(output, "metrics.jsonl")) as lines:
        read = [json.loads(line) for line in lines]
    return [r for r in read if event is None or r["event"] == event]


def result(output):
    """The part that equal runs have in common: weights_sha256, and the step and eval records."""
    kept = [{k: v for k, v in r.items() if k not in FREE_FIELDS} for r in records(output)
            if r["event"] in ("step", "eval")]
    return records(output, "end")[-1]["weights_sha256"], kept


def expect_same_result(output, expected, *what):
    """expected: a result(). Names the first record that differs."""
    (sha, found), (expected_sha, wanted) = result(output), expected
    for a, b in zip(found, wanted):
        expect_equal(a, b, *what)
    expect_equal([(r["event"], r["step"]) for r in found], [(r["event"], r["step"]) for r in wanted], *what)
    expect_equal(sha, expected_sha, *what)


def checkpoints(output):
    """The steps of a run's checkpoints."""
    folder = os.path.join(output, "ckpt")
    return sorted(int(name[5:]) for name in os.listdir(folder) if re.fullmatch(r"step-\d{8}", name))


def snapshot(folder):
    """{path: digest} of all files."""
    found = {}
    for at, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(at, name), "rb") as file:
                found[os.path.relpath(os.path.join(at, name), folder)] = hashlib.sha256(file.read()).hexdigest()
    return found


def flip(file_path, at):
    """Flips one bit; at < 0 counts from the end."""
    with open(file_path, "r+b") as file:
        file.seek(at, os.SEEK_END if at < 0 else os.SEEK_SET)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 1]))


def safetensors(file_path):
    """({name: (dtype, shape, bytes)}, metadata), read from the format's definition without a library."""
    with open(file_path, "rb") as file:
        content = file.read()
    size, = struct.unpack("<Q", content[:8])
    header = json.loads(content[8:8 + size])
    metadata = header.pop("__metadata__", {})
    body, tensors, at = content[8 + size:], {}, 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, end = entry["data_offsets"]
        expect_equal(begin, at, "a hole or an overlap before " + name)
        at = end
        tensors[name] = (entry["dtype"], entry["shape"], body[begin:end])
    expect_equal(at, len(body), "bytes behind the last tensor of " + file_path)
    return tensors, metadata


def weights_sha256(file_path):
    """From its definition: SHA-256 over the f32 bytes in bytewise order of names, without PyTorch's counters and
    averages."""
    tensors, _ = safetensors(file_path)
    names = sorted((name for name in tensors if not name.endswith(("num_batches_tracked", ".ema"))), key=str.encode)
    return hashlib.sha256(b"".join(tensors[name][2] for name in names)).hexdigest()


def write_safetensors(file_path, tensors, metadata=None):
    """A foreign program's file, from {name: (dtype, shape, bytes)}."""
    header, body = {"__metadata__": metadata} if metadata else {}, b""
    for tensor, (dtype, shape, data) in tensors.items():
        header[tensor] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    with open(file_path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + body)
    return file_path


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc = _CRC_TABLE[(crc ^ byte) & 0xff] ^ (crc >> 8)
    return crc ^ 0xffffffff


def _crc_row(n):
    for _ in range(8):
        n = (n >> 1) ^ (0x82f63b78 if n & 1 else 0)
    return n


_CRC_TABLE = [_crc_row(n) for n in range(256)]
