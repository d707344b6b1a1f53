"""launch on one host: the lines that it makes, its words of DeepSpeed's, and ranks that it starts without mpirun; ranks
that others start with RANK and WORLD_SIZE."""
import os
import socket
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import *

SETTINGS = {**FEW, "train.max_steps": 12, "train.epochs": 10}
ENDLESS = {**FEW, "train.max_steps": 10 ** 6, "train.epochs": 10 ** 6}
# Nothing of what starts these tests may look like a launcher.
CLEAN = {name: None for name in os.environ if name.startswith(("SLURM_", "OMPI_COMM_", "PMI", "CUDA_VISIBLE", "NCCL", "UCX",
                                                              "PYTHON", "MLFLOW", "MV2"))}


def settings(base=SETTINGS):
    return {**base, "data.path": few()}


def launch(*words, env=None, **options):
    return finish(start([PROGRAM, "launch", *words], env={**CLEAN, "HOME": path(), **(env or {})}, **options))


def line(*words, **options):
    """The command line of a dry run."""
    done = launch("--dry-run", *words, **options)
    expect_equal(done.returncode, DONE, done.stderr)
    return done.stdout.rstrip("\n").replace(PROGRAM, "cifar-train")


def written(name, text):
    with open(path(name), "w") as file:
        file.write(text)
    return path(name)


@functools.lru_cache(None)
def expected():
    """The result of the same run as threads of one process."""
    train(path("expected"), settings(), ranks=Ranks(2))
    return result(path("expected"))


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


# ---- lines

@check
def hosts_become_a_line_of_mpirun():
    need_mpi()
    hosts = written("hosts", "w0 slots=2\nw1 slots=4\n")
    expect_equal(line("-H", hosts, "--config", "a.yaml", "-e", "3"),
                 "mpirun -np 6 --host w0:2,w1:4 --map-by slot --bind-to none cifar-train train --config a.yaml -e 3")
    expect_equal(line("--hostfile", hosts, "-i", "w1:0,2@w0", "--launcher", "OpenMPI", "train", "--epochs", "3"),
                 "mpirun -np 4 --host w0:2,w1:2 --map-by slot --bind-to none -x 'CIFAR_TRAIN_DEVICES=0,1;0,2' cifar-train train "
                 "--epochs 3")
    expect_equal(line("-H", hosts, "-e", "w0", "--bind_cores_to_rank"),
                 "mpirun -np 4 --host w1:4 --map-by slot --bind-to none -x CIFAR_TRAIN_CORES=all cifar-train train")
    expect_equal(line("--num_gpus", "2", "bench", "step"),
                 "mpirun -np 2 --host localhost:2 --map-by slot --bind-to none cifar-train bench step")
    expect_equal(line("--num_gpus", "1"), "mpirun -np 1 --host localhost:1 --map-by slot --bind-to none cifar-train train")


@check
def hosts_become_a_line_of_srun():
    hosts = written("hosts", "w0 slots=2\nw1 slots=2\n")
    expect_equal(line("-H", hosts, "--launcher", "slurm", "--config", "a.yaml"),
                 "srun -n 4 --nodes=2 --ntasks-per-node=2 --nodelist=w0,w1 --mpi=pmix --export=ALL cifar-train train "
                 "--config a.yaml")
    expect_equal(line("--launcher", "slurm", env={"SLURM_NTASKS": "8", "SLURM_JOB_NUM_NODES": "2"}),
                 "srun -n 8 --nodes=2 --mpi=pmix --export=ALL cifar-train train")


