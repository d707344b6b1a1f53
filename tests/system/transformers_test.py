#!/usr/bin/env python3
"""Transformers through the program: ranks, stages and resumes, exported and imported weights, refused values;
vit_tiny's recipe."""
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
            **dotted(changed)}


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
    """Layers wide enough for oneDNN's products, in f32 and, if the machine has it, bf16."""
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
        done = succeeds("export", "--ckpt", path(name), "--out", path(name + ".safetensors"))
        output = path(name + "-from")
        train(output, settings(name, 0, seed=9), "--init", path(name + ".safetensors"))
        expect_equal(records(output, "end")[-1]["weights_sha256"], records(path(name), "end")[-1]["weights_sha256"])
        done = succeeds("eval", "--ckpt", path(name), "--json", "--data", few(train=64, test=20))
        expect_equal(json.loads(done.stdout)["loss"], records(path(name), "eval")[-1]["loss"])
    found = specs(path("vit_tiny.safetensors"))
    expect_equal(found["transformer.layers.1.0.fn.temperature"], ("F32", []))
    expect_equal(found["cls_token"], ("F32", [1, 1, 24]))
    expect_equal(found["pos_embedding"], ("F32", [1, 65, 24]))
    expect_equal(specs(path("vit.safetensors"))["patch_embed.proj.weight"], ("F32", [24, 3, 8, 8]))


def in_later_vit_pytorch(name):
    """The name in vit-pytorch 1.26, where attention and feed-forward layers contain their norms."""
    layer = re.fullmatch(r"(transformer\.layers\.\d+\.)(0|1)\.(norm|fn)\.(.*)", name)
    if not layer:
        return name
    begin, part, kind, rest = layer.groups()
    if part == "0":
        return begin + ("0.norm." if kind == "norm" else "0.") + rest
    return begin + ("1.net.0." + rest if kind == "norm" else "1." + rest.replace("net.3.", "net.4.").replace("net.0.", "net.1."))


@check
def vit_tiny_takes_both_spellings_of_vit_pytorch():
    if not os.path.exists(path("vit_tiny")):
        train(path("vit_tiny"), settings("vit_tiny"))
    tensors, _ = safetensors(path("vit_tiny", "last.bin"))
    later = {in_later_vit_pytorch(name): tensor for name, tensor in tensors.items()}
    layer = {name[len("transformer.layers.1."):] for name in later if name.startswith("transformer.layers.1.")}
    expect_equal(layer, {"0.temperature", "0.norm.weight", "0.norm.bias", "0.to_qkv.weight", "0.to_out.0.weight",
                         "0.to_out.0.bias", "1.net.0.weight", "1.net.0.bias", "1.net.1.weight", "1.net.1.bias",
                         "1.net.4.weight", "1.net.4.bias"})
    for prefix in ("", "module."):
        file = write_safetensors(path("later"), {prefix + name: tensor for name, tensor in later.items()})
        output = path("later-run" + prefix)
        train(output, settings("vit_tiny", 0, seed=9), "--init", file)
        expect_equal(safetensors(os.path.join(output, "last.bin"))[0], tensors)  # under the documented names
    del later["transformer.layers.1.1.net.4.bias"]
    fails(CHECKPOINT, run(*train_words(path("never"), settings("vit_tiny", 0), "--init",
                                       write_safetensors(path("later"), later))),
          "(missing: 'transformer.layers.1.1.fn.net.3.bias')")


def embeddings(tokens, dim=24):
    values = [i * 7919 % 1009 / 1009 - 0.5 for i in range(tokens * dim)]
    return "F32", [1, tokens, dim], struct.pack("<%df" % len(values), *values)


