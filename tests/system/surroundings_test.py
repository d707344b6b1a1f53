"""Machines that are not as usual: small shared memory, few descriptors, little memory, users without a name, long paths,
crowded folders, other locales, host names and times."""
import contextlib
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import clock
from harness import *

NOBODY = 54321  # a uid without an entry of passwd
PLENTY = 100000 if os.environ.get("CIFAR_TRAIN_FULL") else 20000


def settings(**changed):
    return {**FEW, "data.path": few(), "train.max_steps": 12, "train.save_interval": 4, **dotted(changed)}


@functools.lru_cache(None)
def usual():
    train(path("usual"), settings())
    return result(path("usual"))


def as_usual(output, words, **options):
    done = finish(start(words, **options))
    expect_equal(done.returncode, DONE, done.stdout, done.stderr)
    expect_same_result(output, usual(), done.stderr)
    return done


def shell(commands, *words):
    return ["sh", "-c", commands + ' exec "$@"', "sh", *words]


def need(*tools):
    for tool in tools:
        if not shutil.which(tool):
            raise Skip("there is no " + tool)


def need_namespaces():
    need("unshare")
    if subprocess.run(["unshare", "-m", "-u", "true"], capture_output=True).returncode != 0:
        raise Skip("this user may make no namespaces")


@check
def a_small_or_full_dev_shm():
    need_namespaces()
    need_mpi()
    for i, before in enumerate(["", "head -c 60K /dev/zero >/dev/shm/full;"]):
        output = path("small-shm-%d" % i)
        small = "mount -t tmpfs -o size=64k tmpfs /dev/shm; " + before
        # The data lie in /dev/shm, which this hides.
        words = Ranks(2, mpi=True).words(*train_words(output, settings(data__path="data")))
        copied = tempfile.mkdtemp(dir="/tmp")
        try:
            shutil.copytree(few(), os.path.join(copied, "data"))
            at = output.replace(scratch(), copied)
            words = [word.replace(scratch(), copied) for word in words]
            done = finish(start(["unshare", "-m", *shell(small, *words)], cwd=copied, env={
                "OMPI_MCA_orte_tmpdir_base": copied, "OMPI_MCA_btl_vader_backing_directory": copied, "TMPDIR": copied}))
            expect_equal(done.returncode, DONE, done.stdout, done.stderr)
            expect_same_result(at, usual(), done.stderr)
        finally:
            shutil.rmtree(copied)


@check
def a_folder_for_temporary_files_that_is_gone():
    for ranks in (1, 2):
        output = path("no-tmp-%d" % ranks)
        as_usual(output, Ranks(ranks).words(*train_words(output, settings())), env={"TMPDIR": path("gone")})


@check
def few_descriptors():
    need("taskset")
    output = path("descriptors")
    words = [PROGRAM, *train_words(output, settings())]
    # On one core, because threads that open data at a time may be the first to have too many files.
    core = str(min(os.sched_getaffinity(0)))
    fails(IO, finish(start(["taskset", "-c", core, *shell("ulimit -n 6;", *words)])), "raise the limit of open files (ulimit -n)")
    as_usual(output, shell("ulimit -n 16;", *words))


@check
def a_small_stack():
    words = [PROGRAM, *train_words(path("stack"), settings())]
    fails(MEMORY, finish(start(shell("ulimit -s 128;", *words))), "ulimit -s", "raise it")
    as_usual(path("stack"), shell("ulimit -s 512;", *words))


@check
def little_address_space():
    output = path("address-space")
    words = [PROGRAM, *train_words(output, settings())]
    fails(MEMORY, finish(start(shell("ulimit -v 250000;", *words))), "out of memory", "ulimit -v")
    as_usual(output, words)


