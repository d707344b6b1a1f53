#!/usr/bin/env python3
"""The reports of a configuration (dump_state, memory_breakdown, flops_profiler, comms_logger): their contents on one
rank and on two, and unchanged results."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import *

STEPS = 6
REPORTS = {"dump_state": True, "memory_breakdown": True, "flops_profiler.enabled": True, "comms_logger.enabled": True,
           "comms_logger.verbose": True, "comms_logger.debug": True}


def settings(**changed):
    return {**FEW, "data.path": few(), "train.max_steps": STEPS, **dotted(changed)}


@functools.lru_cache(None)
def plain():
    train(path("plain"), settings())
    return result(path("plain"))


def lines_from(text, begin, end=None):
    """The lines from the one with this beginning to the one that begins with `end`."""
    lines = text.splitlines()
    first = [i for i, line in enumerate(lines) if line.startswith(begin)]
    expect_equal(len(first), 1, "lines that begin with %r" % begin, text)
    rest = lines[first[0]:]
    stop = [i for i, line in enumerate(rest) if i > 0 and end and line.startswith(end)]
    return rest[:stop[0]] if stop else rest


@check
def they_change_no_bit():
    """With every report, on any number of ranks, at every stage."""
    for ranks, stage in ((1, 0), (2, 0), (2, 1), (2, 2), (2, 3)):
        output = path("all-%d-%d" % (ranks, stage))
        train(output, {**settings(zero_optimization__stage=stage), **REPORTS}, ranks=Ranks(ranks))
        expect_same_result(output, plain(), ranks, stage)


@check
def profiled_in_other_processes():
    need_mpi()
    train(path("mpi"), {**settings(zero_optimization__stage=2), **REPORTS}, ranks=Ranks(2, mpi=True))
    expect_same_result(path("mpi"), plain())


@check
def reports_are_off_by_default():
    done = train(path("quiet"), settings())
    for word in ("configuration in force", "memory planned", "memory allocated", "Flops Profiler", "Comm. Op", "comm op"):
        expect(word not in done.stdout + done.stderr, word, done.stderr)


@check
def the_configuration_in_force():
    done = train(path("dump"), settings(dump_state=True, seed=7), ranks=Ranks(2))
    block = lines_from(done.stderr, "configuration in force:")[1:]
    told = dict(re.match(r"  (\S+) \.+ (.*)$", line).groups() for line in block if re.match(r"  \S+ \.+ ", line))
    expect_equal((told["seed"], told["train.max_steps"], told["dump_state"]), ("7", str(STEPS), "true"))
    expect_equal(told["gradient_accumulation_steps"], "4", "32 images, 4 at a time, on 2 ranks")
    expect(len(told) > 100, sorted(told))
    expect("fp16.hysteresis" in told, "keys that do not count now are told too", sorted(told))
    expect_equal(sorted(told), list(told), "in the order of their names")


@check
def memory_planned_and_used():
    for ranks in (1, 2):
        done = train(path("memory-%d" % ranks), settings(memory_breakdown=True, train__eval_interval=3), ranks=Ranks(ranks))
        told = [line for line in done.stderr.splitlines() if line.startswith("memory ")]
        used = ["before training", "after step 1", "after the evaluation of step 3", "after the evaluation of step 6",
                "at the end"]
        expect_equal([re.match(r"memory (planned|used [^:]*|of the process [^:]*):", line)[1] for line in told],
                     ["planned", *[what + when for when in used for what in ("used ", "of the process ")]])
        for line in told:
            kinds = ("at its peak",) if "process" in line else ("parameters ", "gradients ", "optimizer states ",
                                                                "activations ", "in all ")
            for kind in kinds:
                expect(kind in line, kind, line)
        # What was planned of each kind is what is used of it.
        planned, last = told[0], told[-2]
        for kind in ("parameters", "optimizer states", "activations"):
            amounts = [re.search(kind + r" ([\d.]+ \w?B)", line)[1] for line in (planned, last)]
            expect_equal(*amounts, kind, planned, last)


def profile(text):
    block = lines_from(text, "-------------------------- Flops Profiler", "--------------------------------------------")
    rows = [re.match(r" *(\S+) .*?(\d+\.\d)%$", line) for line in block]
    return block, {row[1]: float(row[2]) for row in rows if row}


@check
def a_step_is_profiled():
    done = train(path("profile"), settings(flops_profiler__enabled=True))
    block, shares = profile(done.stderr)
    expect(block[1].startswith("Profile of step 2,"), block[1])
    text = "\n".join(block)
    # 32 images; the tutorial's two convolutions and three linear layers, whose multiply-adds are known.
    macs = 32 * (28 * 28 * 6 * 75 + 10 * 10 * 16 * 150 + 400 * 120 + 120 * 84 + 84 * 10)
    expect("%.2f MMACs" % (macs / 1e6) in text, macs, text)
    expect("62.01 K" in text, text)
    for module in ("cnn", "conv1", "conv2", "fc1", "fc2", "fc3", "(input)", "(loss)", "(update)"):
        expect(module in shares, module, text)
    whole = shares["cnn"] + sum(share for module, share in shares.items() if module.startswith("("))
    expect(abs(whole - 100) < 1, whole, text)
    children = sum(shares[name] for name in ("conv1", "conv2", "fc1", "fc2", "fc3"))
    expect(abs(children - shares["cnn"]) < 1, children, text)
    for operation in ("conv_relu_pool", "linear_grad_w", "softmax_cross_entropy", "adam"):
        expect(operation in shares, operation, text)


@check
def of_two_ranks_exchanges_too():
    done = train(path("profile-2"), settings(flops_profiler__enabled=True, flops_profiler__profile_step=3,
                                             zero_optimization__stage=3), ranks=Ranks(2))
    block, shares = profile(done.stderr)
    expect(block[1].startswith("Profile of step 4,"), block[1])
    for name in ("(exchange)", "all_gather", "reduce_scatter"):
        expect(name in shares, name, "\n".join(block))


@check
def depth_modules_and_detail():
    net = {"model__name": "resnet18", "model__width": 4, "train__max_steps": 3, "flops_profiler__enabled": True,
           "data__path": few(train=100, test=20)}
    done = train(path("deep"), settings(**net))
    block, shares = profile(done.stderr)
    for module in ("layer1", "layer1.0", "layer1.0.conv1", "layer4.1.bn2"):
        expect(module in shares, module, "\n".join(block))
    expect(abs(shares["layer2"] - shares["layer2.0"] - shares["layer2.1"]) <= 0.2, shares)
    expect("depth 3:" in block, "\n".join(block))
    done = train(path("shallow"), settings(**net, flops_profiler__module_depth=1, flops_profiler__top_modules=2))
    block, shares = profile(done.stderr)
    expect("layer1" in shares and "layer1.0" not in shares and "depth 2:" not in block, "\n".join(block))
    time, = (line for line in block[block.index("depth 1:"):] if line.startswith("    time"))
    expect_equal(len(time.split(",")), 2, time)
    done = train(path("brief"), settings(**net, flops_profiler__detailed=False))
    block, shares = profile(done.stderr)
    expect(not shares and "depth 3:" in block, "\n".join(block))


@check
def a_file_takes_the_profile():
    target = path("reports", "profile.txt")
    sets = settings(flops_profiler__enabled=True, flops_profiler__output_file=target)
    done = train(path("file"), sets)
    expect("Flops Profiler" not in done.stderr and "the profile is in" in done.stderr, done.stderr)
    first = open(target).read()
    expect_equal(profile(first)[1].keys() >= {"conv1", "adam"}, True, first)
    train(path("file-again"), {**sets, "flops_profiler.profile_step": 3})
    expect("Profile of step 4," in open(target).read(), "a profile is replaced")
    others = path("others.txt")
    with open(others, "w") as file:
        file.write("mine\n")
    done = train(path("file-other"), {**sets, "flops_profiler.output_file": others})
    expect_equal(open(others).read(), "mine\n")
    expect("warning: flops_profiler.output_file: " in done.stderr and "is another file" in done.stderr, done.stderr)
    profile(done.stderr)  # goes to the console
    done = train(path("file-none"), {**sets, "flops_profiler.output_file": os.path.join(others, "there")})
    expect("warning: flops_profiler.output_file: " in done.stderr, done.stderr)
    profile(done.stderr)


@check
def a_profile_step_outside_the_run_is_reported():
    done = train(path("late"), settings(flops_profiler__enabled=True, flops_profiler__profile_step=STEPS))
    expect("the run ended before step %d" % (STEPS + 1) in done.stderr, done.stderr)
    train(path("past"), settings(train__max_steps=3))
    done = train(path("past"), settings(flops_profiler__enabled=True))
    expect("step 2 is past" in done.stderr and "Flops Profiler" not in done.stderr, done.stderr)


def table(text):
    """[(op, printed bytes, count, total ms, mean ms, algorithm and bus bandwidth)]"""
    rows = [re.match(r"(\w+(?: \[\w+\])?) +([\d.]+ \w?B) +(\d+) +([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+)$", line)
            for line in lines_from(text, "Comm. Op")[1:]]
    return [(row[1], row[2], int(row[3]), *map(float, row.groups()[3:])) for row in rows if row]


@check
def collectives_are_counted():
    sets = settings(comms_logger__enabled=True, comms_logger__debug=True, train__eval_interval=100)
    for stage in (0, 1, 2):
        done = train(path("comms-%d" % stage), {**sets, "zero_optimization.stage": stage}, ranks=Ranks(2))
        rows = table(done.stderr)
        expect("comm op:" not in done.stderr, "a line a call, unasked", done.stderr)
        counts = {}
        for op, _, count, total, mean, algorithm, bus in rows:
            counts[op] = counts.get(op, 0) + count
            expect(abs(total - count * mean) <= 0.01 * count + 0.01, rows)
            expect(bus <= algorithm + 0.01, "two ranks: the bus carries no more", rows)
        sums = "all_reduce [gradients]" if stage == 0 else "reduce_scatter [gradients]"
        expect(counts.get(sums, 0) >= STEPS, stage, rows)
        expect_equal(counts[sums] % STEPS, 0, rows)
        expect(stage == 0 or counts["all_gather [parameters]"] >= STEPS, stage, rows)


@check
def a_line_a_call():
    done = train(path("verbose"), settings(comms_logger__enabled=True, comms_logger__verbose=True,
                                           zero_optimization__stage=1), ranks=Ranks(2))
    calls = re.findall(r"(?m)^comm op: (\w+) \| time \(ms\): [\d.]+ \| msg size: [\d.]+ \w?B \| algbw \(Gbps\): [\d.]+ "
                       r"\| busbw \(Gbps\): [\d.]+$", done.stderr)
    expect_equal(len(calls), sum(row[2] for row in table(done.stderr)), done.stderr)
    expect_equal(set(calls), {"reduce_scatter", "all_gather"})


@check
def named_collectives_alone():
    sets = settings(comms_logger__enabled=True, comms_logger__prof_all=False, zero_optimization__stage=1)
    done = train(path("named"), {**sets, "comms_logger.prof_ops": "[all_gather]"}, ranks=Ranks(2))
    expect_equal({row[0] for row in table(done.stderr)}, {"all_gather"})
    done = train(path("none"), sets, ranks=Ranks(2))
    expect("comms_logger logs nothing" in done.stderr and "Comm. Op" not in done.stderr, done.stderr)
    done = train(path("one"), settings(comms_logger__enabled=True))
    expect("one rank has nothing to exchange" in done.stderr and "Comm. Op" not in done.stderr, done.stderr)


@check
def a_stopped_run_reports_and_continues():
    sets = {**settings(train__max_steps=100000), "train.epochs": 100000, "train.eval_interval": 100000,
            "train.save_interval": 100000, "comms_logger.enabled": True}
    job = start(Ranks(2).words(*train_words(path("stopped"), sets)))
    while not (os.path.exists(path("stopped", "metrics.jsonl")) and records(path("stopped"), "step")):
        expect_equal(job.poll(), None, "the run ended")
        time.sleep(0.05)
    job.send_signal(signal.SIGTERM)
    done = finish(job)
    expect_equal(done.returncode, STOPPED, done.stderr)
    expect(table(done.stderr), done.stderr)
    whole = settings()
    train(path("halves"), {**whole, "train.max_steps": 3})
    train(path("halves"), {**whole, **REPORTS, "flops_profiler.profile_step": 4}, ranks=Ranks(2))
    expect_equal(records(path("halves"), "end")[-1]["weights_sha256"], plain()[0])


main()
