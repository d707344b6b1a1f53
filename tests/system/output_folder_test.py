"""The program's output files: foreign files survive, links and devices are kept, and a run does not write into another
folder that takes its folder's name. Also unreadable paths, and terminal control characters."""
import os
import stat
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import *

SETTINGS = {**FEW, "train.epochs": 1, "train.max_steps": 4}


def settings(**changed):
    return {**SETTINGS, "data.path": few(), **dotted(changed)}


@functools.lru_cache(None)
def trained():
    train(path("trained"), settings())
    return path("trained")


def best():
    return os.path.join(trained(), "best.bin")


def file_of(name, content=b"somebody's own\n"):
    os.makedirs(os.path.dirname(path(name)), exist_ok=True)
    with open(path(name), "wb") as file:
        file.write(content if isinstance(content, bytes) else content.encode())
    return path(name)


def content_of(name):
    with open(name, "rb") as file:
        return file.read()


# ---- what is written to

def export(out):
    return run("export", "--ckpt", best(), "--out", out)


@check
def devices_and_pipes_are_written_through():
    whole = len(content_of(best()))
    if os.geteuid() == 0:
        node = path("null")
        try:
            os.mknod(node, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        except PermissionError:
            node = None
        if node:
            expect_equal(export(node).returncode, DONE)
            expect(stat.S_ISCHR(os.stat(node).st_mode), "a device was replaced by a file")
    pipe, received = path("pipe"), []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: received.append(content_of(pipe)))
    reader.start()
    expect_equal(export(pipe).returncode, DONE)
    reader.join()
    expect(stat.S_ISFIFO(os.stat(pipe).st_mode), "a pipe was replaced by a file")
    expect_equal(len(received[0]), whole)
    done = subprocess.run([PROGRAM, "export", "--ckpt", best(), "--out", "/dev/stdout"], capture_output=True)
    expect_equal(done.returncode, DONE)
    expect(done.stdout == received[0], "a sentence is mixed with the weights")
    fails(IO, export("/dev/full"), "/dev/full", "No space left")


@check
def links_are_followed():
    for name, target in [("to-file", file_of("target/there.st", content_of(best()))), ("to-nothing", path("target", "new.st"))]:
        os.symlink(os.path.relpath(target, path()), path(name))
        expect_equal(export(path(name)).returncode, DONE)
        expect(os.path.islink(path(name)), "a link was replaced")
        expect_equal(safetensors(target)[0], safetensors(best())[0])
    os.symlink("circle", path("circle"))
    fails(IO, export(path("circle")), "circle", "links")


@check
def files_of_others_are_not_replaced():
    mine = file_of("mine/notes.safetensors")
    fails(USAGE, export(mine), "notes.safetensors", "not written by this program")
    fails(USAGE, export(os.path.dirname(mine)), "names no file")
    fails(USAGE, export(path("mine") + "/"), "names no file")
    expect_equal(content_of(mine), b"somebody's own\n")
    expect_equal(export(file_of("mine/own.safetensors", content_of(best()))).returncode, DONE)
    shutil.copytree(trained(), path("needed"))
    for name in ["ckpt/step-00000004/weights.safetensors", "ckpt/best-00000004.bin", "best.bin", "last.bin", ".lock"]:
        fails(USAGE, export(path("needed", name)), os.path.basename(name), "belongs to a run")
        os.symlink(path("needed", name), path("a-link"))
        fails(USAGE, export(path("a-link")), "a-link", "belongs to a run")
        os.remove(path("a-link"))
    expect_equal(run("ckpt", "verify", path("needed")).returncode, DONE)


def config_text():
    return "# my notes\n" + content_of(DEFAULT).decode()


