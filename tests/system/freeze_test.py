#!/usr/bin/env python3
"""Frozen layers (train.freeze), their end at an epoch (train.unfreeze_at) and layer decay: what stays, what it needs, and
the same bits on any ranks with any ZeRO stage, stopped and resumed; on the host, and on CUDA's stand-in.

A part of the combinations by default; all of them with CIFAR_TRAIN_FULL=1.
"""
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import *

FULL = os.environ.get("CIFAR_TRAIN_FULL", "") not in ("", "0")
KINDS = [(ranks, stage) for ranks in (1, 2, 4) for stage in range(4)][1:]
# Layers that learn below frozen ones, whose batch norms pass gradients and residuals on.
PATTERNS = ["conv1*", "bn1.*", "layer[13]*", "layer2.0*"]
FROZEN = ("conv1.", "bn1.", "layer1.", "layer2.0.", "layer3.")


# Three steps an epoch.
def settings(patterns=PATTERNS, **changed):
    return {**FEW, "data.path": few(train=100, test=20), "model.name": "resnet18", "model.width": 8,
            "train.eval_batch_size": 20, "train.epochs": 4, "train.max_steps": 8, "train.save_interval": 1,
            "train.eval_interval": 4, "train.freeze": json.dumps(patterns), "train.layer_decay": 0.75, **dotted(changed)}


def averaged(**changed):
    """With an average of the weights, and twelve micro-batches a step, which ranks meet at each."""
    return settings(train_batch_size=24, train_micro_batch_size_per_gpu=2, train__ema__decay=0.9, train__ema__start=1, optimizer="{type: SGD, params: {lr: 0.01, momentum: 0.9}}",
                    **changed)


def unfrozen(**changed):
    return settings(train__unfreeze_at=1, **changed)


@functools.lru_cache(None)
def whole(of):
    """The uninterrupted run's folder, what it said, and its duration."""
    begin, output = time.monotonic(), path("whole-" + of.__name__)
    done = train(output, of())
    return output, done.stderr, time.monotonic() - begin


def states(output):
    done = succeeds("ckpt", "inspect", output, "--hash")
    return re.findall(r"(?m)^\w+_sha256: \w+$", done.stdout)


def expect_same(output, of, *what):
    expect_same_result(output, result(whole(of)[0]), of.__name__, *what)
    expect_equal(states(output), states(whole(of)[0]), of.__name__, *what)


def tensors_at(output, step):
    return safetensors(os.path.join(output, "ckpt", "step-%08d" % step, "weights.safetensors"))[0]


def changed_between(output, first, last):
    before, after = tensors_at(output, first), tensors_at(output, last)
    return {name for name in before if before[name] != after[name] and not name.endswith("num_batches_tracked")}


@check
def what_is_frozen_keeps_its_bits():
    for of in settings, averaged:
        output, said, _ = whole(of)
        expect_match(said, r"\d+ of \d+ parameters learn \(train\.freeze\)")
        names = {name for name in tensors_at(output, 8) if not name.endswith("num_batches_tracked")}
        learnt = {name for name in names if not name.startswith(FROZEN)}
        train(path("start-" + of.__name__), of(train__max_steps=0))
        initial = tensors_at(path("start-" + of.__name__), 0)
        expect_equal({name for name in names if tensors_at(output, 8)[name] != initial[name]}, learnt, of.__name__)


@check
def any_ranks_and_stage():
    for of, number in (settings, 2), (averaged, 2), (unfrozen, 2):
        for ranks, stage in KINDS if FULL else random.Random(5).sample(KINDS, number):
            output = path("%s-%d-%d" % (of.__name__, ranks, stage))
            train(output, of(zero_optimization__stage=stage), ranks=Ranks(ranks))
            expect_same(output, of, "%d ranks, stage %d" % (ranks, stage))


@check
def stopped_and_resumed():
    """On other ranks and stages each time; three steps are an epoch, after which `unfrozen` unfreezes."""
    for of in [unfrozen, averaged] if FULL else [unfrozen]:
        output = path("parts-" + of.__name__)
        for step in range(1, 9):
            ranks = (1, 2, 4)[step % 3]
            train(output, of(train__max_steps=step, zero_optimization__stage=step % 4), ranks=Ranks(ranks))
        expect_equal(records(output, "end")[-1]["weights_sha256"], records(whole(of)[0], "end")[-1]["weights_sha256"])
        expect_equal(states(output), states(whole(of)[0]), of.__name__)


@check
def killed_and_resumed():
    numbers = random.Random(2)
    for turn, of in enumerate([settings, averaged, unfrozen] * 8 if FULL else [unfrozen]):
        output, longest = path("killed-%d" % turn), 1.2 * whole(of)[2]

        def start_of(kills):
            ranks, stage = Ranks((1, 2, 4)[(turn + kills) % 3]), numbers.randrange(4)
            words = train_words(output, of(zero_optimization__stage=stage))
            return "%s, %s, stage %d" % (of.__name__, ranks, stage), ranks.words(*words), numbers.uniform(0.1, 1) * longest

        expect_same(output, of, *train_through_kills(3, start_of))


