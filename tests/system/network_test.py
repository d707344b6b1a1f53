"""Two hosts: the bits of one, an error that names a lost link or host, and the counted bytes on the link."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import *
from network import Network, need_namespaces

SETTINGS = {"train.max_steps": 40, "steps_per_print": 1, "data.shuffle": True, "gradient_clipping": 0.5,
            "data.augment": "[{random_crop: {padding: 4}}, {flip: {p: 0.5}}]", "data.dataset": "synthetic"}
STEPS = 50
PARAMETERS = 62006  # of the tutorial's network
ENDLESS = {"train.max_steps": 10 ** 6, "train.epochs": 10 ** 6, "steps_per_print": 1, "data.dataset": "synthetic",
           "communication.heartbeat_s": 2}


def need_two_hosts():
    need_mpi()
    need_namespaces()


@functools.lru_cache(None)
def one_host():
    train(path("one-host"), {**SETTINGS, "data.path": synthetic()})
    return result(path("one-host"))


def two_hosts(stage, number=2, link=None, **settings):
    """Trains on two hosts and compares. Returns the output."""
    need_two_hosts()
    output = path("two-hosts-%d-%d-%s" % (stage, number, "-".join(map(str, settings.values()))))
    changed = {**SETTINGS, "data.path": synthetic(), "zero_optimization.stage": stage,
               **{"zero_optimization." + key: value for key, value in settings.items()}}
    with Network() as net:
        if link:
            net.shape(link)
        done = train(output, changed, ranks=net.ranks(number))
    expect_same_result(output, one_host(), "stage %d with %d ranks on two hosts" % (stage, number))
    return done


@check
def two_hosts_stage_0():
    expect("2 processes (MPI messages)" in two_hosts(0).stderr, "the ranks do not seem to be on two hosts")


@check
def two_hosts_stage_3():
    two_hosts(3)


@check
def two_ranks_on_each_of_two_hosts():
    two_hosts(2, number=4)


def overlap_changes_no_bit(stage):
    for overlap in (True, False):
        two_hosts(stage, link="200mbit", overlap_comm=overlap)


@check
def overlap_changes_no_bit_stage_1():
    overlap_changes_no_bit(1)


@check
def overlap_changes_no_bit_stage_2():
    overlap_changes_no_bit(2)


@check
def overlap_changes_no_bit_stage_3():
    overlap_changes_no_bit(3)


def gradients_in_16_bits(stage):
    """Half the bytes, the losses of f32 except for rounding, and the same weights on all ranks."""
    need_two_hosts()
    losses, moved = {}, {}
    with Network() as net:
        for kind in ("fp32", "bf16", "fp16"):
            output = path("wire-%d-%s" % (stage, kind))
            done = train(output, {**SETTINGS, "data.path": synthetic(), "zero_optimization.stage": stage,
                                  "communication.reproducible": False, "communication_data_type": kind,
                                  "communication.check_interval": 10 if stage < 3 else 0}, ranks=net.ranks(2))
            losses[kind] = [r["loss"] for r in records(output, "step")]
            moved[kind] = records(output, "end")[-1]["traffic"]
            said = "communication_data_type %s: gradients travel in 16 bits and are added in f32" % kind
            expect((said in done.stderr) == (kind != "fp32"), done.stderr)
    for kind in ("bf16", "fp16"):
        expect_equal(moved[kind]["elements"], moved["fp32"]["elements"], kind)
        # Stages 1 to 3 gather parameters too, which are f32.
        share = moved[kind]["bytes"] / moved["fp32"]["bytes"]
        expect(abs(share - (0.5 if stage == 0 else 0.75)) < 0.02, "stage %d, %s: %.3f of the bytes" % (stage, kind, share))
        apart = max(abs(a - b) / b for a, b in zip(losses[kind], losses["fp32"]))
        expect(0 < apart < 0.02, "stage %d, %s: losses are %.1e apart" % (stage, kind, apart))


@check
def gradients_in_16_bits_stage_0():
    gradients_in_16_bits(0)


@check
def gradients_in_16_bits_stage_1():
    gradients_in_16_bits(1)


@check
def sums_stay_f32_where_bits_must_be_the_same():
    """Ranks of one host, and reproducible sums, communicate f32, with a message."""
    settings = {**SETTINGS, "data.path": synthetic(), "communication_data_type": "bf16"}
    done = train(path("wire-same"), settings, ranks=Ranks(2))
    expect("communication_data_type bf16: sums stay f32, the same on any number of ranks" in done.stderr, done.stderr)
    expect_same_result(path("wire-same"), one_host(), "communication_data_type with reproducible sums")
    done = train(path("wire-any"), {**settings, "communication.reproducible": False}, ranks=Ranks(2))
    expect("communication_data_type bf16: sums stay f32 with 2 threads of one process" in done.stderr, done.stderr)


def bytes_on_the_cable(stage, expected_elements):
    """A run of twice the steps minus one of the steps: the cost of start, end and evaluation cancels."""
    need_two_hosts()
    sent = []
    with Network() as net:
        for steps in (STEPS, 2 * STEPS):
            before = sum(net.moved())
            output = path("moved-%d-%d" % (stage, steps))
            train(output, {"train.max_steps": steps, "data.dataset": "synthetic", "data.path": synthetic(),
                           "zero_optimization.stage": stage}, ranks=net.ranks(2))
            sent.append(sum(net.moved()) - before)
    on_the_cable = (sent[1] - sent[0]) / STEPS / 2  # a rank and step
    traffic = records(output, "end")[-1]["traffic"]
    expect(0.99 <= on_the_cable / traffic["bytes"] <= 1.05,
           "stage %d: %.0f bytes per rank and step on the cable, %s counted" % (stage, on_the_cable, traffic))
    # The tutorial network's matrices have padded rows: 1.4 % more than parameters.
    expect(abs(traffic["elements"] / expected_elements - 1) < 0.02,
           "stage %d: %s counted, %d elements by the formula" % (stage, traffic, expected_elements))


# Of 2 ranks each sends half of what it needs to know of the other's: (N-1)/N. Two micro-steps a step.

@check
def bytes_on_the_cable_stage_0():
    bytes_on_the_cable(0, 2 * PARAMETERS / 2)


@check
def bytes_on_the_cable_stage_1():
    bytes_on_the_cable(1, 2 * PARAMETERS / 2)


@check
def bytes_on_the_cable_stage_2():
    bytes_on_the_cable(2, (2 + 1) * PARAMETERS / 2)


@check
def bytes_on_the_cable_stage_3():
    bytes_on_the_cable(3, 3 * 2 * PARAMETERS / 2)


def programs_on(host):
    return [pid for pid, line in host.processes().items() if line.startswith(PROGRAM)]


def cut_in_mid_training(stage):
    need_two_hosts()
    output = path("cut-%d" % stage)
    with Network() as net:
        words = net.ranks(2).words(*train_words(output, {**ENDLESS, "data.path": synthetic(),
                                                        "zero_optimization.stage": stage}))
        job = start(words)
        wait_for_step(output, job, at_least=5)
        net.cut()
        # The second host's own line cannot reach mpirun any more: there is one, and it is about the second host.
        fails(LOST, finish(job, timeout=60), net.hosts[1].name)
        expect_equal([programs_on(host) for host in net.hosts], [[], []], "ranks that live on")


@check
def a_cut_cable_is_exit_7_stage_0():
    cut_in_mid_training(0)


@check
def a_cut_cable_is_exit_7_stage_3():
    cut_in_mid_training(3)


@check
def a_rank_killed_on_the_other_host_is_named():
    need_two_hosts()
    output = path("killed")
    with Network() as net:
        job = start(net.ranks(2).words(*train_words(output, {**ENDLESS, "data.path": synthetic()})))
        wait_for_step(output, job, at_least=5)
        killed, = programs_on(net.hosts[1])
        os.kill(killed, signal.SIGKILL)
        fails(128 + signal.SIGKILL, finish(job, timeout=60), net.hosts[1].name)  # mpirun's own code
        expect_equal(programs_on(net.hosts[0]), [], "ranks that live on")


@check
def a_run_folder_of_one_host_only():
    need_two_hosts()
    output = path("not-shared")
    os.makedirs(output)
    with Network() as net:
        net.hosts[1].run("mount", "-t", "tmpfs", "none", output)
        done = finish(start(net.ranks(2).words(*train_words(output, {**SETTINGS, "data.path": synthetic()}))))
        fails(IO, done, output)


@check
def data_of_one_host_only():
    need_two_hosts()
    with Network() as net:
        net.hosts[1].run("mount", "-t", "tmpfs", "none", synthetic())
        done = finish(start(net.ranks(2).words(*train_words(path("no-data"), {**SETTINGS, "data.path": synthetic()}))))
        fails(DATA, done, synthetic())


main()
