#!/usr/bin/env python3
"""The keys of models: their records, weights exported and imported with torchvision's names, and refused values."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import *

WIDTH = 8


def settings(steps=2, **changed):
    return {**FEW, "data.path": few(train=64, test=20), "train_batch_size": 16, "train_micro_batch_size_per_gpu": 4,
            "model.name": "resnet18", "model.width": WIDTH, "train.max_steps": steps, **dotted(changed)}


def state_dict(classes=10, kernel=3):
    """Names, types and shapes of torchvision's resnet18 of that width, from its structure."""
    found = {}

    def conv(name, inputs, outputs, size):
        found[name + ".weight"] = ("F32", [outputs, inputs, size, size])

    def norm(name, channels):
        for suffix in ("weight", "bias", "running_mean", "running_var"):
            found[name + "." + suffix] = ("F32", [channels])
        found[name + ".num_batches_tracked"] = ("I64", [])

    conv("conv1", 3, WIDTH, kernel)
    norm("bn1", WIDTH)
    inputs = WIDTH
    for layer in range(4):
        for block in range(2):
            name, outputs = "layer%d.%d." % (layer + 1, block), WIDTH << layer
            conv(name + "conv1", inputs, outputs, 3)
            norm(name + "bn1", outputs)
            conv(name + "conv2", outputs, outputs, 3)
            norm(name + "bn2", outputs)
            if inputs != outputs:
                conv(name + "downsample.0", inputs, outputs, 1)
                norm(name + "downsample.1", outputs)
            inputs = outputs
    found["fc.weight"], found["fc.bias"] = ("F32", [classes, inputs]), ("F32", [classes])
    return found


def made_up(specs):
    """A file's tensors with different small numbers."""
    tensors, number = {}, 0
    for name, (dtype, shape) in specs.items():
        count = 1
        for size in shape:
            count *= size
        values = [((number + i) % 997 + 1) / 4096 for i in range(count)]
        number += count
        tensors[name] = (dtype, shape, struct.pack("<%df" % count, *values) if dtype == "F32" else bytes(8 * count))
    return tensors


def specs_of(tensors):
    return {name: (dtype, shape) for name, (dtype, shape, _) in tensors.items()}


@functools.lru_cache(None)
def trained():
    train(path("large"), settings(model__stem="imagenet"))
    return path("large")


@check
def the_stem_is_recorded_and_nothing_else_need_say_it():
    large = trained()
    with open(os.path.join(large, "config.yaml")) as file:
        expect("\n  stem: imagenet\n" in file.read(), large)
    train(path("small"), settings())
    with open(os.path.join(path("small"), "config.yaml")) as file:
        expect("\n  stem: cifar\n" in file.read(), "the images have 32 pixels")
    done = succeeds("eval", "--ckpt", os.path.join(large, "best.bin"), "--json", "--data", few(train=64, test=20))
    expect_equal(json.loads(done.stdout)["loss"], records(large, "eval")[-1]["loss"])
    # The same command goes on, and a run from its config.yaml is the same.
    train(path("longer"), settings(4, model__stem="imagenet"))
    shutil.copytree(large, path("resumed"))
    train(path("resumed"), settings(4, model__stem="imagenet"))
    expect_same_result(path("resumed"), result(path("longer")))
    train(path("again"), {}, config=os.path.join(large, "config.yaml"))
    expect_same_result(path("again"), result(large))


@check
def export_gives_a_whole_state_dict_and_init_takes_it():
    for output, kernel in ((trained(), 7), (path("small"), 3)):
        if not os.path.exists(output):
            train(output, settings())
        done = succeeds("export", "--ckpt", output, "--out", path("exported.safetensors"))
        tensors, _ = safetensors(path("exported.safetensors"))
        expect_equal(specs_of(tensors), state_dict(kernel=kernel))
        counters = {data for name, (_, _, data) in tensors.items() if name.endswith("num_batches_tracked")}
        expect_equal(counters, {struct.pack("<q", 2)}, "updates of the running statistics: two steps")
    from_there = path("from-there")
    train(from_there, settings(0, model__stem="imagenet", seed=9), "--init", os.path.join(trained(), "last.bin"))
    expect_equal(records(from_there, "end")[-1]["weights_sha256"], weights_sha256(os.path.join(trained(), "last.bin")))
    tensors, metadata = safetensors(os.path.join(path("small"), "last.bin"))
    plain = {key: value for key, value in metadata.items() if "crc32c" not in key}
    for model in ({"name": "resnet18", "width": -3}, {"name": "resnet18", "width": 1e300}, {"name": 7},
                  {"name": "resnet18", "stem": "huge"}, {"name": "resnet18", "zero_init_residual": []}, []):
        bad = write_safetensors(path("bad.bin"), tensors, {**plain, "cifar_train.model": json.dumps(model)})
        fails(CHECKPOINT, run("eval", "--ckpt", bad), bad, "damaged metadata")


@check
def init_lists_all_that_does_not_fit():
    specs = state_dict(kernel=7)
    missing = [name for name in specs if name.startswith("layer3.") and specs[name][0] == "F32"]
    for name in missing:
        del specs[name]
    specs["conv1.weight"] = ("F32", [WIDTH, 3, 3, 3])
    specs["projection.weight"] = ("F32", [2, 2])
    other = write_safetensors(path("other.safetensors"), made_up(specs))
    words = train_words(path("never"), settings(0, model__stem="imagenet"), "--init", other)
    fails(CHECKPOINT, run(*words), other, "missing: 'layer3.0.", "and %d more" % (len(missing) - 10),
          "of another shape: 'conv1.weight' F32 [8, 3, 3, 3] for F32 [8, 3, 7, 7]", "unexpected: 'projection.weight'",
          "of another model", "model.stem")
    fails(CHECKPOINT, run(*words, "--init-head", "reset"), "unexpected: 'projection.weight'")
    expect(not os.path.exists(path("never", "metrics.jsonl")), "a run began")


