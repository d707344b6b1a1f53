"""Ranks on GPUs, as threads and as processes, on a shared GPU or one each: the bits of one rank, at every stage."""
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cuda import *


def some(cases, number):
    """All combinations, or a few that are the same in every run."""
    cases = list(cases)
    return cases if FULL else random.Random(11).sample(cases, min(number, len(cases)))


# Micro-batches a step: with two ranks each has two of four, and three, no power of two, of six.
EVERY = [(micros, stage, bf16) for bf16 in (False, True) for micros in (4, 2, 6) for stage in range(4)]


@check
def ranks_that_share_a_gpu():
    for micros, stage, bf16 in EVERY if FULL else [(4, 0, False), (4, 1, False), (4, 2, False), (4, 3, False),
                                                   (6, 2, False), (2, 3, True)]:
        as_one_rank(Ranks(2), stage, micros, bf16=bf16, env=ONE_GPU)
    as_one_rank(Ranks(2), 3, 2, model="cnn", env=ONE_GPU)


@check
def ranks_with_a_gpu_each():
    need_two_gpus()
    for micros, stage, bf16 in some(EVERY, 3):
        as_one_rank(Ranks(2), stage, micros, bf16=bf16, communication__backend="threads")


def sweep_words(output, *words):
    sets = {k: v for k, v in small().items() if not k.startswith("train_batch")}
    return [PROGRAM, "sweep", *train_words(output, sets), *CUDA, *words]


@check
def runs_of_a_sweep_have_gpus_of_their_own():
    """The sweep needs as many GPUs as its largest run has ranks; with fewer, no run starts."""
    need_stand_in()
    cases = ["--case", "train_batch_size=16", "--case", "train_batch_size=4", "--ranks", "auto", "--parallel", "2"]
    done = finish(start(sweep_words(path("sweep"), *cases), env={"ON_HOST_DEVICES": "4"}))
    expect_equal(done.returncode, DONE, done.stdout, done.stderr)
    devices = []
    for batch in (16, 4):
        folder = path("sweep", "train_batch_size=%d,seed=42" % batch)
        with open(os.path.join(folder, "config.yaml")) as file:
            devices.append((re.search(r"(?m)^device: .*(cuda:\d)", file.read())[1], records(folder, "start")[0]["ranks"]))
    expect_equal(devices, [("cuda:0", 2), ("cuda:2", 1)])
    many = ["--set", "train_batch_size=48"]
    for words, *culprits in ((["--repeats", "2", "--parallel", "2", "--ranks", "2"], "needs 4 GPUs, this machine has 2",
                              "give --parallel 1, --ranks 1, or --device cpu"),
                             (["--repeats", "3", "--parallel", "3"], "needs 3 GPUs", "give --parallel 2, or --device cpu"),
                             (["--repeats", "2", "--parallel", "2", "--ranks", "3"], "give --ranks 1, or --device cpu"),
                             (["--grid", "device=cuda:0,cuda:1", "--parallel", "2"], "and other runs use cuda:0")):
        fails(USAGE, finish(start(sweep_words(path("never"), *many, *words))), "--parallel", *culprits)
    expect(not os.path.exists(path("never")), "a run began")


@check
def steps_that_overflow_are_skipped_by_all_ranks():
    """fp16 from a loss scale that is far too large: the same steps are skipped on any ranks and stage."""
    sets = {**in_micros(4, train__max_steps=6, fp16__enabled=True, fp16__initial_scale_power=24,
                        fp16__hysteresis=1, train__max_bad_steps=100), "zero_optimization.stage": 0}
    train(path("storm"), sets, *CUDA, env=ONE_GPU)
    steps = records(path("storm"), "step")
    expect(1 <= steps[-1]["skipped"] <= 5, [(r["skipped"], r["loss_scale"]) for r in steps])
    for ranks, stage in [(r, s) for r in (1, 2, 4) for s in range(4)][1:] if FULL else [(2, 1), (4, 2), (2, 3)]:
        train(path("storms"), {**sets, "zero_optimization.stage": stage}, "--reset", *CUDA, ranks=Ranks(ranks), env=ONE_GPU)
        expect_same_result(path("storms"), result(path("storm")), "%d ranks, stage %d" % (ranks, stage))


@check
def processes_that_share_a_gpu():
    need_mpi()
    for micros, stage, bf16 in some(EVERY, 2):
        as_one_rank(Ranks(2, mpi=True), stage, micros, bf16=bf16, env=ONE_GPU, communication__backend="mpi")


@check
def processes_with_a_gpu_each():
    need_mpi(), need_two_gpus()
    for micros, stage, bf16 in some(EVERY, 1):
        as_one_rank(Ranks(2, mpi=True), stage, micros, bf16=bf16, communication__backend="mpi")


@check
def ranks_connected_by_nccl():
    need_two_gpus()
    for micros, stage, bf16 in EVERY if FULL else [(4, 0, False), (4, 3, True)]:
        as_one_rank(Ranks(2), stage, micros, bf16=bf16, communication__backend="nccl",
                    communication__share_device=False)