@check
def a_run_replaces_nothing_that_is_not_its_own():
    cases = [("config.yaml", config_text()), ("last.bin", b"notes"), ("best.bin", content_of(best())),
             ("metrics.jsonl", '{"loss": 1}\n'), ("metrics.csv", "loss\n1\n"), (".lock", "notes\n"),
             (".shared-by-all-ranks", "notes\n")]
    for name, content in cases:
        mine = file_of("foreign-%s/%s" % (name, name), content)
        before = snapshot(os.path.dirname(mine))
        for words in [], ["--reset"], ["--resume", "never"]:
            done = finish(start(Ranks(1).words(*train_words(os.path.dirname(mine), settings(), *words))))
            fails(USAGE, done, name, "--output")
        expect_equal({n: d for n, d in snapshot(os.path.dirname(mine)).items() if n in before}, before)
    mine = file_of("foreign-saved/ckpt/best-00000010.bin")
    for words in [], ["--reset"]:
        fails(USAGE, finish(start([PROGRAM, *train_words(path("foreign-saved"), settings(), *words)])), "best-00000010.bin")
    expect_equal(content_of(mine), b"somebody's own\n")
    for output in path("foreign-saved/ckpt/best-00000010.bin"), path("foreign-saved/ckpt/best-00000010.bin/run"):
        for verb, *words in ["train"], ["sweep", "--repeats", 2], ["compare"]:
            fails(USAGE, run(verb, *words, *train_words(output, settings())), "best-00000010.bin' is no folder", "another --output")
    os.symlink(path("nowhere"), path("link-to-nothing"))
    fails(USAGE, run(*train_words(path("link-to-nothing"), settings())), "link-to-nothing' is a link to a folder that is not there")
    for name in "last.bin", "ckpt/best-00000010.bin":
        output = path("link-inside-" + os.path.basename(name))
        os.makedirs(os.path.join(output, "ckpt"))
        os.symlink(path("nowhere/file"), os.path.join(output, name))
        fails(USAGE, run(*train_words(output, settings())), name + "' is a link into a folder that is not there", "move it away")
    for words in [], ["--reset"]:
        file_of("file-as-ckpt/ckpt")
        fails(USAGE, run(*train_words(path("file-as-ckpt"), settings(), *words)), "ckpt' is no folder", "another --output")
    # The run's own configuration, in its own folder.
    folder = os.path.dirname(file_of("own/config.yaml", config_text()))
    fails(USAGE, run("--config", "config.yaml", "--output", ".", cwd=folder), "config.yaml")
    expect_equal(content_of(os.path.join(folder, "config.yaml")).decode(), config_text())


@check
def the_file_by_which_ranks_find_their_folder_replaces_nothing():
    output = path("several-ranks")
    shutil.copytree(trained(), output)
    token, mine = os.path.join(output, ".shared-by-all-ranks"), file_of("mine-alone")
    words = train_words(output, settings(train__max_steps=8))
    for make in (lambda: os.symlink(mine, token), lambda: os.mkfifo(token), lambda: file_of(token), lambda: os.mkdir(token)):
        make()
        fails(USAGE, finish(start(Ranks(2).words(*words))), ".shared-by-all-ranks' is ", ": move it away")
        expect(os.path.lexists(token), "it is gone")
        os.rename(token, path("taken-away-%d" % len(os.listdir(path()))))
    expect_equal(content_of(mine), b"somebody's own\n")
    file_of(token, "66139e01c2d12-997")  # a killed run's
    expect_equal(finish(start(Ranks(2).words(*words))).returncode, DONE)


@check
def a_run_without_its_checkpoints_is_not_started_anew():
    output = path("no-checkpoints")
    shutil.copytree(trained(), output)
    shutil.rmtree(os.path.join(output, "ckpt"))
    before = {name: content for name, content in snapshot(output).items() if name != ".lock"}
    words = train_words(output, settings(train__max_steps=8))
    fails(CHECKPOINT, finish(start([PROGRAM, *words])), "has saved, but its checkpoints", "--reset")
    expect_equal({n: d for n, d in snapshot(output).items() if n in before}, before)
    expect_equal(finish(start([PROGRAM, *words, "--reset"])).returncode, DONE)