@check
def environment_files_are_exported():
    need_mpi()
    here = path("with-env")
    os.makedirs(here)
    with open(path(".deepspeed_env"), "w") as file:  # HOME's
        file.write("A=home\nNCCL_DEBUG=INFO\nQUOTED=\"two words\"\n")
    with open(os.path.join(here, ".deepspeed_env"), "w") as file:
        file.write("# a comment\n\nA=here and now\n")
    try:
        text = line("--num_gpus", "1", env={"UCX_TLS": "tcp", "NOT_EXPORTED": "1"}, cwd=here)
        expect_equal(text, "mpirun -np 1 --host localhost:1 --map-by slot --bind-to none -x 'A=here and now' -x NCCL_DEBUG=INFO "
                     "-x 'QUOTED=two words' -x UCX_TLS=tcp cifar-train train")
        with open(os.path.join(here, "other"), "w") as file:
            file.write("B=1\nno variable\n")
        fails(USAGE, launch("--dry-run", "--num_gpus", "1", env={"DS_ENV_FILE": "other"}, cwd=here),
              "other:2: expects VAR=VAL, found 'no variable'")
    finally:
        os.remove(path(".deepspeed_env"))


@check
def options_of_launching_work_under_train_too():
    need_mpi()
    output = path("by-train")
    done = finish(start([PROGRAM, *train_words(output, settings()), "--num_gpus", "2"], env=CLEAN))
    expect_equal(done.returncode, DONE, done.stderr)
    expect_same_result(output, expected())
    expect("processes on host" in done.stderr, "no ranks by mpirun", done.stderr)


# ---- mistakes

@check
def mistakes_have_deepspeeds_words():
    hosts = written("hosts", "w0 slots=2\nw1 slots=2\n")
    bad = [("w0", "Hostfile contains a bad entry: w0, unable to proceed with launching"),
           ("slots=4 w0", "Hostfile contains a bad entry: slots=4 w0, unable to proceed with launching"),
           ("w0 slots=1\nw0 slots=2", "Hostfile contains multiple entries for w0, unable to proceed with launching"),
           ("# nothing\n", "Hostfile is empty or not formatted correctly, unable to proceed with launching.")]
    for text, words in bad:
        fails(USAGE, launch("-H", written("bad-hosts", text)), words)
    for words, culprit in [
            (["-i", "w5"], "Hostname 'w5' not found in hostfile"),
            (["-i", "w0:9"], "No slot '9' specified on host 'w0'"),
            (["-e", "w0:9"], "No slot '9' specified on host 'w0'"),
            (["-i", "w0", "-e", "w1"], "include_str and exclude_str are mutually exclusive."),
            (["-i", "w0:x"], "invalid literal for int() with base 10: 'x'"),
            (["-e", "w0@w1"], "no slot is left"),
            (["-i", "w0", "--num_gpus", "1"], "Cannot specify num_nodes/gpus with include/exclude"),
            (["--num_nodes", "3"], "--num_nodes 3"),
            (["--launcher", "mvapich"], "mvapich is not supported by this version"),
            (["--launcher", "rsh"], "give openmpi, slurm or pdsh"),
            (["--autotuning", "run"], "--autotuning"),
            (["--no_ssh"], "--node_rank"),
            (["--no_ssh", "--node_rank", "0"], "--master_addr"),
            (["--no_ssh", "--node_rank", "5", "--master_addr", "x"], "--node_rank 5"),
            (["--launcher_args", "'open"], "a quote is not closed"),
            (["--master_port", "70000"], "--master_port"),
            (["train.py", "--deepspeed"], "Python script"),
            (["eval"], "launch starts train and bench"), (["no-verb"], "no-verb")]:
        fails(USAGE, launch("-H", hosts, *words), culprit)
    fails(USAGE, launch("--config", "x.yaml", "--include", "w0", "--hostfile", hosts),
          "--include comes after '--config', where the options of the ranks begin: give the options of launch first")
    fails(USAGE, launch("--num_nodes", "2"), "Num nodes is >1 but no extra nodes available via hostfile")
    for wrong, said in ("0", "1 or more"), ("1.5", "1 or more"), ("x", "1 or more"), ("99999", "from 1 to 65536"):
        fails(USAGE, launch("--num_gpus", wrong), "--num_gpus: give a ", said)
    fails(USAGE, launch("--num_gpus", "2", "--bind_cores_to_rank", env={"KMP_AFFINITY": "compact"}), "KMP_AFFINITY")
    fails(USAGE, launch("--num_gpus", "2", env={"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2"}),
          "leave one of the two out")


