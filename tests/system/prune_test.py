"""ckpt prune: what goes, what stays, and what it says of them."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import *

SETTINGS = {**FEW, "model.name": "linear", "train.epochs": 2, "train.save_interval": 4, "checkpoint.keep_last": 100}
STEPS = [0, 4, 8, 12, 16, 20, 24]


@functools.lru_cache(None)
def trained():
    train(path("run"), {**SETTINGS, "data.path": few()})
    expect_equal(checkpoints(path("run")), STEPS)
    return path("run")


def copy(name):
    """A copy whose hard links are hard links."""
    subprocess.run(["cp", "-a", trained(), path(name)], check=True)
    return path(name)


def folder_of(run, step):
    return os.path.join(run, "ckpt", "step-%08d" % step)


def used(run):
    """The bytes of its files, each once whatever its names, but for the lock."""
    files = {}
    for at, _, names in os.walk(run):
        for name in names:
            info = os.stat(os.path.join(at, name))
            files[info.st_ino] = info.st_size if name != ".lock" else 0
    return sum(files.values())


def named_in(text):
    return [int(line[-8:]) for line in text.splitlines()[:-1]]


def told_bytes(text):
    return int(re.search(r"(\d+) bytes \(\S+ \S+\)$", text.rstrip())[1])


@check
def it_says_what_would_go_and_then_removes_that():
    run_folder = copy("plain")
    before, size = snapshot(run_folder), used(run_folder)
    text = good("ckpt", "prune", run_folder + "/", "--keep", 2, "--dry-run")
    expect_equal(named_in(text), STEPS[:5])
    expect_match(text, r"\n5 of 7 checkpoints would go, \d+ bytes \(")
    expect_equal(snapshot(run_folder), before)
    removed = good("ckpt", "prune", run_folder, "--keep", 2)
    expect_equal([named_in(removed), told_bytes(removed)], [STEPS[:5], told_bytes(text)])
    expect_in("5 of 7 checkpoints removed", removed)
    expect_equal(checkpoints(run_folder), STEPS[5:])
    expect_equal(size - used(run_folder), told_bytes(text))
    left = {name for name in os.listdir(os.path.join(run_folder, "ckpt")) if name.startswith("best-")}
    expect_equal(left, {"best-%08d.bin" % step for step in STEPS[5:]} & set(os.listdir(os.path.join(trained(), "ckpt"))))
    good("ckpt", "verify", run_folder)
    expect_in("0 of 2 checkpoints removed, 0 bytes", good("ckpt", "prune", run_folder, "--keep", 2))
    # The run goes on from what stays.
    train(run_folder, {**SETTINGS, "data.path": few(), "train.epochs": 3})


@check
def without_a_number_the_run_s_own_rule_holds():
    run_folder = copy("rule")
    expect_in("0 of 7 checkpoints removed", good("ckpt", "prune", run_folder))
    train(run_folder, {**SETTINGS, "data.path": few(), "train.epochs": 3, "checkpoint.keep_last": 3})
    expect_equal(len(checkpoints(run_folder)), 3)
    expect_in("0 of 3 checkpoints removed", good("ckpt", "prune", run_folder))
    for number, more in enumerate((2**32, 2**63 - 1), 4):  # a week's checkpoints, whatever the number's bits
        train(run_folder, {**SETTINGS, "data.path": few(), "train.epochs": number, "checkpoint.keep_last": more})
        expect(len(checkpoints(run_folder)) > 3, os.listdir(os.path.join(run_folder, "ckpt")))
        expect_match(good("ckpt", "prune", run_folder, "--dry-run"), r"^0 of \d+ checkpoints would go")


@check
def the_newest_valid_one_stays():
    run_folder = copy("damaged")
    for step in STEPS[4:]:
        flip(os.path.join(folder_of(run_folder, step), "weights.safetensors"), -1)
    done = run("ckpt", "prune", run_folder, "--keep", 1)
    expect_equal(done.returncode, DONE, done.stderr)
    expect_equal(done.stderr.count("warning: "), 3, done.stderr)
    expect_equal(checkpoints(run_folder), [12, 24])  # the newest good one, and the newest
    for step in (12, 24):
        flip(os.path.join(folder_of(run_folder, step), "weights.safetensors"), -2)
    before = snapshot(run_folder)
    bad(CHECKPOINT, "none of the 2 checkpoints", "ckpt", "prune", run_folder, "--keep", 1)
    expect_equal({k: v for k, v in snapshot(run_folder).items() if k != ".lock"}, {k: v for k, v in before.items() if k != ".lock"})


@check
def the_only_copy_of_a_lost_best_bin_stays():
    run_folder = copy("lost")
    kept = os.path.join(run_folder, "ckpt", "best-00000016.bin")
    with open(os.path.join(run_folder, "best.bin"), "rb") as file:
        best = file.read()
    for name in os.listdir(os.path.join(run_folder, "ckpt")):
        if name.startswith("best-"):
            os.remove(os.path.join(run_folder, "ckpt", name))
    os.remove(os.path.join(run_folder, "best.bin"))
    with open(kept, "wb") as file:
        file.write(best)
    expect_equal(named_in(good("ckpt", "prune", run_folder, "--keep", 1, "--dry-run")), [0, 4, 8, 12, 20])
    good("ckpt", "prune", run_folder, "--keep", 1)
    expect_equal(checkpoints(run_folder), [16, 24])
    expect(os.path.exists(kept))
    # With best.bin in its place nothing holds it.
    with open(os.path.join(run_folder, "best.bin"), "wb") as file:
        file.write(best)
    good("ckpt", "prune", run_folder, "--keep", 1)
    expect_equal(checkpoints(run_folder), [24])
    expect(not os.path.exists(kept))


@check
def a_checkpoint_with_a_file_of_others_stays():
    run_folder = copy("notes")
    mine = os.path.join(folder_of(run_folder, 8), "notes.txt")
    with open(mine, "w") as file:
        file.write("mine")
    os.makedirs(folder_of(run_folder, 10))
    with open(os.path.join(folder_of(run_folder, 10), "notes.txt"), "w") as file:
        file.write("mine")
    for words in ["--dry-run"], []:
        before = used(run_folder)
        done = run("ckpt", "prune", run_folder, "--keep", 1, *words)
        expect_equal([done.returncode, named_in(done.stdout)], [DONE, [0, 4, 12, 16, 20]], done.stderr)
        for step in 8, 10:
            expect_in("warning: checkpoint %d stays: %r was written by no save: move it away\n"
                      % (step, os.path.join(folder_of(run_folder, step), "notes.txt")), done.stderr)
    expect_equal(before - used(run_folder), told_bytes(done.stdout))
    expect_equal(checkpoints(run_folder), [8, 10, 24])
    os.remove(mine)
    expect_equal(named_in(good("ckpt", "prune", run_folder, "--keep", 1)), [8])


@check
def a_run_that_goes_on_keeps_its_own():
    run_folder = path("busy")
    job = start([PROGRAM, *train_words(run_folder, {**SETTINGS, "data.path": few(), "train.epochs": 100000,
                                                    "checkpoint.keep_last": 10**9})])
    wait_for_step(run_folder, job, at_least=20)
    bad(USAGE, "in use by 'pid %d on host" % job.pid, "ckpt", "prune", run_folder, "--keep", 1)
    bad(USAGE, "wait for it, stop it or only look at it with --dry-run", "ckpt", "prune", run_folder, "--keep", 1)
    expect_in(" checkpoints would go", good("ckpt", "prune", run_folder, "--keep", 1, "--dry-run"))
    expect_equal(checkpoints(run_folder)[0], 0)
    job.send_signal(signal.SIGTERM)
    expect_equal(finish(job).returncode, STOPPED)


@check
def other_folders_are_refused():
    os.makedirs(path("empty"))
    for folder in ("empty", "nowhere"):
        bad(USAGE, "holds no run", "ckpt", "prune", path(folder))
    expect_equal(os.listdir(path("empty")), [])
    bad(USAGE, "--keep", "ckpt", "prune", trained(), "--keep", 0)
    bad(USAGE, "RUN is required", "ckpt", "prune")
    # A checkpoint that was moved elsewhere, with a link in its place: only the link goes.
    run_folder = copy("link")
    os.rename(folder_of(run_folder, 4), path("elsewhere"))
    os.symlink(path("elsewhere"), folder_of(run_folder, 4))
    good("ckpt", "prune", run_folder, "--keep", 1)
    expect(os.path.exists(os.path.join(path("elsewhere"), "manifest.json")))
    expect_equal(checkpoints(run_folder), [24])


main()
