"""Continuing with CUDA: after an end, a stop or a lost GPU, on other ranks or devices, with other plans; and
evaluation."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cuda import *


def end_of(output):
    return records(output, "end")[-1]["weights_sha256"]


@check
def resumed_in_the_middle():
    output = copied(half("cuda"), "resumed")
    done = until(output, 8, CUDA, "--resume", "must")
    expect_same_result(output, result(unbroken()))
    expect("another device" not in done.stdout + done.stderr, done.stdout, done.stderr)


@check
def resumed_by_other_ranks_and_unrecorded():
    output = copied(half("cuda"), "resumed-by-others")
    for step, ranks, more in ((5, 2, ()), (6, 1, ("--no-record",)), (7, 2, ("--no-record",)), (8, 1, ())):
        train(output, long(step, zero_optimization__stage=step % 4), "--resume", "must", *more, *CUDA,
              ranks=Ranks(ranks), env=ONE_GPU)
    expect_same_result(output, result(unbroken()))


@check
def resumed_on_another_device():
    for source, target in (("cpu", "cuda"), ("cuda", "cpu")):
        output = copied(half(source), "from-" + source)
        done = until(output, 8, ("--device", target), "--resume", "must")
        text = done.stdout + done.stderr
        expect(re.search("^warning: .*another device.*bits may differ", text, re.MULTILINE), text)
        for a, b in zip(records(output, "step"), records(unbroken(), "step")):
            expect(a["step"] == b["step"] and distance(a["loss"], b["loss"]) <= 1e-5, a, b)
        expect_equal(len(records(output, "step")), 8)


@check
def the_best_weights_are_judged():
    """At the end best.bin's weights take the place of the last ones: the test images give eval's loss, on any stage."""
    sets = small(data__limit=60, data__validation=10, train__best__split="val", train__best__metric="loss",
                 train__eval_interval=1, optimizer__params__lr=1, scheduler__params__warmup_max_lr=1, train__ema__decay=0.5)
    tests = []
    for ranks, stage in (1, 0), (2, 3):
        output = path("judged-%d" % ranks)
        train(output, {**sets, "zero_optimization.stage": stage}, *CUDA, ranks=Ranks(ranks), env=ONE_GPU)
        test, = [r for r in records(output, "eval") if r["split"] == "test"]
        expect(test["step"] < 3, "the last is the best: this shows nothing", test)
        tests.append({key: value for key, value in test.items() if key not in FREE_FIELDS})
    expect_equal(*tests)
    evaluated = json.loads(succeeds("eval", "--ckpt", output, "--json", *CUDA).stdout)
    expect_equal(evaluated["loss"], test["loss"])


@check
def begun_in_bf16_by_itself_and_continued_without_it():
    """auto selects bf16 on GPUs; on the CPU bf16 is hidden."""
    need_stand_in()
    output = path("bf16")
    train(output, long(2, bf16__enabled="auto"), *CUDA)
    before = files(output)
    done = finish(start([PROGRAM, *train_words(output, long(3, bf16__enabled="auto"), *CPU), "--ranks", "1"],
                        env={"ONEDNN_MAX_CPU_ISA": "AVX2"}))
    line = fails(USAGE, done, "began in bf16", "bf16.enabled: auto", "continue it on a machine that computes in bf16",
                 "--reset or another --output")
    expect("--set" not in line, line)
    expect_equal(files(output), before)
    train(output, long(3, bf16__enabled="auto"), *CUDA)
    expect_equal(records(output, "end")[-1]["step"], 3)


@check
def a_stored_plan_that_is_not_there():
    """A library lacks the checkpoint's algorithm: another one is used, with a message."""
    need_stand_in()
    output = path("plans")
    sets = long(2, model__name="cnn_plain", cuda__autotune=True)
    train(output, sets, *CUDA)
    again = train(output, {**sets, "train.max_steps": 3}, *CUDA)
    expect("stored plan" not in again.stderr, again.stderr)
    other = train(output, {**sets, "train.max_steps": 4}, *CUDA, env={"ON_HOST_PLAN": "other loops"})
    said = [line for line in other.stderr.splitlines() if "stored plan" in line]
    expect(len(said) == 1 and said[0].startswith("warning: the stored plan 'plain loops' is none of these"), other.stderr)
    # From here on the checkpoint records the other one.
    last = train(output, {**sets, "train.max_steps": 5}, *CUDA, env={"ON_HOST_PLAN": "other loops"})
    expect("stored plan" not in last.stderr, last.stderr)