@check
def changed_files_of_a_run_are_kept():
    """An edited configuration and damaged files: the run continues and keeps their contents under another name."""
    for words in [], ["--reset"]:
        output = path("edited%d" % len(words))
        shutil.copytree(trained(), output)
        text = content_of(os.path.join(output, "config.yaml")).decode()
        kept = {"config.yaml": text.replace("epochs: 1", "epochs: 1  # enough").encode(), "metrics.csv": b"evil",
                "last.bin": content_of(best())[:10], "best.bin": bytes(5000), "ckpt/best-00000008.bin": b"mine"}
        for name, content in kept.items():
            file_of(os.path.join(output, name), content)
        done = train(output, settings(train__max_steps=8), *words)
        for name, content in kept.items():
            expect_equal(content_of(os.path.join(output, name + ".aside")), content)
            expect_equal(done.stderr.count("'%s.aside'" % os.path.basename(name)), 1, done.stderr)
        expect_equal(run("ckpt", "verify", output).returncode, DONE)
        again = train(output, settings(train__max_steps=12))
        expect("aside" not in again.stderr, again.stderr)


@check
def files_of_a_run_may_be_links():
    """For example to another disk."""
    os.makedirs(path("linked"))
    os.makedirs(path("elsewhere", "ckpt"))
    for name in ["last.bin", "ckpt", "config.yaml"]:
        os.symlink(path("elsewhere", name), path("linked", name))
    for steps in (4, 8):
        train(path("linked"), settings(train__max_steps=steps))
        for name in ["last.bin", "ckpt", "config.yaml"]:
            expect(os.path.islink(path("linked", name)), name + " is no link any more")
    expect_equal(int(safetensors(path("elsewhere", "last.bin"))[1]["cifar_train.step"]), 8)
    os.mkfifo(path("with-pipe-last.bin"))
    os.makedirs(path("with-pipe"))
    os.rename(path("with-pipe-last.bin"), path("with-pipe", "last.bin"))
    fails(USAGE, finish(start([PROGRAM, *train_words(path("with-pipe"), settings())])), "last.bin")


@check
def links_to_files_of_a_run_are_refused():
    """Through them a run would replace, and a prune delete, what this run or another one needs."""
    other = path("other-run")
    often = {"train__eval_interval": 1, "train__save_interval": 1}
    for output in other, path("of-links"):
        train(output, settings(train__max_steps=4, **often))
    spare = [os.path.join("ckpt", name) for name in os.listdir(os.path.join(other, "ckpt")) if name.startswith("best-")][0]
    cases = [("best.bin", spare), (spare, "../best.bin"), ("last.bin", "ckpt/step-00000004/weights.safetensors"),
             ("best.bin", os.path.join(other, "best.bin")), ("best.bin", os.path.join(other, spare)),
             ("ckpt", os.path.join(other, "ckpt"))]
    for name, target in cases:
        shutil.rmtree(path("one"), ignore_errors=True)
        shutil.copytree(path("of-links"), path("one"))
        if name == "ckpt":
            shutil.rmtree(path("one", name))
        else:
            os.remove(path("one", name))
        os.symlink(target, path("one", name))
        before = snapshot(path("one")), snapshot(other)
        for done in [finish(start([PROGRAM, *train_words(path("one"), settings(train__max_steps=8, **often))])),
                     run("ckpt", "prune", path("one"), "--keep", "1")]:
            fails(USAGE, done, os.path.join("one", name), "is a link to", "put a copy in the place of the link")
        expect_equal((snapshot(path("one")), snapshot(other)), before, name, target)


# ---- a folder that loses its name

def long_run(output, **changed):
    """A run that continues until it is asked to stop."""
    words = train_words(output, settings(**{"train__epochs": 100000, "train__max_steps": -1, "train__save_interval": 50,
                                            "train__eval_interval": 1000000, **changed}))
    job = start(Ranks(2).words(*words))
    wait_for(lambda: os.path.isdir(os.path.join(output, "ckpt")) and len(checkpoints(output)) > 1, job)
    return job