@check
def positions_of_another_picture_size_are_named_and_resampled():
    """As timm 1.0's resample_abs_pos_embed: compares the first and last number of every token."""
    timms = {6: [(-0.5, 0.012389), (0.079677, -0.043635), (-0.12542, 0.028258), (0.10836, 0.058994), (-0.028253, 0.117533),
                 (0.059199, -0.256613), (-0.126019, 0.194539), (0.131379, -0.114772), (-0.077165, -0.088558),
                 (-0.070912, 0.080214), (-0.008254, -0.09389), (0.034831, 0.11699), (0.050744, -0.053326),
                 (-0.283459, 0.043448), (0.204183, -0.123056), (-0.160976, 0.115036), (0.329697, -0.064744)],
             2: [(-0.5, 0.012389), (-0.146505, 0.461904), (-0.039946, 0.247022), (0.171352, -0.179075),
                 (0.277911, -0.393957), (-0.228766, 0.353581), (-0.122207, 0.225947), (0.089091, -0.027143),
                 (0.19565, -0.154777), (-0.391884, 0.138782), (-0.285325, 0.184155), (-0.074027, 0.274127),
                 (0.032532, 0.3195), (-0.474144, 0.030459), (-0.367586, 0.16308), (-0.156288, 0.426059),
                 (-0.049729, 0.55868)]}
    if not os.path.exists(path("vit")):
        train(path("vit"), settings("vit"))
    own, _ = safetensors(path("vit", "last.bin"))
    wanted = settings("vit", 0, seed=9)
    for side, ranks in ((6, 1), (2, 2)):
        file = write_safetensors(path("other-size"), {**own, "pos_embed": embeddings(1 + side * side)})
        words = train_words(path("never"), wanted, "--init", file)
        fails(CHECKPOINT, run(*words), file, "'pos_embed' F32 [1, %d, 24] for F32 [1, 17, 24]" % (1 + side * side),
              "made for pictures of %dx%d pixels, which are 32x32 here" % (8 * side, 8 * side),
              "--init-resize resamples its positions, %dx%d tokens to 4x4" % (side, side))
        output = path("resized-%d" % side)
        done = train(output, {**wanted, "zero_optimization.stage": 3 if ranks > 1 else 0}, "--init", file,
                     "--init-resize", ranks=Ranks(ranks))
        expect("--init: 'pos_embed' is resampled, %dx%d tokens to 4x4" % (side, side) in done.stderr, done.stderr)
        found, _ = safetensors(os.path.join(output, "last.bin"))
        expect_equal({**found, "pos_embed": None}, {**own, "pos_embed": None})
        values = struct.unpack("<%df" % (17 * 24), found["pos_embed"][2])
        for token, expected in enumerate(timms[side]):
            for at, number in zip((0, 23), expected):
                expect(abs(values[24 * token + at] - number) < 2e-6, token, at, values[24 * token + at], number)
        with open(os.path.join(output, "config.yaml")) as text:
            expect("--init-resize" in text.readline(), output)
    # With another head both remedies; where nothing differs none is needed.
    head = {"head.weight": ("F32", [7, 24], bytes(4 * 7 * 24)), "head.bias": ("F32", [7], bytes(28))}
    file = write_safetensors(path("other-size"), {**own, "pos_embed": embeddings(37), **head})
    words = train_words(path("never"), wanted, "--init", file, "--init-head", "keep")
    fails(CHECKPOINT, run(*words), "--init-resize resamples its positions", "and --init-head reset initialises the last layer from the seed")
    fails(CHECKPOINT, run(*words, "--init-resize"), "only the last layer differs")
    train(path("both"), wanted, "--init", file, "--init-resize", "--init-head", "reset")
    train(path("neither"), wanted, "--init", path("vit", "last.bin"), "--init-resize")
    expect_equal(safetensors(path("neither", "last.bin"))[0], own)
    fails(USAGE, run(*train_words(path("never"), wanted, "--init-resize")), "--init")
    patches = {"patch_embed.proj.weight": ("F32", [24, 3, 16, 16], bytes(4 * 24 * 3 * 16 * 16))}
    file = write_safetensors(path("other-patches"), {**own, **patches, "pos_embed": embeddings(1 + 14 * 14)})
    fails(CHECKPOINT, run(*train_words(path("never"), wanted, "--init", file)),
          "its patches are of 16x16 pixels, which are 8x8 here: set model.patch: 16")
    # Likewise the others: with patches of 4 pixels, and two poolings.
    for name, tensor, before, side in (("vit_tiny", "pos_embedding", 1, 4), ("cct", "classifier.positional_emb", 0, 10)):
        if not os.path.exists(path(name)):
            train(path(name), settings(name))
        tensors, _ = safetensors(path(name, "last.bin"))
        file = write_safetensors(path("other-size"), {**tensors, tensor: embeddings(before + side * side)})
        fails(CHECKPOINT, run(*train_words(path("never"), settings(name, 0), "--init", file)),
              "pictures of %dx%d pixels, which are 32x32 here" % (4 * side, 4 * side), "%dx%d tokens to 8x8" % (side, side))
        train(path("resized-" + name), settings(name, 0), "--init", file, "--init-resize")
    expect(not os.path.exists(path("never", "metrics.jsonl")), "a run began")


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
def contradictory_settings_are_refused():
    for sets, *culprits in (
            ({"model.patch": 5}, "model.patch: 5 does not divide", "3x32x32", "use 4"),
            ({"model.heads": 7}, "--set model.heads=7: model.heads must divide model.dim", "24 is not a multiple of 7"),
            ({"model.dropout": 1}, "model.dropout must be at least 0 and at most 0.999"),
            ({"model.depth": 0}, "model.depth must be at least 1"),
            ({"model.kernel": 3}, "model.kernel is not a key of the model vit; cct takes it")):
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
    done = succeeds("config", "check", os.path.join(CONFIGS, "vit_tiny_fp16.yaml"), recipe)


main()