@check
def root_is_refused_in_one_line():
    if os.geteuid() != 0:
        raise Skip("only root is refused")
    fails(USAGE, launch("--num_gpus", "2", env={"OMPI_ALLOW_RUN_AS_ROOT": None, "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": None}),
          "mpirun refuses to run as root")


@check
def given_files_must_exist():
    for option in (["-H", path("nowhere")], ["--hostfile", "nowhere"], ["-H", ""]):
        fails(USAGE, launch("--dry-run", "--num_gpus", "1", *option), "Unable to find hostfile '%s'" % option[1])
    fails(USAGE, launch("--dry-run", "--num_gpus", "1", env={"DS_ENV_FILE": "nowhere"}), "DS_ENV_FILE names 'nowhere'")


@check
def ignored_options_are_reported():
    need_mpi()
    done = launch("--dry-run", "--num_gpus", "1", "--launcher", "pdsh", "--master_addr", "x", "--node_rank", "0",
                  env={"CUDA_VISIBLE_DEVICES": "1,3"})
    for words in ["--node_rank is left out: without --no_ssh", "mpirun replaces pdsh", "--master_addr and --master_port are left out",
                  "Detected VISIBLE_DEVICES=1,3 but ignoring it because"]:
        expect(words in done.stderr, words, done.stderr)
    done = launch("--dry-run", env={"CUDA_VISIBLE_DEVICES": "1,3"})
    expect("Detected VISIBLE_DEVICES=1,3: setting --include=localhost:1,3" in done.stderr, done.stderr)
    expect("mpirun -np 2 --host localhost:2 --map-by slot --bind-to none -x CIFAR_TRAIN_DEVICES=1,3 " in done.stdout, done.stdout)


@functools.lru_cache(None)
def folder_of_a_deaf_ssh():
    """A folder with an ssh that writes its arguments to ssh.log and fails."""
    folder = path("fake-ssh")
    os.makedirs(folder)
    with open(os.path.join(folder, "ssh"), "w") as file:
        file.write("#!/bin/sh\necho \"$@\" >>\"$0.log\"\nexit 255\n")
    os.chmod(os.path.join(folder, "ssh"), 0o755)
    return folder


def without_ssh(*words):
    """launch, and the arguments of ssh."""
    log = os.path.join(folder_of_a_deaf_ssh(), "ssh.log")
    open(log, "w").close()
    done = launch(*words, env={"PATH": folder_of_a_deaf_ssh() + ":" + os.environ["PATH"]})
    with open(log) as file:
        return done, file.read()


@check
def a_host_that_ssh_does_not_reach():
    need_mpi()
    for hosts, other in [("w0 slots=1\nw1 slots=1\n", "w0"),
                         ("localhost slots=1\n127.0.0.1 slots=1\n%s slots=1\nw1 slots=1\n" % socket.gethostname(), "w1")]:
        done, asked = without_ssh("-H", written("hosts", hosts), "--ssh_port", "2222")
        fails(USAGE, done, "Using hostfile at ", " but host=%s was not reachable via ssh." % other)
        expect_equal(asked, "-o PasswordAuthentication=no -o BatchMode=yes -o ConnectTimeout=10 -p 2222 %s hostname\n" % other)


@check
def this_host_needs_no_ssh():
    hosts = written("hosts", "localhost slots=1\n127.0.0.1 slots=1\n")
    alone = launch("--dry-run", "-H", hosts, env={"PATH": path()})  # without mpirun
    expect_equal(len(re.findall(" WORLD_SIZE=2 ", alone.stdout)), 2, alone.stdout, alone.stderr)
    need_mpi()
    for names in ["127.0.1.1 slots=2", "localhost slots=1\n%s slots=1" % socket.gethostname(),
                  "LOCALHOST slots=1\n%s slots=1" % socket.gethostname().upper(), "localhost.localdomain slots=2"]:
        expect_equal(line("-H", written("more-hosts", names)), "mpirun -np 2 --host localhost:2 --map-by slot --bind-to none cifar-train train")
    done, asked = without_ssh("-H", hosts, *train_words(path("no-ssh"), settings()))
    expect_equal(done.returncode, DONE, done.stderr)
    expect_equal(asked, "")
    expect_same_result(path("no-ssh"), expected())
    forced = launch("--dry-run", "-H", hosts, "--force_multi")
    expect("--host localhost:1,127.0.0.1:1 " in forced.stdout, forced.stdout, forced.stderr)