def wait_for(condition, job, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        expect(job.poll() is None, "the run ended", job.returncode)
        expect(time.monotonic() < end, "nothing happened for %d s" % seconds)
        time.sleep(0.02)


@check
def a_moved_folder_is_missed_at_each_save():
    """Another folder with its name stays unchanged."""
    there, away = path("there"), path("away")
    job = long_run(there, train__max_steps=1000)
    os.rename(there, away)
    mine = file_of("there/notes.txt")
    before = snapshot(there)
    done = finish(job)
    fails(IO, done, "there", "was moved, removed or replaced")
    warnings = [line for line in done.stderr.splitlines() if line.startswith("warning: no checkpoint was saved")]
    expect(len(warnings) > 1 and not any("intact" in line for line in warnings), done.stderr)
    expect_equal(snapshot(there), before)
    os.remove(mine), os.rmdir(there), os.rename(away, there)
    expect_equal(run("ckpt", "verify", there).returncode, DONE)


@check
def checkpoints_that_cannot_be_listed_do_not_end_training():
    out = path("unlisted")
    job = long_run(out, train__max_steps=1000)
    os.rename(os.path.join(out, "ckpt"), os.path.join(out, "aside"))
    os.symlink("ckpt", os.path.join(out, "ckpt"))
    done = finish(job)
    fails(IO, done, "ckpt")
    expect(done.stderr.count("warning: no checkpoint was saved") > 1, done.stderr)


@check
def a_folder_that_comes_back_is_saved_to():
    there, away = path("back"), path("not-back")
    job = long_run(there)
    os.rename(there, away)
    expect(any("was moved, removed or replaced" in line for line in job.stderr), "the run ended without a warning")
    os.rename(away, there)
    os.kill(job.pid, signal.SIGUSR1)
    done = finish(job)
    expect_equal(done.returncode, STOPPED, done.stderr)
    expect_equal(records(there, "checkpoint")[-1]["step"], checkpoints(there)[-1])
    expect_equal(run("ckpt", "verify", there).returncode, DONE)


@check
def removed_records_are_missed_and_go_on():
    out = path("unrecorded")
    job = long_run(out)
    file = os.path.join(out, "metrics.jsonl")
    os.remove(file)
    wait_for(lambda: os.path.exists(file) and len(records(out, "checkpoint")) > 1, job)
    os.kill(job.pid, signal.SIGUSR1)
    done = finish(job)
    expect_equal(done.returncode, STOPPED, done.stderr)
    expect_equal(done.stderr.count("metrics.jsonl' was removed or replaced"), 1, done.stderr)
    expect_equal(records(out, "checkpoint")[-1]["step"], checkpoints(out)[-1])


@check
def the_folder_of_a_set_may_be_the_output():
    output = path("of-data")
    expect_equal(run("data", "synth", "--images", 500, "--out", output).returncode, DONE)
    for steps in 2, 4:  # the second one finds the first one's pictures
        train(output, {"data.path": output, "data.dataset": "auto", "train.max_steps": steps, "train.sample_grid": True})
    expect(os.path.exists(os.path.join(output, "evaluation.png")) and os.path.exists(os.path.join(output, "sample_grid.png")))


@check
def a_run_whose_lock_is_gone_writes_no_records():
    out = path("displaced")
    job = long_run(out)
    job.send_signal(signal.SIGSTOP)
    os.remove(os.path.join(out, ".lock"))
    train(out, settings(train__max_steps=2), "--reset")
    kept = {name: content_of(os.path.join(out, name)) for name in ("metrics.jsonl", "metrics.csv")}
    job.send_signal(signal.SIGCONT)
    job.send_signal(signal.SIGUSR1)
    fails(IO, finish(job), ".lock, was moved, removed or replaced")
    for name, content in kept.items():
        expect_equal(content_of(os.path.join(out, name)), content, name)


@check
def a_removed_folder_is_missed():
    gone, aside = path("gone"), path("aside")
    job = long_run(gone)
    os.rename(gone, aside)
    shutil.rmtree(aside)
    os.kill(job.pid, signal.SIGUSR1)
    done = finish(job)
    line = fails(IO, done, "gone", "was moved, removed or replaced")
    expect("intact" not in done.stderr and "the checkpoint is good" not in done.stderr, done.stderr)
    expect(not os.path.exists(gone) and not os.path.exists(aside), "the folder was made again", line)


# ---- paths that cannot be looked at

def unsearchable():
    """A folder without search permission, and a command prefix that runs a program as a user whom that affects."""
    folder = path("closed")
    os.makedirs(folder, exist_ok=True)
    file_of("closed/a.bin", content_of(best()))
    os.chmod(folder, 0o600)
    if os.geteuid() != 0:
        return folder, []
    if not shutil.which("setpriv"):
        raise Skip("root may search every folder, and there is no setpriv to be somebody else")
    os.chmod(scratch(), 0o755)
    prefix = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    if finish(start([*prefix, PROGRAM, "--version"])).returncode != DONE:
        raise Skip("somebody else than root cannot run the program here")
    return folder, prefix


@check
def paths_that_cannot_be_looked_at():
    folder, prefix = unsearchable()
    os.symlink("turn", path("turn"))
    work = path("work")
    os.makedirs(work)
    os.chmod(work, 0o777)
    few()
    for place, reason in [(os.path.join(folder, "a.bin"), "ermission"), (path("turn"), "links"),
                          (path("turn", "a.bin"), "links"), (path("n" * 300), "too long")]:
        def refused(code, *words):
            line = fails(code, finish(start([*prefix, PROGRAM, *words], cwd=work)), os.path.basename(place)[:40], reason)
            expect("internal" not in line, line)
        for verb in ["eval", "export", "ckpt inspect", "ckpt verify", "ckpt ls"]:
            option = [] if verb.startswith("ckpt") else ["--ckpt"]
            out = ["--out", path("x.safetensors")] if verb == "export" else []
            refused(CHECKPOINT, *verb.split(), *option, place, *out)
        common = train_words(os.path.join(work, "run"), settings())
        refused(CHECKPOINT, *common, "--init", place)
        refused(CHECKPOINT, *common, "--resume", place)
        refused(IO, *train_words(place, settings()))
        refused(USAGE, "--config", place, "--output", os.path.join(work, "run"))
        refused(USAGE, "config", "check", place)
    os.chmod(folder, 0o755)


# ---- words that terminals obey

@check
def external_text_is_printed_without_control_characters():
    nasty = "a\x1b[31m\nb\x9b"
    for words in [["--set", nasty + "=1"], ["--set", "model.name=" + nasty], ["--config", nasty], [nasty], ["data", nasty],
                  ["--device", nasty], ["--resume", nasty], ["--" + nasty], ["eval", "--ckpt", nasty],
                  ["eval", "--ckpt", best(), "--split", nasty], ["eval", "--ckpt", best(), "--data", nasty],
                  ["export", "--ckpt", nasty, "--out", "x"], ["export", "--ckpt", best(), "--out", nasty + "/x"],
                  ["export", "--ckpt", best(), "--out", "x", "--format", nasty], ["ckpt", "ls", nasty],
                  ["ckpt", "verify", nasty], ["ckpt", "inspect", nasty], ["ckpt", "diff", nasty, nasty],
                  ["config", "show", nasty], ["config", "check", nasty], ["estimate", "--config", nasty],
                  ["estimate", "--ranks", nasty], ["bench", "--config", nasty], ["bench", nasty],
                  ["data", "verify", "--data", nasty], ["selftest", "--only", nasty], ["doctor", nasty]]:
        done = run(*words, cwd=path())
        text = done.stderr + done.stdout
        expect(done.returncode in (USAGE, DATA, CHECKPOINT, IO), done.args, text)
        expect(not any(c in text for c in "\x1b\x9b"), done.args, repr(text))
        errors = [line for line in done.stderr.splitlines() if line]
        expect(len(errors) == 1 and errors[0].startswith("error: "), done.args, done.stderr)
    broken = b"run\xff"
    done = finish(start([PROGRAM, "--output", broken.decode("utf-8", "surrogateescape")]))
    fails(USAGE, done, "UTF-8")


main()
