"""ZeRO stages 0 to 3: the same bits for every stage and number of ranks, in f32 and bf16; memory, traffic, resharding.

A part of the combinations by default; all of them with CIFAR_TRAIN_FULL=1.
"""
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import *

FULL = os.environ.get("CIFAR_TRAIN_FULL", "") not in ("", "0")
STAGES = range(4)
# One short epoch with whatever could depend on who does the work.
EPOCH = {"data.on_corrupt": "skip", "train.epochs": 1, "train.eval_batch_size": 20, "steps_per_print": 1,
         "gradient_clipping": 0.5, "data.augment": "[{random_crop: {padding: 4}}, {flip: {p: 0.5}}]",
         "scheduler.params.warmup_num_steps": 4, "train.log_interval": 1}


def cnn(micros):
    return {**EPOCH, "data.path": few(), "train_micro_batch_size_per_gpu": 4, "train_batch_size": 4 * micros}


WIDTH = 64 if FULL else 32  # of resnet18's first stage, whose own is 64


def resnet(micros):
    return {**EPOCH, "data.path": few(train=4 * 24, test=8), "model.name": "resnet18", "model.width": WIDTH,
            "train_micro_batch_size_per_gpu": 2, "train_batch_size": 2 * micros, "train.eval_batch_size": 4}


def one_step(micros):
    """A step with one image a micro-batch."""
    return {**resnet(micros), "data.path": few(train=32, test=2), "train_micro_batch_size_per_gpu": 1,
            "train_batch_size": micros, "train.eval_batch_size": 1, "train.max_steps": 1}


def some(combinations, number):
    """All combinations, or a few that are the same in every run."""
    combinations = list(combinations)
    return combinations if FULL else random.Random(5).sample(combinations, min(number, len(combinations)))


def can_bf16():
    done = finish(start([PROGRAM, *train_words(path("probe"), {"bf16.enabled": True}, "--dry-run")]))
    return done.returncode == DONE


def same_bits(name, settings, rank_counts, number, mpi=False):
    train(path(name), settings)
    expect(len(records(path(name), "step")) >= 4, "an epoch of that few steps shows little")
    for ranks, stage in some([(r, s) for r in rank_counts for s in STAGES if r > 1], number):
        output = path("%s-%d-%d" % (name, ranks, stage))
        where = Ranks(ranks, mpi=mpi and has_mpi())
        train(output, {**settings, "zero_optimization.stage": stage}, ranks=where)
        expect_same_result(output, result(path(name)), "%s, stage %d" % (where, stage))
        expect_equal(weights_sha256(os.path.join(output, "last.bin")), weights_sha256(path(name, "last.bin")))
        shutil.rmtree(output)


@check
def cnn_12_micro_batches():
    same_bits("cnn-12", cnn(12), (1, 2, 3, 4), 8)


@check
def cnn_8_micro_batches_mpirun():
    same_bits("cnn-8", cnn(8), (1, 2, 4), 4, mpi=True)


@check
def cnn_bf16():
    if not can_bf16():
        raise Skip("no bf16 here")
    for micros, counts in [(12, (1, 2, 3, 4)), (8, (1, 2, 4))]:
        same_bits("cnn-bf16-%d" % micros, {**cnn(micros), "bf16.enabled": True}, counts, 3)
    expect(result(path("cnn-bf16-12"))[0] != result(path("cnn-12"))[0], "bf16 gives the weights of f32")


@check
def resnet18():
    for micros, counts in [(12, (1, 2, 3, 4)), (8, (1, 2, 4))]:
        same_bits("resnet-%d" % micros, resnet(micros), counts, 2, mpi=micros == 8)


@check
def resnet18_bf16():
    if not can_bf16():
        raise Skip("no bf16 here")
    for micros, counts in [(12, (1, 2, 3, 4)), (8, (1, 2, 4))]:
        same_bits("resnet-bf16-%d" % micros, {**resnet(micros), "bf16.enabled": True}, counts, 2, mpi=micros == 12)


# ---- memory

def elements(output, prefix=""):
    """(parameters, running statistics) of the layers with this prefix."""
    tensors, _ = safetensors(os.path.join(output, "last.bin"))
    counts = [0, 0]
    for name, (_, _, content) in tensors.items():
        if name.startswith(prefix) and not name.endswith("num_batches_tracked"):
            counts["running_" in name] += len(content) // 4
    return counts


def formula(bf16, stage, ranks):
    """Bytes of weights, gradients and Adam's state a rank and parameter (arXiv 1910.02054, f32 gradients)."""
    n = 1 / ranks
    if bf16:
        return [18, 6 + 12 * n, 2 + 16 * n, 18 * n][stage]
    return [16, 8 + 8 * n, 4 + 12 * n, 16 * n][stage]


def states(end):
    return sum(end["peak_bytes"][key] for key in ("weights", "gradients", "optimizer"))


@check
def memory_follows_the_formulas():
    for bf16 in (False, True) if can_bf16() else (False,):
        for ranks, stage in some([(r, s) for r in (1, 2, 4, 8) for s in STAGES], 4):
            output = path("memory")
            train(output, {**one_step(ranks), "bf16.enabled": bf16, "zero_optimization.stage": stage}, "--reset",
                  ranks=Ranks(ranks))
            end, parameters = records(output, "end")[-1], elements(output)[0]
            per_parameter = states(end) / parameters
            wanted = formula(bf16, stage, ranks)
            what = "%s, %d ranks, stage %d: %.3f bytes per parameter, by the formula %.3f" % (
                "bf16" if bf16 else "f32", ranks, stage, per_parameter, wanted)
            print("      " + what)
            expect(abs(per_parameter / wanted - 1) < 0.03, what)
            if stage == 3 and ranks > 1 and not bf16:
                units = [own + 2 * statistics for own, statistics in
                         (elements(output, unit) for unit in ("layer4.0.", "layer4.1."))]
                peak = end["peak_bytes"]["weights"] + end["peak_bytes"]["transient"]["gathered_weights"]
                most = 4 * parameters / ranks + 4 * sum(units)
                print("      stage 3 weights: %d bytes at the peak, at most %d" % (peak, most))
                expect(peak <= 1.01 * most, peak, most)