# ---- ranks that launch starts by itself

def by_itself(output, base=SETTINGS, number=2, words=()):
    return [PROGRAM, "launch", "--no_ssh", "--num_gpus", str(number), *words, *train_words(output, settings(base))]


@check
def ranks_without_mpirun_give_the_same_bits():
    output = path("by-itself")
    done = finish(start(by_itself(output), env=CLEAN))
    expect_equal(done.returncode, DONE, done.stderr)
    expect("2 processes on host" in done.stderr, done.stderr)
    expect_same_result(output, expected())


@check
def srun_may_start_one_launch_on_each_host():
    output, port = path("by-srun"), free_port()
    def task(number, tasks="1(x2)", nodes="2"):
        words = ["--num_nodes", nodes, "--node_rank", str(number), "--master_addr", "127.0.0.1", "--master_port", str(port)]
        return start(by_itself(output, number=2, words=words),
                     env={**CLEAN, "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_PROCID": str(number), "SLURM_NODEID": str(number),
                          "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_TASKS_PER_NODE": tasks, "CIFAR_TRAIN_JOB": "srun", "PMIX_RANK": str(number)})
    for job in [task(0), task(1)]:
        done = finish(job)
        expect_equal(done.returncode, DONE, done.stderr)
    expect_same_result(output, expected())
    fails(USAGE, finish(task(0, tasks="2")), "srun --ntasks-per-node=1")
    fails(USAGE, finish(task(0, nodes="3")), "on each of 2 hosts", "give --num_nodes 2")


@check
def ranks_receive_their_place():
    text = line("--no_ssh", "--num_nodes", "2", "--num_gpus", "2", "--node_rank", "1", "--master_addr", "10.0.0.1",
                "--master_port", "4711", "--config", "a.yaml").splitlines()
    expect_equal(len(text), 2, text)
    for local, words in enumerate(text):
        for variable in ["RANK=%d" % (2 + local), "LOCAL_RANK=%d" % local, "WORLD_SIZE=4", "LOCAL_WORLD_SIZE=2",
                         "CROSS_RANK=1", "CROSS_SIZE=2", "MASTER_ADDR=10.0.0.1", "MASTER_PORT=4711"]:
            expect(" %s " % variable in words, variable, words)
        expect(words.endswith(" cifar-train train --config a.yaml"), words)


@check
def a_signal_stops_all_ranks_in_order():
    output = path("stopped")
    job = start(by_itself(output, ENDLESS), env=CLEAN)
    wait_for_step(output, job, at_least=3)
    job.send_signal(signal.SIGUSR1)
    done = finish(job)
    expect_equal(done.returncode, STOPPED, done.stderr)
    expect(checkpoints(output), "nothing was saved")


@check
def a_killed_rank_ends_the_others():
    output = path("killed")
    job = start(by_itself(output, ENDLESS, 4), env=CLEAN)
    wait_for_step(output, job, at_least=3)
    ranks = sorted(children(job.pid))
    expect_equal(len(ranks), 4)
    os.kill(ranks[1], signal.SIGKILL)
    begin = time.monotonic()
    done = fails(128 + signal.SIGKILL, finish(job), "(pid %d" % ranks[1], "was lost")
    expect(time.monotonic() - begin < 15, "it took long", done)


@check
def no_rank_outlives_the_launcher():
    output = path("orphans")
    job = start(by_itself(output, ENDLESS), env=CLEAN)
    wait_for_step(output, job, at_least=3)
    ranks = children(job.pid)
    job.kill()
    finish(job)
    for _ in range(100):
        left = [pid for pid in ranks if os.path.exists("/proc/%d" % pid)]
        if not left:
            return
        time.sleep(0.05)
    raise AssertionError("ranks live on: %r" % left)


