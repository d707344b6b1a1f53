"""launch on two hosts: by a hostfile through mpirun, and by the same command on each host without it, or by torchrun: the
right ranks on the right hosts, the bits of one host, and a lost rank named."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import *
from network import Network, need_namespaces

SETTINGS = {**FEW, "train.max_steps": 20, "train.epochs": 10}
ENDLESS = {**FEW, "train.max_steps": 10 ** 6, "train.epochs": 10 ** 6, "communication.heartbeat_s": 2}
PORT = 29511


def settings(base=SETTINGS):
    return {**base, "data.path": few()}


@functools.lru_cache(None)
def one_host():
    train(path("one-host"), settings())
    return result(path("one-host"))


def need_ucx():
    version = run("--version").stdout
    if "UCX: none" in version:
        raise Skip(re.search("UCX: (.*)", version)[1])


def environment(net):
    """mpirun's command in place of ssh, and UCX over the link only, because it would find the hosts' shared memory."""
    return {**net.mpi_environment(), "HOME": path(), "UCX_TLS": "tcp"}


def parts(net, count, words, base=SETTINGS, output=None, **more):
    """The same command on every host, with the host's number."""
    address = net.hosts[0].address
    return [start([*host.inside, PROGRAM, "launch", "--no_ssh", "--num_nodes", "2", "--num_gpus", str(count),
                   "--node_rank", str(number), "--master_addr", address, "--master_port", str(PORT), *words,
                   *train_words(output, settings(base))], env=environment(net), **more)
            for number, host in enumerate(net.hosts)]


def programs_on(host):
    return {pid: line for pid, line in host.processes().items() if line.startswith(PROGRAM + " train")}


@check
def a_hostfile_and_a_filter_by_mpirun():
    need_mpi()
    need_namespaces()
    output = path("hostfile")
    with Network() as net:
        first, second = [host.name for host in net.hosts]
        with open(path("hosts"), "w") as file:
            file.write("# two of them\n%s slots=3\n%s slots=2\n" % (first, second))
        words = ["launch", "-H", path("hosts"), "-i", "%s:1,2@%s" % (first, second), "--no_ssh_check",
                 "--enable_each_rank_log", path("hostfile-logs")]
        job = start([*net.hosts[0].inside, PROGRAM, *words, *train_words(output, settings(ENDLESS))],
                    env=environment(net))
        wait_for_step(output, job, at_least=5)
        expect_equal([len(programs_on(host)) for host in net.hosts], [2, 2], "ranks on hosts")
        devices = set()
        for host in net.hosts:
            for pid in programs_on(host):
                with open("/proc/%d/environ" % pid, "rb") as file:
                    found = dict(v.split("=", 1) for v in file.read().decode().split("\0") if "=" in v)
                devices.add((host.name, found["OMPI_COMM_WORLD_RANK"], found["CIFAR_TRAIN_DEVICES"]))
        expect_equal(devices, {(first, "0", "1,2;0,1"), (first, "1", "1,2;0,1"), (second, "2", "1,2;0,1"),
                               (second, "3", "1,2;0,1")})
        job.send_signal(signal.SIGUSR1)
        expect_equal(finish(job).returncode, STOPPED, "mpirun passes it on")
    expect_equal(len(os.listdir(path("hostfile-logs"))), 4)


@check
def the_same_command_on_every_host():
    need_ucx()
    need_namespaces()
    output = path("no-ssh")
    with Network() as net:
        jobs = parts(net, 2, [], output=output)
        for done in [finish(job) for job in jobs]:
            expect_equal(done.returncode, DONE, done.stderr)
            said = done.stderr
        moved = sum(net.moved())
    expect_same_result(output, one_host())
    expect(moved > 10 ** 6, "nothing went over the cable", said)


@check
def zero_stage_3_over_ucx():
    need_ucx()
    need_namespaces()
    output = path("stage-3")
    with Network() as net:
        jobs = parts(net, 1, [], {**SETTINGS, "zero_optimization.stage": 3}, output=output)
        done = [finish(job) for job in jobs]
        expect_equal([d.returncode for d in done], [DONE, DONE], done[0].stderr, done[1].stderr)
        expect("2 processes (UCX messages)" in done[0].stderr, done[0].stderr)
    expect_same_result(output, one_host())


@check
def a_killed_rank_is_named_by_the_survivors():
    need_ucx()
    need_namespaces()
    output = path("killed")
    with Network() as net:
        jobs = parts(net, 1, [], ENDLESS, output=output)
        wait_for_step(output, *jobs, at_least=5)
        victim, = programs_on(net.hosts[1])
        os.kill(victim, signal.SIGKILL)
        first, second = [finish(job, timeout=60) for job in jobs]
        fails(LOST, first, "rank 1 (pid %d, host %s)" % (victim, net.hosts[1].name))
        expect_equal(second.returncode, 128 + signal.SIGKILL, second.stderr)
        expect_equal([programs_on(host) for host in net.hosts], [{}, {}], "ranks that live on")


@check
def a_cut_cable_is_exit_7():
    need_ucx()
    need_namespaces()
    output = path("cut")
    with Network() as net:
        jobs = parts(net, 1, [], ENDLESS, output=output)
        wait_for_step(output, *jobs, at_least=5)
        net.cut()
        first, second = [finish(job, timeout=60) for job in jobs]
        fails(LOST, first, net.hosts[1].name)
        fails(LOST, second, net.hosts[0].name)


@check
def a_stop_on_one_host_stops_both():
    need_ucx()
    need_namespaces()
    output = path("stopped")
    with Network() as net:
        jobs = parts(net, 1, [], ENDLESS, output=output)
        wait_for_step(output, *jobs, at_least=5)
        victim, = programs_on(net.hosts[1])
        os.kill(victim, signal.SIGUSR1)
        expect_equal([finish(job).returncode for job in jobs], [STOPPED, STOPPED])
        expect(checkpoints(output), "nothing was saved")


@check
def a_master_address_of_the_wrong_host():
    need_namespaces()
    with Network() as net:
        first = start([*net.hosts[0].inside, PROGRAM, "launch", "--no_ssh", "--num_nodes", "2", "--num_gpus", "1",
                       "--node_rank", "0", "--master_addr", net.hosts[1].address,
                       *train_words(path("wrong"), settings())], env=environment(net))
        fails(USAGE, finish(first), "is not an address of host " + net.hosts[0].name)


@check
def torchrun_on_two_hosts():
    need_ucx()
    need_namespaces()
    torchrun = shutil.which("torchrun")
    if not torchrun:
        raise Skip("there is no torchrun")
    output = path("torchrun")
    with Network() as net:
        jobs = [start([*host.inside, torchrun, "--nnodes", "2", "--node-rank", str(number), "--nproc-per-node", "1",
                       "--master-addr", net.hosts[0].address, "--master-port", str(PORT), "--no-python", PROGRAM,
                       *train_words(output, settings())], env=environment(net))
                for number, host in enumerate(net.hosts)]
        for done in [finish(job) for job in jobs]:
            expect_equal(done.returncode, DONE, done.stderr)
    expect_same_result(output, one_host())


@check
def the_answer_of_a_build_without_ucx():
    if "built without UCX" not in run("--version").stdout:
        raise Skip("this one has it")
    need_namespaces()
    with Network() as net:
        first, second = [finish(job) for job in parts(net, 1, [], output=path("without"))]
        fails(USAGE, first, "UCX")
        expect_equal(second.returncode, USAGE)


main()
