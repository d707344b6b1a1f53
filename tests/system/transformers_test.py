#!/usr/bin/env python3
"""Transformers through the program: ranks, stages and resumes, weights out and in, what is refused; vit_tiny's recipe."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import *

NARROW = {"vit_tiny": {"dim": 24, "depth": 2, "heads": 2, "dim_head": 8, "mlp_dim": 20},
          "vit": {"patch": 8, "dim": 24, "depth": 2, "heads": 3, "mlp_dim": 20, "dropout": 0.1, "emb_dropout": 0.1},
          "cct": {"dim": 24, "depth": 2, "heads": 2, "mlp_dim": 20, "convolutions": 2, "dropout": 0.1}}


def settings(name, steps=3, **changed):
    return {**FEW, "data.path": few(train=64, test=20), "train_batch_size": 16, "model.name": name,
            **{"model." + key: value for key, value in NARROW[name].items()}, "train.max_steps": steps,
            **{key.replace("__", "."): value for key, value in changed.items()}}


def specs(file):
    tensors, _ = safetensors(file)
    return {name: (dtype, shape) for name, (dtype, shape, _) in tensors.items()}


@check
def ranks_stages_and_resumes_give_the_same_bits():
    for name in NARROW:
        train(path(name), settings(name))
        for ranks, stage in ((2, 0), (4, 2), (2, 3)):
            output = path("%s-%d-%d" % (name, ranks, stage))
            train(output, settings(name, zero_optimization__stage=stage), ranks=Ranks(ranks))
            expect_same_result(output, result(path(name)))
        train(path(name + "-again"), settings(name, train__recompute="blocks"))
        expect_same_result(path(name + "-again"), result(path(name)))
        parts = path(name + "-parts")
        train(parts, settings(name, 1))
        train(parts, settings(name, 2, zero_optimization__stage=1), ranks=Ranks(2))
        train(parts, settings(name))
        expect_same_result(parts, result(path(name)))


@check
def layers_that_a_library_multiplies_give_the_same_bits():
    """Wide enough for oneDNN's products, in f32 and in what bf16 the machine has."""
    wide = {"model__dim": 272, "model__heads": 2, "model__depth": 1, "model__mlp_dim": 272}
    for compute in (False, "auto"):
        sets = {**wide, "bf16__enabled": compute}
        alone = path("wide-%s" % compute)
        train(alone, settings("vit", **sets))
        for ranks, stage in ((2, 0), (2, 3)):
            output = path("wide-%s-%d-%d" % (compute, ranks, stage))
            train(output, settings("vit", **sets, zero_optimization__stage=stage), ranks=Ranks(ranks))
            expect_same_result(output, result(alone))
        output = alone + "-again"
        train(output, settings("vit", **sets, train__recompute="blocks"))
        expect_same_result(output, result(alone))


@check
def weights_go_out_and_in_under_the_originals_names():
    for name in NARROW:
        if not os.path.exists(path(name)):
            train(path(name), settings(name))
        done = run("export", "--ckpt", path(name), "--out", path(name + ".safetensors"))
        expect_equal(done.returncode, DONE, done.stderr)
        output = path(name + "-from")
        train(output, settings(name, 0, seed=9), "--init", path(name + ".safetensors"))
        expect_equal(records(output, "end")[-1]["weights_sha256"], records(path(name), "end")[-1]["weights_sha256"])
        done = run("eval", "--ckpt", path(name), "--json", "--data", few(train=64, test=20))
        expect_equal(done.returncode, DONE, done.stderr)
        expect_equal(json.loads(done.stdout)["loss"], records(path(name), "eval")[-1]["loss"])
    found = specs(path("vit_tiny.safetensors"))
    expect_equal(found["transformer.layers.1.0.fn.temperature"], ("F32", []))
    expect_equal(found["cls_token"], ("F32", [1, 1, 24]))
    expect_equal(found["pos_embedding"], ("F32", [1, 65, 24]))
    expect_equal(specs(path("vit.safetensors"))["patch_embed.proj.weight"], ("F32", [24, 3, 8, 8]))


