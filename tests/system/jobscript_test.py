"""Scripts for Slurm, Grid Engine and PBS: shellcheck's result, and runs with the schedulers' variables and stand-ins of
their programs. No scheduler is started."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import *

ROOT = os.path.realpath(os.path.join(CONFIGS, ".."))
STEPS = 700
SETTINGS = {**FEW, "train.epochs": 1000, "train.max_steps": STEPS, "train.save_interval": 200,
            "train.eval_interval": 350, "steps_per_print": 5}
ENDLESS = {**FEW, "train.max_steps": 10 ** 6, "train.epochs": 10 ** 6}
SCHEDULERS = ["slurm", "sge", "pbs"]
SECONDS_TO_SAVE = "export OMPI_MCA_odls_base_sigkill_timeout="


def settings(base=SETTINGS):
    return {**base, "data.path": few()}


def words(scheduler, output, base=SETTINGS, *more):
    return [PROGRAM, "jobscript", "--scheduler", scheduler, *train_words(output, settings(base)),
            *(["--ranks-per-node", "2"] if "--ranks-per-node" not in more else []),
            *(["--time", "00:30:00"] if "--time" not in more else []), *more]


def script(scheduler, output, base=SETTINGS, *more):
    done = finish(start(words(scheduler, output, base, *more)))
    expect_equal(done.returncode, DONE, done.stderr)
    name = path("%s-%s.sh" % (os.path.basename(output), scheduler))
    expect_equal(done.stdout.count(SECONDS_TO_SAVE + "10\n"), 1)
    with open(name, "w") as file:
        file.write(done.stdout.replace(SECONDS_TO_SAVE + "10", SECONDS_TO_SAVE + "4"))  # which Open MPI waits for twice
    os.chmod(name, 0o755)
    return name


def shellcheck(*files):
    if not shutil.which("shellcheck"):
        raise Skip("there is no shellcheck")
    done = finish(start(["shellcheck", *files]))
    expect_equal(done.returncode, 0, done.stdout)


@functools.lru_cache(None)
def site(scheduler):
    """(PATH, variables) of a job of two slots on this host. asked() has the arguments of the scheduler's commands."""
    folder = path("site-" + scheduler)
    os.makedirs(folder)

    def command(name, body):
        with open(os.path.join(folder, name), "w") as file:
            file.write("#!/bin/bash\n" + body)
        os.chmod(os.path.join(folder, name), 0o755)

    note = 'echo "${0##*/} $*" >>"%s/asked"\n' % folder
    command("scontrol", 'if [ "$1 $2" = "show hostnames" ]; then echo localhost; else %s fi\n' % note)
    command("qsub", note)
    with open(os.path.join(folder, "hosts"), "w") as file:
        file.write({"sge": "localhost 2 all.q UNDEFINED\n", "pbs": "localhost\nlocalhost\n", "slurm": ""}[scheduler])
    hosts = os.path.join(folder, "hosts")
    variables = {"slurm": {"SLURM_JOB_ID": "77", "SLURM_JOB_NODELIST": "localhost", "SLURM_NTASKS": "2",
                           "SLURM_NTASKS_PER_NODE": "2"},
                 "sge": {"JOB_ID": "77", "PE_HOSTFILE": hosts, "NSLOTS": "2", "NHOSTS": "1"},
                 "pbs": {"PBS_JOBID": "77.here", "PBS_NODEFILE": hosts, "PBS_O_WORKDIR": path(),
                         "JOB_SCRIPT": "/the/job.sh"}}[scheduler]
    # Open MPI would ask Slurm itself; these variables are not those of a real job of its.
    variables["OMPI_MCA_ras"] = "^slurm"
    variables["OMPI_MCA_plm"] = "^slurm"
    return {**variables, "PATH": folder + ":" + os.environ["PATH"]}


def asked(scheduler):
    try:
        with open(path("site-" + scheduler, "asked")) as file:
            return file.read().splitlines()
    except FileNotFoundError:
        return []


def submit(scheduler, name, env=None):
    return start(["bash", name], env={**site(scheduler), **(env or {})}, cwd=path())


def expect_nothing_left(job):
    """No process of the job is left, its timer included."""
    def session(pid):
        try:
            return os.getsid(pid)
        except OSError:  # gone meanwhile
            return None

    for _ in range(100):
        left = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if session(pid) == job.pid]
        if not left:
            return
        time.sleep(0.05)
    raise AssertionError(finish(start(["ps", "-o", "pid,args", "-p", ",".join(map(str, left))])).stdout)


