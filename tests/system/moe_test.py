#!/usr/bin/env python3
"""Mixtures of experts (cnn_moe, DeepSpeed's example) through the program: training and records; ranks, stages, kills
and resumes; the example's flags; exported and imported weights; refused values.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import *

EXAMPLE = {"model.name": "cnn_moe", "model.num_experts": "[2]", "model.noisy_gate_policy": "RSample"}
KINDS = {"example": EXAMPLE,
         "pyramid": {**EXAMPLE, "model.num_experts": "[2, 4]", "model.mlp_type": "residual"},
         "two": {"model.name": "cnn_moe", "model.num_experts": "[4]", "model.top_k": 2, "model.min_capacity": 1,
                 "model.noisy_gate_policy": "Jitter", "model.capacity_factor": 0.75,
                 "model.aux_loss_coefficient": 0.01}}


def settings(kind, steps=3, **changed):
    return {**FEW, "data.path": few(train=96, test=50), "train_batch_size": 24, **KINDS[kind], "train.max_steps": steps,
            **dotted(changed)}


@functools.lru_cache(None)
def whole(kind):
    train(path(kind), settings(kind))
    return result(path(kind))


@check
def it_learns_and_reports_the_balance():
    done = train(path("learn"), {**settings("pyramid", 300), "train.epochs": 100, "train.log_interval": 12,
                                 "train.eval_interval": 300, "train.save_interval": 300, "data.augment": "[]",
                                 "model.aux_loss_coefficient": 0.01})
    steps = records(path("learn"), "step")
    first, last = (sum(r["loss"] for r in some) / 20 for some in (steps[:20], steps[-20:]))
    expect(last < 0.6 * first, first, last)
    for record in steps:  # two mixtures, each at least 1 where loads and probabilities agree, at most its experts
        expect(1 < record["l_aux"] < 6, record)
    lines = [line for line in done.stdout.splitlines() if "l_aux" in line]
    expect(lines and all(re.fullmatch(r"\[\d+, +\d+\] loss: \d\.\d{3} l_aux: \d\.\d{3}", line) for line in lines),
           done.stdout)
    train(path("plain"), {**FEW, "data.path": few(train=96, test=50), "train.max_steps": 1})
    expect("l_aux" not in records(path("plain"), "step")[0], "a network without experts has a balance")


@check
def ranks_stages_and_recomputation_give_the_same_bits():
    for kind in KINDS:
        whole(kind)
        for ranks, stage in ((1, 1), (1, 3), (2, 0), (2, 2), (3, 1), (3, 3), (2, 3), (3, 2)):
            output = path("%s-%d-%d" % (kind, ranks, stage))
            train(output, settings(kind, zero_optimization__stage=stage), ranks=Ranks(ranks))
            expect_same_result(output, whole(kind), kind, ranks, stage)
        train(path(kind + "-again"), settings(kind, train__recompute="blocks"))
        expect_same_result(path(kind + "-again"), whole(kind), kind)
    four = settings("pyramid", train_batch_size=32)
    train(path("four-1"), four)
    for stage in (0, 1, 2, 3):
        train(path("four-%d" % stage, "4"), {**four, "zero_optimization.stage": stage}, ranks=Ranks(4))
        expect_same_result(path("four-%d" % stage, "4"), result(path("four-1")), stage)


@check
def bf16_gives_the_same_bits_on_any_ranks():
    of = settings("pyramid", **{"bf16.enabled": True})
    if finish(start([PROGRAM, *train_words(path("probe"), of, "--dry-run")])).returncode != DONE:
        raise Skip("the CPU does not compute in bf16")
    train(path("bf16"), of)
    for ranks, stage in ((2, 1), (3, 3)):
        output = path("bf16-%d-%d" % (ranks, stage))
        train(output, {**of, "zero_optimization.stage": stage}, ranks=Ranks(ranks))
        expect_same_result(output, result(path("bf16")), ranks, stage)


@check
def killed_and_resumed():
    for kind in KINDS:
        of = settings(kind, 12, train__epochs=3, train__save_interval=1)
        train(path(kind + "-long"), of)
        output, turns = path(kind + "-killed"), ((1, 0), (2, 2), (3, 1), (2, 3))

        def start_of(kills):
            ranks, stage = turns[kills % len(turns)]
            words = Ranks(ranks).words(*train_words(output, {**of, "zero_optimization.stage": stage}))
            return "%d ranks, stage %d" % (ranks, stage), words, 0.3 + 0.15 * kills
        history = train_through_kills(3, start_of)
        expect_equal(records(output, "end")[-1]["weights_sha256"],
                     records(path(kind + "-long"), "end")[-1]["weights_sha256"], *history)
        parts = path(kind + "-parts")
        for steps, ranks in ((1, 1), (2, 3), (3, 2)):
            train(parts, settings(kind, steps), ranks=Ranks(ranks))
        expect_same_result(parts, whole(kind), kind)


@check
def the_examples_flags_are_keys():
    flags = ["--moe", "--ep-world-size", 2, "--num-experts", 2, 4, "--top-k", 1, "--mlp-type", "residual",
             "--noisy-gate-policy", "RSample", "--min-capacity", 0, "--moe-param-group"]
    plain = {key: value for key, value in settings("pyramid").items() if not key.startswith("model.")}
    done = train(path("flags"), plain, *flags)
    expect_same_result(path("flags"), whole("pyramid"))
    expect("--ep-world-size 2: every rank keeps all experts" in done.stderr, done.stderr)
    printed = run("--config", DEFAULT, "--moe", "--num-experts", "3", "--noisy-gate-policy", "None", "--print-config")
    expect_equal(printed.returncode, DONE, printed.stderr)
    for line in ("name: cnn_moe", "num_experts: [3]", "noisy_gate_policy: none"):
        expect(line in printed.stdout, line, printed.stdout)


@check
def weights_go_out_and_in_and_evaluation_draws_nothing():
    for kind in KINDS:
        whole(kind)
        file = path(kind + ".safetensors")
        expect_equal(run("export", "--ckpt", path(kind), "--out", file).returncode, DONE)
        output = path(kind + "-from")
        train(output, settings(kind, 0, seed=9), "--init", file)
        expect_equal(records(output, "end")[-1]["weights_sha256"], whole(kind)[0])
        for _ in range(2):
            done = succeeds("eval", "--ckpt", path(kind), "--json", "--data", few(train=96, test=50))
            expect_equal(json.loads(done.stdout)["loss"], records(path(kind), "eval")[-1]["loss"])
    names = safetensors(path("pyramid.safetensors"))[0]
    for name in ("0.deepspeed_moe.gate.wg.weight", "1.deepspeed_moe.experts.deepspeed_experts.3.bias", "1.mlp.weight",
                 "0.coefficient.bias"):
        expect("moe_layer_list." + name in names, name, sorted(names))
    fails(CHECKPOINT, run(*train_words(path("example"), settings("example", model__num_experts="[3]"))),
          "model.num_experts")


@check
def invalid_settings_are_refused():
    for sets, *culprits in (({"model.top_k": 3}, "model.top_k must be at least 1 and at most 2"),
                            ({"model.top_k": 0}, "model.top_k"),
                            ({"model.num_experts": "[0]"}, "model.num_experts"),
                            ({"model.num_experts": "[2, -1]"}, "model.num_experts"),
                            ({"model.num_experts": "[1.5]"}, "model.num_experts"),
                            ({"model.num_experts": "[]"}, "model.num_experts"),
                            ({"model.num_experts": "[2, 2, 2, 2, 2, 2, 2, 2, 2]"}, "model.num_experts"),
                            ({"model.num_experts": "2"}, "model.num_experts"),
                            ({"model.num_experts": "[65]"}, "model.num_experts"),
                            ({"model.num_experts": "[1]", "model.top_k": 2}, "model.top_k"),
                            ({"model.mlp_type": "dense"}, "model.mlp_type must be standard or residual"),
                            ({"model.noisy_gate_policy": "Gumbel"}, "model.noisy_gate_policy", "RSample"),
                            ({"model.min_capacity": -1}, "model.min_capacity"),
                            ({"model.capacity_factor": 0}, "model.capacity_factor"),
                            ({"model.aux_loss_coefficient": -0.1}, "model.aux_loss_coefficient"),
                            ({"model.name": "cnn"}, "cnn_moe")):
        fails(USAGE, run(*train_words(path("refused"), {**settings("example"), **sets})), *culprits)
    for flags, *culprits in ((["--moe", "--top-k", 3], "--top-k 3", "model.top_k"),
                             (["--moe", "--num-experts", 0], "--num-experts 0"),
                             (["--moe", "--num-experts", 3, "--ep-world-size", 2], "--ep-world-size 2", "divisible"),
                             (["--moe", "--ep-world-size", 0], "--ep-world-size must be at least 1"),
                             (["--moe", "--mlp-type", "none"], "--mlp-type none"),
                             (["--num-experts", 2], "--num-experts 2", "cnn_moe")):
        fails(USAGE, run("--config", DEFAULT, "--output", path("refused"), *flags), *culprits)
    expect(not os.path.exists(path("refused", "metrics.jsonl")), "a run began")


main()