@check
def evaluation():
    best = os.path.join(unbroken(), "best.bin")
    found = {}
    for device in ("cpu", "cuda"):
        done = succeeds("eval", "--ckpt", best, "--device", device, "--json")
        found[device] = json.loads(done.stdout)
    for number in ("loss", "ece"):
        of = {device: read.pop(number) for device, read in found.items()}
        expect(distance(of["cuda"], of["cpu"]) <= 1e-6, number, of)
    expect_equal(found["cuda"], found["cpu"])
    shown = [run("eval", "--ckpt", best, "--device", device).stdout.splitlines() for device in ("cpu", "cuda")]
    for lines in shown:
        expect(lines.pop(0).startswith("Test loss = "), lines)  # in all digits
    expect_equal(shown[1], shown[0])


@check
def stopped_on_request():
    output = path("stopped")
    job = start(Ranks(1).words(*train_words(output, small(train__max_steps=10 ** 6, train__epochs=10 ** 6,
                                                          train_batch_size=4, train__eval_interval=10 ** 6,
                                                          train__save_interval=10 ** 6), *CUDA)))
    wait_for_step(output, job, at_least=3)
    os.kill(job.pid, signal.SIGUSR1)
    done = finish(job)
    expect_equal(done.returncode, STOPPED, done.stdout, done.stderr)
    reached = records(output, "step")[-1]["step"]
    expect(reached in checkpoints(output), "stopped in step %d" % reached, checkpoints(output))
    expect_equal(run("ckpt", "verify", output).returncode, DONE)
    more = small(train__max_steps=reached + 2, train__epochs=10 ** 6, train_batch_size=4,
                 train__eval_interval=10 ** 6, train__save_interval=10 ** 6)
    train(output, more, "--resume", "must", *CUDA)
    train(path("not-stopped"), more, *CUDA)
    expect_equal(end_of(output), end_of(path("not-stopped")))


@check
def a_gpu_that_is_lost_midway():
    """All ranks end, one line names the GPU, and the run continues from its last checkpoint to the same weights."""
    need_stand_in()
    sets = long(8, train__save_interval=2, communication__share_device=False)
    cases = [("unrecorded", Ranks(1), {"cuda.record": False}, "cudaLaunchKernelEx:220:400"),
             ("one", Ranks(1), {}, "cudaGraphLaunch:214:5"),
             ("threads", Ranks(2), {"communication.backend": "threads"}, "cudaGraphLaunch:214:20"),
             ("nccl", Ranks(2), {"communication.backend": "nccl"}, "cudaGraphLaunch:214:10")]
    for name, ranks, more, failure in cases if FULL else cases[1::2]:
        output = path("lost-" + name)
        words = ranks.words(*train_words(output, {**sets, **more}, *CUDA))
        lost(name, output, words, {"ON_HOST_FAIL": failure}, words)
    if not has_mpi():
        return
    output = path("lost-mpi")
    rank = ["-np", "1", PROGRAM, *train_words(output, {**sets, "communication.backend": "mpi"}, *CUDA)]
    line = lost("mpi", output, ["mpirun", *rank, ":", "-x", "ON_HOST_FAIL=cudaGraphLaunch:214:10", *rank], {},
                ["mpirun", *rank, ":", *rank])
    expect("GPU 1 of host " in line, line)
    print("      " + line)


def lost(name, output, words, env, again):
    line = fails(LOST, finish(start(words, env=env)), "GPU ", " of host ", " is lost: ", "run the same command again",
                 "check dmesg")
    last = max(checkpoints(output))
    expect(0 < last < 8, "%s: the last checkpoint is step %d" % (name, last))
    done = finish(start(again))
    expect_equal(done.returncode, DONE, name, done.stdout, done.stderr)
    expect_same_result(output, result(unbroken()), name)
    return line


main()