@check
def nccls_own_sums():
    """communication.reproducible: false may change bits, but not the values beyond rounding."""
    need_two_gpus()
    for stage in range(4) if FULL else (0,):
        train(path("own-sums"), in_micros(4, communication__backend="nccl", communication__reproducible=False,
                                          zero_optimization__stage=stage), "--reset", *CUDA, ranks=Ranks(2))
        for a, b in zip(records(path("own-sums"), "step"), reference(4, "cnn_plain", False)[1]):
            expect(distance(a["loss"], b["loss"]) <= 1e-5, a, b)


@check
def as_many_ranks_as_gpus():
    """The default without --ranks."""
    need_two_gpus()
    output = path("auto-ranks")
    done = finish(start([PROGRAM, *train_words(output, small(train_batch_size=8, train__max_steps=1), *CUDA)],
                        env={"CUDA_VISIBLE_DEVICES": "0,1"}))
    expect_equal(done.returncode, DONE, done.stdout, done.stderr)
    expect_equal(records(output, "start")[0]["ranks"], 2)


@check
def overlap_comm_and_offloading_change_nothing():
    """DeepSpeed's configurations often have overlap_comm; a GPU's stream orders everything."""
    need_two_gpus()
    for backend in ("nccl", "threads"):
        for stage in range(4) if FULL else (0, 3):
            as_one_rank(Ranks(2), stage, communication__backend=backend, communication__share_device=False,
                        zero_optimization__overlap_comm=True)
    for ranks, stage, bf16 in [(1, 0, False), (2, 3, False), (1, 0, True), (2, 1, True), (2, 2, True)]:
        as_one_rank(Ranks(ranks), stage, bf16=bf16, zero_optimization__offload_optimizer__device="cpu")


@check
def every_optimizer():
    """Also those of whole tensors and matrices: the bits of one rank, a CPU's losses, and the same with masters in the
    host's memory, where norms are added in another order."""
    params = {"Lion": {"lr": 1e-4}, "Adagrad": {"lr": 1e-3}, "Lamb": {"lr": 1e-3, "weight_decay": 0.01},
              "LARS": {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01, "trust_coeff": 0.1}, "Muon": {"lr": 1e-3}}
    numbers = random.Random(3)
    for optimizer, given in params.items():
        sets = {**small(model__name="linear", train__eval_interval=3, **{"scheduler.type": "StepLR"}), "scheduler.params.step_size": 2,
                "optimizer.type": optimizer, **{"optimizer.params." + k: v for k, v in given.items()}}
        del sets["scheduler.params.warmup_num_steps"]
        one = path("optimizer-" + optimizer)
        train(one, sets, *CUDA, env=ONE_GPU)
        for stage in range(4) if FULL else sorted(numbers.sample(range(4), 2)):
            train(path("optimizer"), {**sets, "zero_optimization.stage": stage}, "--reset", *CUDA, ranks=Ranks(2))
            expect_same_result(path("optimizer"), result(one), optimizer, "stage %d" % stage)
        for words, changed in ((CPU, {}), (CUDA, {"zero_optimization.offload_optimizer.device": "cpu"})):
            train(path("optimizer"), {**sets, **changed}, "--reset", *words, env=ONE_GPU)
            for a, b in zip(records(path("optimizer"), "step"), records(one, "step")):
                expect(distance(a["loss"], b["loss"]) <= 1e-5, optimizer, words, changed, a, b)


@check
def averages_of_weights():
    """Averages are kept, evaluated and exported: the same with recorded and unrecorded steps, offloaded or not."""
    average = {"train__ema__decay": 0.8, "train__ema__start": 1, "train__eval_interval": 1}
    offloaded = {"zero_optimization__offload_optimizer__device": "cpu"}
    cases = [(1, {}, ("--no-record",)), (2, {"zero_optimization__stage": 2}, ()), (2, {"zero_optimization__stage": 3}, ()),
             (1, offloaded, ()), (2, {**offloaded, "zero_optimization__stage": 3}, ())]
    if gpus() > 1:
        nccl = {"communication__backend": "nccl", "communication__share_device": False}
        cases += [(2, {**nccl, "zero_optimization__stage": stage}, ()) for stage in (0, 1)]
    for bf16 in (False, True):
        one = path("average-%d" % bf16)
        train(one, small(bf16__enabled=bf16, **average), *CUDA, env=ONE_GPU)
        end = records(one, "end")[-1]
        expect(end["ema_sha256"] != end["weights_sha256"], end)
        for ranks, changed, words in cases if FULL else cases[bf16::2]:
            output = path("averaged")
            train(output, small(bf16__enabled=bf16, **average, **changed), "--reset", *words, *CUDA, ranks=Ranks(ranks))
            expect_same_result(output, result(one), ranks, changed)
            expect_equal(records(output, "end")[-1]["ema_sha256"], end["ema_sha256"], ranks, changed)
        done = run("eval", "--ckpt", one, "--json", *CUDA)
        expect_equal(json.loads(done.stdout)["loss"], records(one, "eval")[-1]["loss"], done.stderr)


main()
