#!/usr/bin/env python3
"""Other feed-forward layers of vision transformers (model.ffn) through the program: ranks, stages and resumes, weights
out and in, what is refused; a smaller rate at the root by parameter groups of rows; bench eval.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import *

NARROW = {"model.name": "vit_tiny", "model.dim": 24, "model.depth": 2, "model.heads": 2, "model.dim_head": 8,
          "model.mlp_dim": 20}
FAST = {"model.ffn": "fff", "model.fff_depth": 3}
KINDS = {"fast": FAST, "fan-out": {**FAST, "model.fff_fanout": 4, "model.fff_depth": 2, "model.fff_dense": 8},
         "pairs": {"model.ffn_pairs": True}, "fast-pairs": {**FAST, "model.ffn_pairs": True, "model.fff_trees": 2}}
# A tenth of the rate at the root, a half at its children, decay for neither.
SLOW_ROOT = {"optimizer.groups": "[{pattern: '*.linear_in.*', rows: 1, lr_scale: 0.1, weight_decay: 0}, "
                                 "{pattern: '*.linear_in.*', rows: 3, lr_scale: 0.5, weight_decay: 0}]"}


def settings(kind, steps=3, **changed):
    return {**FEW, "data.path": few(train=64, test=20), "train_batch_size": 16, **NARROW, **KINDS[kind],
            "train.max_steps": steps, **dotted(changed)}


def tensors_of(output):
    return safetensors(os.path.join(output, "last.bin"))[0]


@check
def ranks_stages_and_resumes_give_the_same_bits():
    for kind in KINDS:
        train(path(kind), settings(kind))
        for ranks, stage in ((4, 2), (2, 3)):
            output = path("%s-%d-%d" % (kind, ranks, stage))
            train(output, settings(kind, zero_optimization__stage=stage), ranks=Ranks(ranks))
            expect_same_result(output, result(path(kind)), kind)
        parts = path(kind + "-parts")
        train(parts, settings(kind, 1))
        train(parts, settings(kind), ranks=Ranks(2))
        expect_same_result(parts, result(path(kind)), kind)
        train(path(kind + "-again"), settings(kind, train__recompute="blocks"))
        expect_same_result(path(kind + "-again"), result(path(kind)), kind)


@check
def weights_go_out_and_in():
    for kind in KINDS:
        if not os.path.exists(path(kind)):
            train(path(kind), settings(kind))
        file = path(kind + ".safetensors")
        expect_equal(run("export", "--ckpt", path(kind), "--out", file).returncode, DONE)
        output = path(kind + "-from")
        train(output, settings(kind, 0, seed=9), "--init", file)
        expect_equal(records(output, "end")[-1]["weights_sha256"], records(path(kind), "end")[-1]["weights_sha256"])
        done = succeeds("eval", "--ckpt", path(kind), "--json", "--data", few(train=64, test=20))
        expect_equal(json.loads(done.stdout)["loss"], records(path(kind), "eval")[-1]["loss"])
    shapes = {name: shape for name, (_, shape, _) in safetensors(path("fan-out.safetensors"))[0].items()}
    layer = "transformer.layers.1.1.fn."
    expect_equal({name[len(layer):]: shape for name, shape in shapes.items() if name.startswith(layer)},
                 {"linear_in.weight": [84, 24], "linear_in.bias": [84], "linear_out.weight": [24, 84],
                  "dense_in.weight": [8, 24], "dense_out.weight": [24, 8]})
    fails(CHECKPOINT, run(*train_words(path("fast"), settings("fast", model__fff_depth=4))),
          "model.fff_depth: 3 saved, 4 now")


@check
def groups_of_rows_are_shared_out_with_the_same_bits():
    train(path("slow"), {**settings("fast"), **SLOW_ROOT})
    for ranks, stage in ((2, 0), (2, 1), (4, 2), (4, 3)):
        output = path("slow-%d-%d" % (ranks, stage))
        train(output, {**settings("fast", zero_optimization__stage=stage), **SLOW_ROOT}, ranks=Ranks(ranks))
        expect_same_result(output, result(path("slow")), ranks, stage)
    if not os.path.exists(path("fast")):
        train(path("fast"), settings("fast"))
    expect(result(path("slow"))[0] != result(path("fast"))[0], "the groups change nothing")


@check
def a_rate_of_nothing_leaves_the_roots_as_they_were():
    train(path("begin"), settings("fast", 0))
    still = {"optimizer.groups": "[{pattern: '*.linear_in.*', rows: 1, lr_scale: 0}]"}
    train(path("still"), {**settings("fast"), **still}, ranks=Ranks(2))
    before, after = tensors_of(path("begin")), tensors_of(path("still"))
    for layer in range(2):
        for name, row in (("weight", 4 * 24), ("bias", 4)):
            key = "transformer.layers.%d.1.fn.linear_in.%s" % (layer, name)
            expect_equal(after[key][2][:row], before[key][2][:row], key)
            expect(after[key][2][row:] != before[key][2][row:], key, "the other nodes learnt nothing")


@check
def contradictory_settings_are_refused():
    for sets, *culprits in (
            ({**NARROW, "model.fff_depth": 3}, "--set model.fff_depth=3", "model.ffn is mlp"),
            ({**NARROW, "model.ffn": "moe"}, "model.ffn must be mlp or fff, found 'moe'"),
            ({**NARROW, "model.ffn": "fff", "model.fff_depth": 13, "model.fff_fanout": 64}, "model.fff_depth makes more"),
            ({**NARROW, "model.ffn": "fff", "model.fff_depth": 14}, "model.fff_depth must be at least 0 and at most 13"),
            ({**NARROW, "model.ffn": "fff", "model.fff_fanout": 1}, "model.fff_fanout"),
            ({**NARROW, **FAST, "optimizer.groups": "[{pattern: '*', rows: 0}]"}, "optimizer.groups.rows must be at least 1"),
            ({**NARROW, **FAST, "optimizer.groups": "[{rows: 1}]"}, "a group needs a pattern or dimensions"),
            ({"model.name": "cct", "model.ffn": "fff"}, "model.ffn is not a key of the model cct; vit_tiny or vit take it")):
        fails(USAGE, run(*train_words(path("refused"), {**FEW, "data.path": few(train=64, test=20), **sets})), *culprits)
    expect(not os.path.exists(path("refused", "metrics.jsonl")), "a run began")


@check
def bench_compares_what_a_token_visits_with_all_units():
    sets = {**FEW, **NARROW, **FAST, "data.path": few(train=64, test=20), "train.eval_batch_size": 20}
    words = ["bench", "eval", "--device", "cpu", "--windows", 1, "--seconds", 0.001,
             *[w for key, value in sets.items() for w in ("--set", "%s=%s" % (key, str(value).lower()
                                                                              if isinstance(value, bool) else value))]]
    done = succeeds(*map(str, words))
    for pattern in (r"(?m)^vit_tiny, evaluation in batches of 20 on 1 ranks, cpu.* us per picture on one rank$",
                    r"(?m)^2 fast feedforward layers: \d+\.\d+ us per picture by the units .* all units",
                    r"(?m)^the network with ffn mlp: \d+\.\d us per picture"):
        expect(re.search(pattern, done.stdout), pattern, done.stdout)
    done = run(*map(str, words), "--json")
    found = json.loads(done.stdout)
    for key in ("picture_us", "fff_us", "fff_all_units_us", "mlp_picture_us"):
        expect(found[key] > 0, key, found)
    done = run(*map(str, words), "--json", "--set", "model.ffn=mlp", "--set", "model.fff_depth=7")
    expect("fff_us" not in json.loads(done.stdout), done.stdout)


main()