@check
def logs_of_ranks_and_the_launchers_number():
    output, logs = path("logged"), path("logs")
    job = start(by_itself(output, words=["--enable_each_rank_log", logs, "--save_pid"]), env=CLEAN)
    pid_file = "/tmp/%d.deepspeed" % job.pid
    while job.poll() is None and not (os.path.exists(pid_file) and os.path.getsize(pid_file)):
        time.sleep(0.001)
    with open(pid_file) as file:
        expect_equal(file.read(), str(job.pid))
    done = finish(job)
    expect(not os.path.exists(pid_file), "the file of the launcher's number is left")
    expect_equal(done.returncode, DONE, done.stderr)
    expect_equal(done.stdout, "", "all goes into the logs")
    names = sorted(os.listdir(logs))
    expect(len(names) == 2 and re.fullmatch(r"\d{14}_rank0\.log", names[0])
           and re.fullmatch(r"\d{14}_rank1\.log", names[1]), names)
    with open(os.path.join(logs, names[0])) as log:
        expect("Finished Training" in log.read(), "nothing in rank 0's log")


@check
def each_rank_keeps_to_its_cores():
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise Skip("there is one core")
    pair = cores[:2]
    output = path("bound")
    job = start(by_itself(output, ENDLESS, words=["--bind_core_list", "%d,%d" % tuple(pair)]), env=CLEAN)
    try:
        wait_for_step(output, job, at_least=3)
        bound = [sorted(os.sched_getaffinity(pid)) for pid in sorted(children(job.pid))]
        expect_equal(bound, [[pair[0]], [pair[1]]])
    finally:
        job.send_signal(signal.SIGUSR1)
        finish(job)
    fails(USAGE, finish(start(by_itself(path("crowded"), words=["--bind_core_list", str(pair[0])]), env=CLEAN)),
          "At least one core must be assigned to each rank")
    fails(USAGE, finish(start(by_itself(path("crowded"), words=["--bind_core_list", "%d,4001" % pair[0]]), env=CLEAN)),
          "core 4001 of --bind_core_list", "does not exist, or is not allowed")
    fails(USAGE, finish(start(by_itself(path("crowded"), words=["--bind_core_list", "1,0"]), env=CLEAN)),
          "sub ranges must not overlap")


# ---- ranks of others