@functools.lru_cache(None)
def uninterrupted():
    train(path("uninterrupted"), settings(), ranks=Ranks(2))
    return result(path("uninterrupted"))


def array_script(scheduler):
    sweep = finish(start([PROGRAM, "sweep", "--jobscript", scheduler, "--time", "1h", "--repeats", "3", "--config",
                          DEFAULT, "--set", "data.path=" + few(), "--ranks", "1"]))
    expect_equal(sweep.returncode, DONE, sweep.stderr)
    name = path("sweep-%s.sh" % scheduler)
    with open(name, "w") as file:
        file.write(sweep.stdout)
    return name


@check
def shellcheck_finds_nothing():
    shellcheck(*map(array_script, SCHEDULERS), *[script(s, path("checked")) for s in SCHEDULERS],
               *[os.path.join(ROOT, "tools", "jobs", name) for name in ("slurm.sh", "abci.sh", "miyabi.sh")])


@check
def scripts_to_be_edited_fit_their_configurations():
    """Their configurations are valid, and the batch fits the number of ranks."""
    asks = {"slurm": r"--nodes=(\d+)[\s\S]*--ntasks-per-node=(\d+)", "abci": r"rt_F=(\d+)[\s\S]*ranks_per_node=(\d+)",
            "miyabi": r"select=(\d+):mpiprocs=(\d+)"}
    for name, pattern in asks.items():
        with open(os.path.join(ROOT, "tools", "jobs", name + ".sh")) as file:
            text = file.read()
        nodes, each = map(int, re.search(pattern, text).groups())
        words = re.findall(r"(?m)^config=(.*)$", text)
        for file in re.findall(r"(?m)^ds_config=(.*)$", text):
            expect('--deepspeed_config "$ds_config"' in text, name)
            words += ["--deepspeed_config", file]
        done = run("config", "check", *words, "--ranks", str(nodes * each))
        expect_equal(done.returncode, DONE, "%s: %s" % (name, done.stderr))


def a_job(scheduler, code, expecting):
    """Stopped by the scheduler's signal, run again, and finished: the bits of an uninterrupted run."""
    need_mpi()
    output = path("job-" + scheduler)
    name = script(scheduler, output)
    job = submit(scheduler, name)
    wait_for_step(output, job, at_least=5)
    job.send_signal(signal.SIGUSR1)  # to the shell alone
    expect_equal(finish(job).returncode, code)
    expect_equal(asked(scheduler)[-1:], expecting)
    expect(0 < max(checkpoints(output)) < STEPS, "it saved at step %d" % max(checkpoints(output)))
    job = submit(scheduler, name)
    done = finish(job)
    expect_equal(done.returncode, DONE, done.stderr)
    expect_nothing_left(job)
    expect_same_result(output, uninterrupted())


@check
def a_job_of_slurm():
    a_job("slurm", STOPPED, ["scontrol requeue 77"])


@check
def a_job_of_grid_engine():
    a_job("sge", 99, [])


@check
def grid_engine_must_give_each_host_as_many_slots_as_gpus():
    with open(path("three"), "w") as file:
        file.write("localhost 3 all.q UNDEFINED\n")
    job = submit("sge", script("sge", path("gpus"), ENDLESS, "--gpus-per-node", "2"), {"PE_HOSTFILE": path("three")})
    fails(USAGE, finish(job), "host localhost has 3 slots, not 2", "allocation_rule is 2")


@check
def a_job_of_pbs():
    a_job("pbs", STOPPED, ["qsub -v JOB_SCRIPT=/the/job.sh /the/job.sh"])


def a_timer(scheduler, code):
    need_mpi()
    output = path("timer-" + scheduler)
    job = submit(scheduler, script(scheduler, output, ENDLESS, "--time", "66s", "--signal-before", "60"))
    begin = time.monotonic()
    done = finish(job)
    expect_equal(done.returncode, code, done.stderr)
    expect(5 < time.monotonic() - begin < 40, "after %.0f s" % (time.monotonic() - begin))
    expect(checkpoints(output), "nothing was saved")
    expect("too short to save once" not in done.stderr, done.stderr)


@check
def grid_engine_has_a_timer_in_place_of_its_signal():
    a_timer("sge", 99)


@check
def pbs_has_a_timer_in_place_of_a_signal():
    a_timer("pbs", STOPPED)