@contextlib.contextmanager
def a_folder_for_all():
    """A folder in which every user may write, with the program and the data."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o777)
        shutil.copytree(few(), os.path.join(folder, "data"))
        shutil.copy(PROGRAM, os.path.join(folder, "cifar-train"))
        shutil.copy(DEFAULT, folder)
        yield folder


def as_nobody(folder, *words, home=None):
    return finish(start(["setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups",
                         os.path.join(folder, "cifar-train"), *words], cwd=folder, env={"HOME": home, "USER": None}))


@check
def a_memory_limit_of_a_control_group():
    """As of a Slurm job: of a group below the mount's root. What does not fit is refused before training."""
    for mount, limit in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
        group = os.path.join(mount, "cifar-train-test-%d" % os.getpid())
        try:
            os.mkdir(group)
        except OSError:
            continue
        try:
            if os.path.exists(os.path.join(group, limit)):
                with open(os.path.join(group, limit), "w") as file:
                    file.write("200M")
                into = 'echo $$ >%s/cgroup.procs && ' % group
                fits = train_words(path("in-group"), settings())
                as_usual(path("in-group"), shell(into, PROGRAM, *fits))
                large = train_words(path("too-large"), settings(model__name="resnet152"))
                fails(MEMORY, finish(start(shell(into, PROGRAM, *large))), "memory", "control group")
                return
        except PermissionError:
            pass
        finally:
            os.rmdir(group)
    raise Skip("this user may make no control group of memory")


@check
def a_user_without_a_name_and_a_parent_that_may_not_be_written():
    need("setpriv")
    if os.geteuid() != 0:
        raise Skip("only root can be another user")
    with a_folder_for_all() as folder:
        config = os.path.join(folder, "default.yaml")
        words = train_words(os.path.join(folder, "run"), settings(data__path=os.path.join(folder, "data")), config=config)
        done = as_nobody(folder, *words)
        expect_equal(done.returncode, DONE, done.stderr)
        expect_same_result(os.path.join(folder, "run"), usual(), done.stderr)
        os.chmod(folder, 0o755)
        words = train_words(os.path.join(folder, "second"), settings(data__path=os.path.join(folder, "data")), config=config)
        fails(IO, as_nobody(folder, *words), os.path.join(folder, "second"), "Permission denied")
        fails(IO, as_nobody(folder, "export", "run", "--out", "out.safetensors"), "out.safetensors", "Permission denied")


@check
def a_home_that_may_not_be_searched():
    """As sudo and containers leave it: where nothing asks for a file of it, it is not looked into."""
    need("setpriv")
    if os.geteuid() != 0:
        raise Skip("only root can be another user")
    os.makedirs(path("home"), mode=0o700)
    with a_folder_for_all() as folder:
        done = as_nobody(folder, "launch", "--num_gpus", "2", "--dry-run", "--config", "default.yaml", home=path("home"))
        expect_equal(done.returncode, DONE, done.stderr)
        expect(done.stdout.startswith("mpirun -np 2 "), done.stdout)


@check
def a_strict_umask():
    output = path("umask")
    as_usual(output, shell("umask 077;", PROGRAM, *train_words(output, settings())))
    modes = {os.stat(os.path.join(at, name)).st_mode & 0o077 for at, _, names in os.walk(output) for name in names}
    expect_equal(modes, {0})


@check
def nothing_is_written_elsewhere_or_for_everybody():
    """Of all verbs that write: the only changes are what they are told to write, and no file may be changed by others."""
    work, home, temporary = (path("elsewhere", name) for name in ("work", "home", "tmp"))
    for folder in work, home, temporary:
        os.makedirs(folder)
    env = dict(os.environ, HOME=home, TMPDIR=temporary)
    for words in (train_words("run", settings(tensorboard__enabled=True, csv_monitor__enabled=True)),
                  ["eval", "--ckpt", "run", "--json"], ["export", "--ckpt", "run", "--out", "weights.safetensors"],
                  ["ckpt", "verify", "run"], ["data", "synth", "--out", "synthetic"],
                  ["data", "convert", "--from", "synthetic", "--out", "packed.ctpack"], ["config", "show"], ["doctor"]):
        done = run(*words, cwd=work, env=env)
        expect_equal(done.returncode, DONE, words, done.stderr)
    expect_equal(sorted(os.listdir(work)), ["packed.ctpack", "run", "synthetic", "weights.safetensors"])
    expect_equal(os.listdir(home) + os.listdir(temporary), [])
    open_to_all = [os.path.join(at, name) for at, folders, names in os.walk(work) for name in folders + names
                   if os.stat(os.path.join(at, name)).st_mode & 0o002]
    expect_equal(open_to_all, [])