@check
def other_widths_and_depths_are_named():
    if not os.path.exists(path("vit")):
        train(path("vit"), settings("vit"))
    other = settings("vit", 0, model__dim=48, model__depth=3)
    fails(CHECKPOINT, run(*train_words(path("never"), other, "--init", path("vit", "last.bin"))),
          "of another depth: 'blocks' 2 for 3", "F32 [1, 17, 24] for F32 [1, 17, 48]", "model.depth")
    fails(CHECKPOINT, run(*train_words(path("vit"), settings("vit", model__depth=3))), "model.depth: 2 saved, 3 now")
    fails(CHECKPOINT, run(*train_words(path("vit"), settings("vit", model__dim=48))), "model.dim: 24 saved, 48 now")
    expect(not os.path.exists(path("never", "metrics.jsonl")), "a run began")


@check
def what_does_not_go_together_is_refused():
    for sets, *culprits in (
            ({"model.patch": 5}, "model.patch: 5 does not divide", "3x32x32", "use 4"),
            ({"model.heads": 7}, "--set model.heads=7: model.heads must divide model.dim", "24 is no multiple of 7"),
            ({"model.dropout": 1}, "model.dropout must be at least 0 and at most 0.999"),
            ({"model.depth": 0}, "model.depth must be at least 1"),
            ({"model.kernel": 3}, "model.kernel is no key of the model vit; cct takes it")):
        fails(USAGE, run(*train_words(path("refused"), {**settings("vit"), **sets})), *culprits)
    expect(not os.path.exists(path("refused", "metrics.jsonl")), "a run began")
    # What a file says of its model is believed as far as a configuration is.
    if not os.path.exists(path("vit")):
        train(path("vit"), settings("vit"))
    tensors, metadata = safetensors(path("vit", "last.bin"))
    plain = {key: value for key, value in metadata.items() if "crc32c" not in key}
    said = json.loads(plain["cifar_train.model"])
    for lie in ({"heads": 7}, {"depth": 1 << 40}, {"dropout": 1.5}, {"dropout": "much"}, {"dim": 24.5}):
        bad = write_safetensors(path("bad.bin"), tensors, {**plain, "cifar_train.model": json.dumps({**said, **lie})})
        fails(CHECKPOINT, run("eval", "--ckpt", bad), bad, "damaged metadata")
    bad = write_safetensors(path("bad.bin"), tensors, {**plain, "cifar_train.model": json.dumps({**said, "patch": 5})})
    fails(USAGE, run("eval", "--ckpt", bad, "--data", few(train=64, test=20)), "model.patch: 5 does not divide")


@check
def the_recipe_chooses_on_what_it_holds_out_and_records_its_arithmetic():
    recipe = os.path.join(CONFIGS, "vit_tiny.yaml")
    narrow = {**{"model." + key: value for key, value in NARROW["vit_tiny"].items()}, "data.path": few(train=64, test=20),
              "data.on_corrupt": "skip", "data.validation": 16, "train_batch_size": 16,
              "train_micro_batch_size_per_gpu": 8, "train.eval_batch_size": 20, "train.max_steps": 6,
              "train.early_stopping.patience": 1, "scheduler.params.cycle_first_step_size": 2}
    done = train(path("recipe"), narrow, config=recipe)
    expect("cycle_momentum overrides optimizer.params.betas" in done.stderr, done.stderr)
    with open(path("recipe", "config.yaml")) as file:
        text = file.read()
    expect("bf16:\n  enabled: true\n" in text or "bf16:\n  enabled: false\n" in text, text)
    compute = "bf16" if "bf16:\n  enabled: true\n" in text else "f32"
    expect_equal(records(path("recipe"), "start")[0]["compute"], compute)
    expect_equal({record["split"] for record in records(path("recipe"), "eval")}, {"val", "test"})
    # The same command, with auto, goes on; one that asks for the other arithmetic does not.
    train(path("recipe"), narrow, config=recipe)
    other = {**narrow, "bf16.enabled": compute == "f32"}
    fails(USAGE if compute == "f32" else CHECKPOINT, run(*train_words(path("recipe"), other, config=recipe)), "bf16.enabled")
    # Chosen by the test set, as the original was: it says so.
    done = train(path("by-test"), {**narrow, "train.best.split": "test"}, config=recipe)
    expect("best.bin is chosen by the test set" in done.stderr, done.stderr)
    done = run("config", "check", os.path.join(CONFIGS, "vit_tiny_fp16.yaml"), recipe)
    expect_equal(done.returncode, DONE, done.stderr)


main()