@check
def a_cancelled_job_is_not_queued_again():
    need_mpi()
    output = path("cancelled")
    before = asked("slurm")
    job = submit("slurm", script("slurm", output, ENDLESS))
    wait_for_step(output, job, at_least=5)
    job.send_signal(signal.SIGTERM)
    expect_equal(finish(job).returncode, STOPPED)
    expect_equal(asked("slurm"), before)


@check
def an_array_job_is_a_sweep():
    output = path("array")
    common = [PROGRAM, "sweep", "--config", DEFAULT, *[w for k, v in settings({**FEW, "train.epochs": 1}).items() for w in ("--set", "%s=%s" % (
        k, str(v).lower() if isinstance(v, bool) else v))], "--grid", "train.label_smoothing=0,0.1", "--ranks", "1",
              "--output", output]
    done = finish(start([*common, "--jobscript", "slurm", "--time", "10m"]))
    expect_equal(done.returncode, DONE, done.stderr)
    expect("#SBATCH --array=0-1\n" in done.stdout, done.stdout)
    with open(path("array.sh"), "w") as file:
        file.write(done.stdout)
    for task in "01":
        ended = finish(submit("slurm", path("array.sh"), {"SLURM_ARRAY_TASK_ID": task}))
        expect_equal(ended.returncode, DONE, ended.stderr)
    fails(USAGE, finish(submit("slurm", path("array.sh"), {"SLURM_ARRAY_TASK_ID": "2"})), "there is no run 2")
    table = finish(start(common))  # finds the runs done, and adds them up
    expect_equal(table.returncode, DONE, table.stderr)
    expect_equal(table.stdout.count("1 of 1"), 2, table.stdout)


@check
def words_are_not_commands():
    """What a configuration says reaches mpirun, here a stand-in, as it is: the job's shell runs none of it."""
    folder = path("quoted")
    os.makedirs(folder)
    with open(os.path.join(folder, "mpirun"), "w") as file:
        file.write('#!/bin/sh\nprintf "%s\\n" "$@" >words\n')
    os.chmod(os.path.join(folder, "mpirun"), 0o755)
    hostile = "%s/it's $(touch 1); `touch 2`" % folder
    for scheduler in SCHEDULERS:
        at = script(scheduler, hostile, SETTINGS, "--set", "data.path=$(touch 3)")
        env = {**os.environ, **site(scheduler)}
        expect_equal(finish(start([at], cwd=folder, env={**env, "PATH": folder + ":" + env["PATH"]})).returncode, DONE)
        with open(os.path.join(folder, "words")) as file:
            found = file.read().splitlines()
        expect_in("output=" + hostile, found)
        expect_in("data.path=$(touch 3)", found)
        expect_equal([name for name in os.listdir(folder) if name in "123"], [])


@check
def mistakes():
    for more, culprit in [(["--time", "soon"], "--time 'soon'"), (["--time", "60s"], "--signal-before"),
                          (["--name", "a b"], "--name"), (["--name", "1"], "--name"), (["--queue", "x;y"], "--queue"),
                          (["--nodes", "0"], "--nodes"), (["--ranks-per-node", "3"], "train_batch_size")]:
        fails(USAGE, finish(start(words("slurm", path("mistake"), SETTINGS, *more))), culprit)
    fails(USAGE, run("jobscript", "--scheduler", "lsf", "--time", "1h"), "'lsf': give slurm, sge or pbs")
    fails(USAGE, run("jobscript", "--scheduler", "slurm"), "--time")
    fails(USAGE, run("jobscript"), "--scheduler")


@check
def a_time_that_is_too_short_is_warned_of():
    done = finish(start(words("slurm", path("short"), SETTINGS, "--time", "150s")))
    expect_equal(done.returncode, DONE, done.stderr)
    expect("warning: --time 150s leaves 30 s" in done.stderr, done.stderr)
    output = path("short-run")
    done = train(output, settings({**FEW, "train.max_steps": 2}), env={"CIFAR_TRAIN_JOB_END": str(int(time.time()) + 30)})
    expect("too short to save once" in done.stderr, done.stderr)
    done = train(output + "2", settings({**FEW, "train.max_steps": 2}),
                 env={"CIFAR_TRAIN_JOB_END": str(int(time.time()) + 3000)})
    expect("too short to save once" not in done.stderr, done.stderr)
    for wrong, part in ("abc", "is not a time"), ("1000", "is over for"):
        done = train(output, settings({**FEW, "train.max_steps": 2}), env={"CIFAR_TRAIN_JOB_END": wrong})
        expect("warning: CIFAR_TRAIN_JOB_END=" in done.stderr and part in done.stderr, done.stderr)


main()