@check
def a_crowded_folder():
    output = path("crowded")
    os.mkdir(output)
    for i in range(PLENTY):
        os.close(os.open(os.path.join(output, "note-%06d" % i), os.O_CREAT | os.O_WRONLY))
    as_usual(output, [PROGRAM, *train_words(output, settings())])
    expect_equal(sum(name.startswith("note-") for name in os.listdir(output)), PLENTY)
    shutil.rmtree(output)


@check
def long_paths_and_other_letters():
    output = path("läufe – 走る")
    while len(os.fsencode(output)) < 3900:
        output = os.path.join(output, "ordner mit umläuten " * 3 + "x" * 100)
    as_usual(output, [PROGRAM, *train_words(output, settings())])
    best = os.path.join(output, "best.bin")
    succeeds("eval", "--ckpt", best)
    succeeds("ckpt", "verify", output)
    while len(os.fsencode(output)) < 5000:
        output = os.path.join(output, "y" * 100)
    fails(IO, run(*train_words(output, settings())), "File name too long")


@check
def a_decimal_comma():
    need("localedef")
    folder = path("locales")
    os.mkdir(folder)
    made = subprocess.run(["localedef", "-i", "de_DE", "-f", "UTF-8", os.path.join(folder, "de_DE.UTF-8")], capture_output=True)
    if made.returncode != 0:
        raise Skip("the description of the German locale is not installed")
    output = path("comma")
    german = {"LC_ALL": "de_DE.UTF-8", "LOCPATH": folder}
    shown = finish(start(["printf", "%.1f", "0,5"], env=german))
    expect_equal(shown.stdout, "0,5", shown.stderr)
    as_usual(output, [PROGRAM, *train_words(output, settings())], env=german)
    expect_equal(succeeds("config", "show", env=german).stdout, succeeds("config", "show").stdout)


@check
def a_host_that_changes_its_name():
    need_namespaces()
    output = path("renamed")
    words = [PROGRAM, *train_words(output, settings())]
    job = start(["unshare", "-u", *shell("(sleep 0.05; hostname second) & hostname first;", *words)])
    done = finish(job)
    expect_equal(done.returncode, DONE, done.stderr)
    as_usual(output, ["unshare", "-u", *shell("hostname third;", *words)])


@check
def names_that_are_not_utf_8():
    """Of the host and of the working folder: records have them escaped."""
    need_namespaces()
    folder = os.fsencode(path("here")) + b"\xff"
    os.mkdir(folder)
    os.symlink(few(), folder + b"/data")
    rename = "import os, socket, sys; socket.sethostname(b'\\xff\\xfebad'); os.execv(sys.argv[1], sys.argv[1:])"
    for ranks in (1, 2):
        output = path("no-utf-8-%d" % ranks)
        words = Ranks(ranks).words(*train_words(output, settings(data__path="data")))
        as_usual(output, ["unshare", "-u", sys.executable, "-c", rename, *words], cwd=folder)
        expect_equal(records(output, "start")[0]["host"], "\\xff\\xfebad")


@check
def a_host_name_that_is_too_long_for_ucx():
    need_namespaces()
    done = finish(start(["unshare", "-u", *shell("hostname %s;" % ("h" * 64), PROGRAM, "doctor")]))
    expect_equal(done.returncode, DONE, done.stderr)
    expect("UCX" in done.stdout, done.stdout)


@check
def a_clock_that_jumps():
    if not clock.LIBRARY:
        raise Skip("needs libfaketime (Debian: faketime)")
    need_mpi()
    output, file = path("jumps"), path("clock")
    clock.set_to(file, "+0")
    many = settings(train__max_steps=400, train__epochs=50, train__eval_interval=50)
    train(path("no-jumps"), many)
    job = start(Ranks(2, mpi=True).words(*train_words(output, many)), env=clock.environment(file))
    wait_for_step(output, job)
    for jump in ("+40000d", "-9000d", "+1"):
        clock.set_to(file, jump)
        time.sleep(0.1)
    done = finish(job)
    expect_equal(done.returncode, DONE, done.stderr)
    expect_same_result(output, result(path("no-jumps")), done.stderr)


main()