@check
def init_head_initialises_the_last_layer():
    wanted = settings(0, model__stem="imagenet")
    train(path("fresh"), wanted)
    fresh, _ = safetensors(path("fresh", "last.bin"))
    of_torchvision = made_up(state_dict(classes=1000, kernel=7))
    without = {name: t for name, t in of_torchvision.items() if not name.startswith("fc.")}
    for name, tensors in (("thousand", of_torchvision), ("headless", without)):
        file = write_safetensors(path(name), tensors)
        fails(CHECKPOINT, run(*train_words(path("never"), wanted, "--init", file, "--init-head", "keep")), file, "fc.weight", "fc.bias",
              "only the last layer differs; --init-head reset initialises it from the seed")
        for ranks, stage in ((1, 0), (2, 3)):
            output = path("%s-%d" % (name, ranks))
            done = train(output, {**wanted, "zero_optimization.stage": stage}, "--init", file, "--init-head", "reset",
                         ranks=Ranks(ranks))
            expect("the last layer, fc, is initialised from the seed" in done.stderr, done.stderr)
            found, _ = safetensors(os.path.join(output, "last.bin"))
            for tensor in fresh:
                source = fresh if tensor.startswith("fc.") or tensor.endswith("tracked") else of_torchvision
                expect_equal(found[tensor], source[tensor], tensor)
            with open(os.path.join(output, "config.yaml")) as text:
                expect("--init-head reset" in text.readline(), output)
    fails(USAGE, run(*train_words(path("never"), wanted, "--init-head", "reset")), "--init")
    fails(USAGE, run(*train_words(path("never"), wanted, "--init", file, "--init-head", "new")), "--init-head")


@check
def filters_that_whiten_images_begin_alike_on_all_ranks_and_stay():
    """Rank 0 computes them for all ranks. Frozen, they stay in every stage."""
    wanted = {**settings(steps=4, model__name="airbench", model__width=4,
                         optimizer="{type: Muon, params: {lr: 0.05, weight_decay: 0.1}}"),
              "train.freeze": "[whiten.weight]"}
    trained = {}
    for name, ranks, stage, steps in (("one", 1, 0, 4), ("four", 4, 3, 4), ("short", 2, 2, 1)):
        train(path(name), {**wanted, "zero_optimization.stage": stage, "train.max_steps": steps}, ranks=Ranks(ranks))
        trained[name] = safetensors(path(name, "last.bin"))[0]
    expect_same_result(path("four"), result(path("one")))
    for name in ("whiten.weight", "layers.1.conv1.weight"):
        expect_equal(trained["one"][name] != trained["short"][name], name != "whiten.weight", name)
    _, shape, data = trained["one"]["whiten.weight"]
    values = struct.unpack("<%df" % (24 * 12), data)
    expect_equal((shape, values[12 * 12:]), ([24, 3, 2, 2], tuple(-v for v in values[:12 * 12])))
    train(path("four"), {**wanted, "train.max_steps": 6}, ranks=Ranks(2))  # goes on
    train(path("whitened"), {**wanted, "train.max_steps": 6})
    expect_same_result(path("four"), result(path("whitened")))


@check
def a_batch_norm_of_one_value_a_channel_is_refused():
    """The large stem leaves the last layers one pixel of 32: with a micro-batch of one image the variance is 0."""
    one = {**settings(model__stem="imagenet"), "train_batch_size": 2, "train_micro_batch_size_per_gpu": 1}
    for words in (train_words(path("never"), one), train_words(path("never"), one, "--dry-run"),
                  ["sweep", *train_words(path("never"), one), "--repeats", "2"]):
        fails(USAGE, run(*words), "batch norm layer4.0.bn1 has one value a channel", "train_micro_batch_size_per_gpu")
    fails(USAGE, run(*train_words(path("never"), {**one, "model.name": "resnet50"})), "batch norm layer4.0.bn2")
    expect(not os.path.exists(path("never", "metrics.jsonl")), "a run began")
    train(path("two-images"), {**one, "train_micro_batch_size_per_gpu": 2})
    train(path("four-pixels"), {**one, "model.stem": "cifar"})
    # Where no micro-batch fits, the smallest of those that are looked at is not the reason.
    large = {**one, "model.name": "resnet50", "model.width": 1024, "train_micro_batch_size_per_gpu": 2}
    done = succeeds("estimate", "--ranks", 1, "--config", DEFAULT, *[w for s in large.items() for w in ("--set", "%s=%s" % s)])
    for output in (path("two-images"), trained()):  # one image at a time is no micro-batch
        done = succeeds("eval", "--ckpt", output, "--batch-size", 1, "--max-images", 2)


@check
def keys_of_other_models_are_refused_by_name():
    for words, *culprits in (
            (["--set", "model.stem=imagenet"], "model.stem is not a key of the model cnn", "resnet18"),
            (["--set", "model.name=resnet18", "--set", "model.stem=vast"], "model.stem must be auto, cifar or imagenet"),
            (["--set", "model.sync_bn=true"], "model.sync_bn", "statistics are those of a micro-batch"),
            (["--set", "model.sync_batchnorm=true"], "model.sync_batchnorm", "micro-batch"),
            (["--sync-bn"], "--sync-bn", "micro-batch"), (["--sync_batchnorm"], "sync", "micro-batch")):
        fails(USAGE, run("--output", path("never"), *words), *culprits)


main()