@check
def resident_memory_differs_between_stages_as_the_formulas():
    """From the operating system's proportional set size, which counts pages shared by ranks once."""
    if not has_mpi():
        raise Skip("no mpirun")
    for ranks in (2, 4) if FULL else (4,):
        seen = {}
        for stage in STAGES:
            settings = {**one_step(ranks), "model.width": 64, "zero_optimization.stage": stage,
                        "checkpoint.asynchronous": False}
            train(path("pss"), settings, "--reset", ranks=Ranks(ranks, mpi=True))
            parameters = elements(path("pss"))[0]
            peak = records(path("pss"), "end")[-1]["peak_bytes"]
            # What is not the states: activations with the gathered weights in them, and buckets of gradients.
            seen[stage] = peak["proportional"] - peak["activations"] - peak["gradient_buckets"]
        for stage in (1, 2, 3):
            found = (seen[0] - seen[stage]) / parameters
            wanted = formula(False, 0, ranks) - formula(False, stage, ranks)
            what = "%d ranks, stage 0 less stage %d: %.3f bytes per parameter, by the formula %.3f" % (
                ranks, stage, found, wanted)
            print("      " + what)
            expect(abs(found / wanted - 1) < 0.05, what)


# ---- traffic

@check
def moved_elements_follow_the_formulas():
    for ranks, accumulation, stage in some([(r, a, s) for r in (2, 3, 4) for a in (1, 2, 3, 4) for s in STAGES], 8):
        train(path("traffic"), {**one_step(ranks * accumulation), "zero_optimization.stage": stage}, "--reset",
              ranks=Ranks(ranks))
        power_of_two = accumulation & (accumulation - 1) == 0
        each = [2 if power_of_two else accumulation + 1] * 2 + [accumulation + 1, 3 * accumulation]
        wanted = each[stage] * (ranks - 1) / ranks
        found = records(path("traffic"), "end")[-1]["traffic"]["elements"] / elements(path("traffic"))[0]
        what = "%d ranks, accumulation %d, stage %d: %.3f elements per parameter, by the formula %.3f" % (
            ranks, accumulation, stage, found, wanted)
        print("      " + what)
        expect(abs(found / wanted - 1) < 0.01, what)


# ---- checkpoints of any ranks and stage on any other

RESHARD = {**FEW, "train_batch_size": 48, "train.epochs": 10, "train.save_interval": 100}
STOP, MORE = 3, 10


def inspect_hash(checkpoint):
    done = succeeds("ckpt", "inspect", checkpoint, "--hash")
    lines = [line for line in done.stdout.splitlines() if "state_sha256" in line]
    expect_equal(len(lines), 1, done.stdout)
    return lines[0].split()[-1]


@check
def every_checkpoint_goes_on_with_any_ranks_and_stage():
    settings = {**RESHARD, "data.path": few(), "train.max_steps": STOP + MORE}
    train(path("reshard"), settings)
    losses = [r["loss"] for r in records(path("reshard"), "step")]
    kinds = [(ranks, stage) for ranks in (1, 2, 3, 4) for stage in STAGES]
    sources, hashes = {}, set()
    for ranks, stage in kinds:
        output = sources[ranks, stage] = path("from-%d-%d" % (ranks, stage))
        train(output, {**settings, "train.max_steps": STOP, "zero_optimization.stage": stage}, ranks=Ranks(ranks))
        hashes.add(inspect_hash(os.path.join(output, "ckpt", "step-%08d" % STOP)))
    expect_equal(len(hashes), 1, "checkpoints of one step differ", hashes)
    cases = some([(a, b) for a in kinds for b in kinds], 24)
    ends = set()
    for (source, (ranks, stage)) in cases:
        output = path("to")
        shutil.copytree(sources[source], output)
        train(output, {**settings, "zero_optimization.stage": stage}, "--resume", "must", ranks=Ranks(ranks))
        what = "%d ranks, stage %d to %d ranks, stage %d" % (*source, ranks, stage)
        expect_equal([r["loss"] for r in records(output, "step")], losses, what)
        expect_equal(records(output, "end")[-1]["weights_sha256"],
                     records(path("reshard"), "end")[-1]["weights_sha256"], what)
        ends.add(inspect_hash(os.path.join(output, "ckpt", "step-%08d" % (STOP + MORE))))
        shutil.rmtree(output)
    expect_equal(len(ends), 1, "the same step's checkpoints differ", ends)
    print("      %d cases" % len(cases))


@check
def resumed_after_every_step_with_every_stage():
    steps = 30 if FULL else 9
    settings = {**FEW, "data.path": few(), "train.epochs": 10, "train.max_steps": steps, "train.save_interval": 5,
                "train.eval_interval": 4, "train.log_interval": 20, "train.best.split": "test"}
    train(path("unbroken"), settings)
    for stage in STAGES:
        for step in range(steps + 1):
            # Another number of ranks every time.
            now = {**settings, "train.max_steps": step, "zero_optimization.stage": stage}
            train(path("broken"), now, "--resume", "must" if step else "auto", ranks=Ranks((2, 4, 1, 2)[step % 4]))
        expect_same_result(path("broken"), result(path("unbroken")), "stage %d" % stage)
        shutil.rmtree(path("broken"))


main()