@check
def unfreezing_trains_all_and_begins_the_optimizer_anew():
    output, said, _ = whole(unfrozen)
    expect_match(said, r"all parameters learn since epoch 2, with moments that began at 0 \(train\.unfreeze_at\)")
    expect_equal([said.count(once) for once in ("steps per epoch", "model resnet", "resumed from")], [1, 1, 0], said)
    expect_in("trained 8 steps", said)
    whole_epochs = train(path("whole-epochs"), unfrozen(train__eval_interval=0, train__max_steps=6)).stderr
    expect_equal(re.findall(r"epoch (\d)/2  train [0-9.]+  (?:test|val) .* step (\d)", whole_epochs), [("1", "3"), ("2", "6")],
                 whole_epochs)
    names = {name for name in tensors_at(output, 8) if not name.endswith("num_batches_tracked")}
    train(path("all"), settings(patterns=[], train__max_steps=8))
    expect_equal(changed_between(output, 6, 8), names)
    expect_equal(changed_between(whole(settings)[0], 6, 8), {name for name in names if not name.startswith(FROZEN)})
    expect(result(output)[0] != records(path("all"), "end")[-1]["weights_sha256"], "nothing was ever frozen")


@check
def no_bytes_for_what_is_frozen():
    patterns = ["conv1*", "bn1*", "layer*"]
    for ranks, stage in [(1, 0), (2, 1), (2, 3)]:
        sets = settings(patterns, zero_optimization__stage=stage, train__max_steps=1, model__width=16,
                        train_micro_batch_size_per_gpu=32 // ranks)
        output = path("bytes-%d-%d" % (ranks, stage))
        train(output, sets, ranks=Ranks(ranks))
        used = records(output, "end")[-1]["peak_bytes"]
        _, _, _, _, *words = train_words("", sets)
        done = succeeds("estimate", "--config", DEFAULT, *words, "--ranks", ranks, "--json")
        told = next(s for s in json.loads(done.stdout)["stages"] if s["stage"] == stage)["rank"]
        fc = 4 * (128 * 10 + 10)
        for kind, most in ("gradients", 2 * fc), ("optimizer", 3 * fc):
            expect(used[kind] <= most, "%s: %d bytes" % (kind, used[kind]))
            # A last layer may be one piece, which rank 0 owns; the record has the ranks' mean.
            most_told = most if ranks > 1 else 1.02 * used[kind]
            expect(0.98 * used[kind] <= told[kind] <= most_told, kind, told[kind], used[kind], ranks, stage)
        traffic = records(output, "end")[-1]["traffic"]["elements"]
        expect(traffic <= 3 * fc / 4, "%d ranks, stage %d moved %s elements" % (ranks, stage, traffic))


@check
def refusals_name_the_pattern():
    def refused(*culprits, **changed):
        fails(USAGE, train(path("never"), settings(**changed), expecting=USAGE), "train.freeze", *culprits)
        expect(not os.path.exists(path("never")), "a run began")
    refused("'layr1*' matches no parameter of resnet18; did you mean 'layer1*'?", patterns=["layr1*"])
    refused("'head.*' matches no parameter of resnet18; their names begin with bn1, conv1, fc, layer1",
            patterns=["fc.*", "head.*"])
    refused("resnet18 has no parameter left that learns", patterns=["*"])
    refused("resnet18 has no parameter left that learns", patterns=["layer*", "*[1c].*"])
    train(path("resumed"), settings(train__max_steps=1))
    fails(CHECKPOINT, train(path("resumed"), settings(patterns=["conv1*"]), expecting=CHECKPOINT), "train.freeze")
    done = train(path("warned"), settings(patterns=[], train__unfreeze_at=1, train__max_steps=0))
    expect_in("train.unfreeze_at has no effect without train.freeze", done.stderr)
    late = train(path("warned"), settings(train__unfreeze_at=9, train__max_steps=0, train__epochs=9), "--reset")
    expect_in("train.unfreeze_at 9 unfreezes nothing, because train.epochs is 9", late.stderr)


@check
def the_stand_in_for_cuda_computes_the_same():
    """Losses as on the host, and the same bits on ranks, stages and after unfreezing, in f32 and bf16."""
    need_on_host()
    words = ["--device", "cuda"]
    for bf16, ranks, stage in [(False, 1, 0), (False, 2, 3), (True, 1, 0), (True, 2, 2)] if FULL else [
            (False, 1, 0), (True, 1, 0), (True, 2, 2)]:
        sets = unfrozen(bf16__enabled=bf16, zero_optimization__stage=stage, train_batch_size=8, train__epochs=2,
                        train__max_steps=14, train__save_interval=0, train__eval_interval=20, data__path=few(100, 4),
                        train__eval_batch_size=4, communication__share_device=True)
        output = path("cuda-%d-%d-%d" % (bf16, ranks, stage))
        program = [ON_HOST, *train_words(output, sets, *words), "--ranks", str(ranks)]
        done = finish(start(program, env={"CUDA_VISIBLE_DEVICES": "0"}), timeout=300)
        expect_equal(done.returncode, DONE, done.stdout, done.stderr)
        expect_equal(result(output), result(path("cuda-%d-1-0" % bf16)), bf16, ranks, stage)
        if not bf16 and ranks == 1:
            train(path("cpu"), sets)
            losses = [[r["loss"] for r in records(o, "step")] for o in (output, path("cpu"))]
            expect(all(abs(a - b) <= 1e-4 * b for a, b in zip(*losses)), *losses)


main()
