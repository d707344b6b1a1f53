#!/usr/bin/env python3
"""train.recompute: blocks are computed again in the backward pass: the same bits with less memory, on every device."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import *

BLOCKS = {"train.recompute": "blocks"}


def small(model, **changed):
    return {**FEW, "data.path": few(train=32, test=8), "model.name": model, "train.max_steps": 3,
            "train_batch_size": 8, "train_micro_batch_size_per_gpu": 2, "train.eval_batch_size": 1, **dotted(changed)}


def activations(output):
    return records(output, "end")[-1]["peak_bytes"]["activations"]


def compare(model, at_most, ranks=(), **changed):
    """Without recomputation, with it, and with it on several ranks with a ZeRO stage. at_most: the allowed share of the
    bytes."""
    settings = small(model, **changed)
    whole, again = path(model), path(model + "-again")
    train(whole, settings, "--reset")
    train(again, {**settings, **BLOCKS}, "--reset")
    expect_same_result(again, result(whole), model)
    expect(activations(again) <= at_most * activations(whole), activations(again), activations(whole))
    for number, stage in ranks:
        output = path("%s-%d-%d" % (model, number, stage))
        train(output, {**settings, **BLOCKS, "zero_optimization.stage": stage}, "--reset", ranks=Ranks(number))
        expect_same_result(output, result(whole), "%d ranks, stage %d" % (number, stage))


@check
def the_same_bits_of_the_tutorials_network():
    compare("cnn_plain", 1, ranks=[(2, 1), (4, 2), (2, 3)])


@check
def the_same_bits_of_resnet18():
    compare("resnet18", 0.9, ranks=[(2, 2), (2, 3)], train__max_steps=2)


@check
def the_same_bits_on_a_gpus_stand_in():
    need_on_host()
    hashes = set()
    for more in ({}, BLOCKS):
        output = path("gpu-%d" % len(more))
        settings = small("cnn_plain", train__max_steps=3, communication__share_device=True, **more)
        done = finish(start([ON_HOST, *train_words(output, settings, "--device", "cuda", "--ranks", 2)]))
        expect_equal(done.returncode, DONE, done.stderr)
        hashes.add(result(output)[0])
    expect_equal(len(hashes), 1)


@check
def a_run_may_change_its_mind():
    output, whole = path("changed"), path("unchanged")
    train(whole, small("cnn_plain", train__max_steps=4))
    train(output, small("cnn_plain", train__max_steps=2))
    train(output, {**small("cnn_plain", train__max_steps=4), **BLOCKS})
    expect_equal(result(output)[0], result(whole)[0])


@check
def plans_and_estimates_show_it():
    words = train_words(path("none"), {**small("resnet18"), **BLOCKS})
    plan = run("train", *words, "--dump-plan", "--ranks", 1)
    expect(plan.returncode == DONE and plan.stdout.count("(recompute)") > 16, plan.stdout[:2000], plan.stderr)
    found = {}
    for kind in ("none", "blocks"):
        words = ["estimate", "--config", os.path.join(CONFIGS, "resnet18.yaml"), "--set", "model.name=resnet50",
                 "--set", "train.recompute=" + kind, "--ranks", 1, "--set", "train.eval_batch_size=1"]
        found[kind] = json.loads(run(*words, "--json").stdout)["stages"][0]["rank"]["activations"]
    expect(found["blocks"] < 0.45 * found["none"], found)
    expect("blocks computed again" in run(*words).stdout)


main()