def ranks_of_others(output, size=2, base=SETTINGS, port=None, words=(), **more):
    """Starts each rank as a job. more: rank N's variables as rankN=variables."""
    shared = {**CLEAN, "WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port or free_port())}
    return [start([PROGRAM, *train_words(output, settings(base)), *words],
                  env={**shared, "RANK": str(rank), "LOCAL_RANK": str(rank), **more.get("rank%d" % rank, {})})
            for rank in range(size)]


@check
def processes_with_rank_and_world_size_meet():
    output = path("met")
    for done in [finish(job) for job in ranks_of_others(output, words=["--local_rank", "0"])]:
        expect_equal(done.returncode, DONE, done.stderr)
    expect_same_result(output, expected())


@check
def ranks_that_do_not_match_are_named():
    first, second = [finish(job) for job in ranks_of_others(path("sizes"), rank1={"WORLD_SIZE": "4"})]
    fails(USAGE, first, "has WORLD_SIZE=4, and rank 0 2")
    fails(USAGE, second, "has WORLD_SIZE=4, and rank 0 2")
    first, *others = [finish(job) for job in ranks_of_others(
        path("twice"), 4, words=["--set", "communication.timeout_s=20"], rank2={"RANK": "1"})]
    fails(USAGE, first, "two ranks have the same number: rank 1 (pid ")
    for done in others:
        expect(done.returncode in (USAGE, LOST), done.returncode, done.stderr)  # lost: who called after the end
    first, second = [finish(job) for job in ranks_of_others(
        path("jobs"), words=["--set", "communication.timeout_s=3"], rank1={"CIFAR_TRAIN_JOB": "another"})]
    fails(LOST, first, "rank 1 did not connect to host ")
    fails(USAGE, second, "is rank 0 of another job")
    expect("not a rank of this job, but rank" in first.stderr, first.stderr)


@check
def a_rank_that_does_not_come():
    job, other = ranks_of_others(path("late"), words=["--set", "communication.timeout_s=1"], rank1={"RANK": "x"})
    fails(LOST, finish(job), "rank 1 did not connect", "within 1 s")
    fails(USAGE, finish(other), "RANK='x'")
    fails(USAGE, run("train", "--config", DEFAULT, env={**CLEAN, "RANK": "0", "WORLD_SIZE": "2"}), "MASTER_ADDR is not set")


@check
def a_port_in_use():
    with socket.socket() as holder:
        holder.bind(("0.0.0.0", 0))
        holder.listen()
        port = holder.getsockname()[1]
        first, second = ranks_of_others(path("in-use"), port=port, words=["--set", "communication.timeout_s=2"])
        fails(USAGE, finish(first), "TCP port 127.0.0.1:%d is in use" % port)
        fails(LOST, finish(second), "is another program's, or rank 0 is frozen")


@check
def variables_that_contradict_each_other():
    for variables, culprit in [
            ({"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2", "RANK": "0", "WORLD_SIZE": "4"}, "WORLD_SIZE=4"),
            ({"SLURM_STEP_ID": "0", "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "2", "RANK": "0", "WORLD_SIZE": "4"},
             "SLURM_STEP_NUM_TASKS=2"),
            ({"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2", "PMIX_RANK": "1"}, "PMIX_RANK=1"),
            ({"PMIX_RANK": "0"}, "PMIX_RANK='0'")]:
        fails(USAGE, run("train", "--config", DEFAULT, env={**CLEAN, "SLURM_JOB_ID": None, **variables}), culprit)


@check
def a_launcher_of_one_process_means_one_rank():
    if len(os.sched_getaffinity(0)) < 2:
        raise Skip("there is one core")

    def said(*words, pattern, **variables):
        done = succeeds(*words, env={**CLEAN, **variables})
        return re.search(pattern, done.stdout + done.stderr)[1]

    def ranks(*words, **variables):
        return said("config", "show", DEFAULT, *words, pattern=r"follows on (\d+ ranks?)", **variables)

    step = {"SLURM_STEP_ID": "0", "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"}
    several, torchrun = ranks(), {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}
    expect(several != "1 rank", several)
    for launcher in [torchrun, step, {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1"},
                     {"PMI_RANK": "0", "PMI_SIZE": "1"}]:
        expect_equal(ranks(**launcher), "1 rank", launcher)
        expect_equal(ranks("--ranks", "2", **launcher), "2 ranks", launcher)
    for own in [{"RANK": "0"}, {"WORLD_SIZE": "1"}, {**step, "SLURM_PTY_PORT": "4711"}]:  # a script's, a shell's
        expect_equal(ranks(**own), several, own)
    expect_equal(said("train", *train_words(path("one"), {**settings(), "train.max_steps": 1}), **torchrun,
                      pattern=r"micro-steps x (\d+) ranks"), "1")
    expect_equal(said("sweep", "--config", DEFAULT, "--grid", "seed=1", "--jobscript", "slurm", "--time", "1h", **torchrun,
                      pattern=r"--ranks (\d+)"), "1")


@check
def torchrun_starts_ranks():
    torchrun = shutil.which("torchrun")
    if not torchrun:
        raise Skip("there is no torchrun")
    output = path("torchrun")
    done = finish(start([torchrun, "--nproc-per-node", "2", "--master-port", free_port(), "--no-python", PROGRAM,
                         *train_words(output, settings())], env=CLEAN))
    expect_equal(done.returncode, DONE, done.stderr)
    expect_same_result(output, expected())
    done = finish(start([torchrun, "--standalone", "--nproc-per-node", "1", "--no-python", PROGRAM,
                         *train_words(path("torchrun-1"), settings())], env=CLEAN))
    expect_equal(done.returncode, DONE, done.stderr)
    expect("x 1 ranks" in done.stderr, done.stderr)


main()
