"""Steps that are recorded and replayed, or launched if they cannot be recorded, on streams with any timing."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cuda import *


def same_bits(name, sets, variants, *words):
    """Every variant (label, words, environment) ends with the bits of the first."""
    expected = None
    for label, more, env in variants:
        output = path("%s-%s" % (name, label))
        train(output, sets, *words, *more, *CUDA, env=env)
        expected = expected or result(output)
        expect_same_result(output, expected, label)
        expect_equal(weights_sha256(os.path.join(output, "last.bin")), expected[0], label)
        shutil.rmtree(output)
    return expected


@check
def the_same_run_twice_and_unrecorded():
    cases = [("cnn", False), ("cnn_plain", True), ("cnn", True), ("cnn_plain", False)]
    for model, bf16 in cases if FULL else cases[:2]:
        same_bits("twice", in_micros(2, model__name=model, bf16__enabled=bf16),
                  [("first", (), None), ("second", (), None), ("no-record", ("--no-record",), None)])


@check
def time_goes_to_the_parts_of_a_step():
    """With phases recorded or launched: the same bits, and times measured by the device."""
    train(path("whole"), in_micros(4), *CUDA)
    for name, words in (("timed-recorded", ()), ("timed-launched", ("--no-record",))):
        train(path(name), in_micros(4, wall_clock_breakdown=True), *words, *CUDA)
        expect_same_result(path(name), result(path("whole")))
        times = [r["time_ms"] for r in records(path(name), "step")]
        expect_equal(len(times), SMALL["train.max_steps"])
        for t in times:
            expect(min(t["forward"], t["backward"], t["update"]) > 0 and t["communication"] == 0, t)


@check
def streams_late_and_at_once():
    need_stand_in()
    for model in ("cnn", "cnn_plain"):
        kinds = [(kind + more[0] if more else kind, more, {"ON_HOST_STREAMS": kind})
                 for kind in ("lazy", "eager") for more in [(), ("--no-record",)][:2 if FULL else 1]]
        same_bits("streams", in_micros(2, model__name=model), kinds)


def reported(name):
    """A file for ON_HOST_REPORT, and a function that reads it."""
    env = {"ON_HOST_REPORT": path("report-" + name)}

    def lines():
        if not os.path.exists(env["ON_HOST_REPORT"]):
            return []
        with open(env["ON_HOST_REPORT"]) as file:
            return file.read().splitlines()
    return env, lines


@check
def nccl_ends_in_order_and_no_kernel_is_loaded_during_a_collective():
    """At the regular end of a run NCCL is destroyed, a failed run aborts it. A kernel's first launch, a new graph or
    new memory may synchronise a real device. A collective prevents that while it waits for another rank that waits for
    the same lock. Therefore none of these happens during a collective."""
    need_stand_in()
    good = 2 * ["ncclCommDestroy"]
    nccl = {"communication__backend": "nccl", "communication__share_device": False}
    for stage in (0, 3):
        env, lines = reported("stage-%d" % stage)
        as_one_rank(Ranks(2), stage, env=env, **nccl)
        expect_equal(lines(), good, "stage %d" % stage)
    env, lines = reported("twice")
    for steps in (2, 3):  # a run that goes on takes up a checkpoint's weights
        train(path("twice"), small(train__max_steps=steps, train_batch_size=8, zero_optimization__stage=2,
                                   steps_per_print=9, bf16__enabled=True,
                                   communication__check_interval=1, **nccl), *CUDA, ranks=Ranks(2), env=env)
    expect_equal(lines(), 2 * good)
    for words in (("reduce", "--elements", "1000"), ("step", "--set", "train_batch_size=2", "--set",
                                                     "train_micro_batch_size_per_gpu=1", "--config", TUTORIAL,
                                                     "--set", "data.path=" + few(1000, 4), "--set",
                                                     "data.on_corrupt=skip")):
        env, lines = reported("bench-" + words[0])
        done = run("bench", *words, "--ranks", "2", "--windows", "1", "--seconds", "0.001", *CUDA, env=env)
        expect_equal(done.returncode, DONE, done.stdout, done.stderr)
        expect_equal(set(lines()), set(good), lines())
    env, lines = reported("failed")
    train(path("failed"), small(train_batch_size=8, train__max_steps=20, scheduler__params__warmup_max_lr=1e20, **nccl),
          *CUDA, ranks=Ranks(2), env=env, expecting=DIVERGED)
    expect_equal(lines(), 2 * ["ncclCommAbort"])


@check
def steps_that_cannot_be_recorded_are_launched():
    """A library fails on one rank while a step is recorded: all ranks continue with launches and get the same bits."""
    need_stand_in()
    expected = reference(4, "cnn_plain", False)
    nccl = {"communication.share_device": False}
    in_capture = "launch_on_device@capture:801:1"
    for call, ranks, changed in ((in_capture, Ranks(1), {}), (in_capture, Ranks(2), nccl),
                                 (in_capture, Ranks(2), {"communication.backend": "threads"}),
                                 ("cudaGraphInstantiate:2:1", Ranks(2), nccl)):
        env, lines = reported("unrecorded")
        done = train(path("unrecorded"), {**in_micros(4), **changed}, "--reset", *CUDA, ranks=ranks,
                     env={**env, "ON_HOST_FAIL": call})
        said = [line for line in done.stderr.splitlines() if "could not be recorded" in line]
        expect_equal(len(said), 1, call, ranks, done.stderr)
        expect(said[0].startswith("warning: kernels are launched one by one"), said)
        expect(ranks.number == 1 or re.search(r"rank \d on host ", said[0]), said)
        expect_same_result(path("unrecorded"), expected, call, ranks)
        expect(not [line for line in lines() if line != "ncclCommDestroy"], lines())
    # What collectives moved is counted alike.
    traffic = records(path("unrecorded"), "end")[-1]["traffic"]
    train(path("recorded"), {**in_micros(4), **nccl}, *CUDA, ranks=Ranks(2))
    expect_equal(records(path("recorded"), "end")[-1]["traffic"], traffic)


@check
def steps_need_no_copies_of_their_own():
    """What steps need of the host travels in one copy for 64 of them; what they say lies in the host's memory."""
    need_stand_in()

    def copies(steps, **changed):
        env = {**ONE_GPU, "ON_HOST_COPIES": path("copies-%d" % steps)}
        sets = plain(data__path=few(4400, 4), steps_per_print=10, train_batch_size=4, train__max_steps=steps, **changed)
        train(path("copies"), sets, "--reset", *CUDA, ranks=Ranks(1), env=env)
        expect_equal(len(records(path("copies"), "step")), steps // 10)
        with open(env["ON_HOST_COPIES"]) as file:
            number, = file.read().split()
        os.remove(env["ON_HOST_COPIES"])
        return int(number)
    for steps, changed in ((1000, {"model.name": "linear"}), (1000 if FULL else 128, {})):
        few_steps, many = copies(10, **changed), copies(10 + steps, **changed)
        print("      %d copies in %d steps, %d before and after" % (many - few_steps, steps, few_steps))
        expect(many - few_steps <= steps * 64 // 1000, many, few_steps)


main()
