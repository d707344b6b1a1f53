#!/usr/bin/env python3
"""Weights that other programs wrote: in other floating-point types, not finite, or no safetensors at all."""
import gzip
import math
import os
import sys
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import *

SETTINGS = {**FEW, "train.max_steps": 0}


def settings(**changed):
    return {**SETTINGS, "data.path": few(), **dotted(changed)}


@functools.lru_cache(None)
def own():
    """The tensors and metadata of this program's file: the initial weights of seed 7."""
    train(path("own"), settings(seed=7))
    return safetensors(path("own", "last.bin"))


def without_checksums(metadata):
    return {key: value for key, value in metadata.items() if "crc32c" not in key}


def write(name, tensors, metadata=None):
    return write_safetensors(path(name), tensors, metadata)


def numbers(data):
    return struct.unpack("<%df" % (len(data) // 4), data)


def f32(values):
    return struct.pack("<%df" % len(values), *values)


def as_f16(data):
    values = numbers(data)
    halves = struct.pack("<%de" % len(values), *values)
    return halves, f32(struct.unpack("<%de" % len(values), halves))


def as_bf16(data):
    """The upper half of each element."""
    halves = b"".join(data[i + 2:i + 4] for i in range(0, len(data), 4))
    return halves, b"".join(b"\0\0" + halves[i:i + 2] for i in range(0, len(halves), 2))


def as_f64(data):
    """Values between f32's numbers, so that they are rounded."""
    values = [x * (1 + 2 ** -30) for x in numbers(data)]
    return struct.pack("<%dd" % len(values), *values), f32(values)


TYPES = {"F16": as_f16, "BF16": as_bf16, "F64": as_f64}


def in_type(dtype, names=None):
    """The tensors, those of `names` in another type, and their values in f32."""
    foreign, expected = {}, {}
    for name, (_, shape, data) in own()[0].items():
        stored, kept = TYPES[dtype](data) if names is None or name in names else (data, data)
        foreign[name] = ("F32" if stored is data else dtype, shape, stored)
        expected[name] = ("F32", shape, kept)
    return foreign, expected


@check
def init_converts_other_floating_types():
    for dtype, ranks, stage in [("F16", 1, 0), ("BF16", 2, 3), ("F64", 2, 1)]:
        foreign, expected = in_type(dtype)
        output = path("from-" + dtype)
        done = train(output, settings(zero_optimization__stage=stage), "--init", write(dtype, foreign),
                     ranks=Ranks(ranks))
        expect_equal(safetensors(os.path.join(output, "last.bin"))[0], expected, dtype)
        said = "--init: 10 tensors converted from %s to f32" % dtype.lower()
        expect_equal(done.stderr.count(said), 1, done.stderr)
    foreign, expected = in_type("BF16", names=["fc1.weight"])
    done = train(path("from-mixed"), settings(), "--init", write("mixed", foreign))
    expect_equal(safetensors(path("from-mixed", "last.bin"))[0], expected)
    expect("--init: 1 tensor converted from bf16 to f32" in done.stderr, done.stderr)
    done = train(path("from-own"), settings(), "--init", path("own", "last.bin"))
    expect("converted" not in done.stderr, done.stderr)


@check
def eval_and_export_convert_too():
    foreign, expected = in_type("BF16")
    ours = without_checksums(own()[1])
    half, whole = write("half.bin", foreign, ours), write("whole.bin", expected, ours)
    by_half, by_whole = (run("eval", "--ckpt", file, "--json") for file in (half, whole))
    expect_equal([by_half.returncode, by_whole.returncode], [DONE, DONE], by_half.stderr, by_whole.stderr)
    expect_equal(by_half.stdout, by_whole.stdout)
    expect("half.bin': 10 tensors converted from bf16 to f32" in by_half.stderr, by_half.stderr)
    expect("converted" not in by_whole.stderr, by_whole.stderr)
    done = succeeds("export", "--ckpt", half, "--out", path("exported"))
    expect_equal(safetensors(path("exported"))[0], expected)
    counter = {"bn.num_batches_tracked": ("I64", [], struct.pack("<q", 3))}
    expect_equal(run("export", "--ckpt", write("counted", {**foreign, **counter}), "--out", path("exported"))
                 .returncode, DONE)
    expect_equal(safetensors(path("exported"))[0], {**expected, **counter})


def changed(name, at, value, dtype="F32"):
    """The tensors, with one element of a tensor replaced."""
    tensors = dict(own()[0])
    _, shape, data = tensors[name]
    code = {"F32": "f", "F64": "d"}[dtype]
    values = list(numbers(data))
    values[at] = value
    tensors[name] = (dtype, shape, struct.pack("<%d%s" % (len(values), code), *values))
    return tensors


@check
def init_names_the_first_element_that_is_not_finite():
    for value, text in [(math.nan, "nan"), (math.inf, "inf"), (-math.inf, "-inf")]:
        bad = write("bad", changed("fc1.weight", 3 * 400 + 17, value))
        for ranks, stage in [(1, 0), (2, 3)]:  # fc1.weight is [120, 400]: row 3 is rank 0's
            done = finish(start(Ranks(ranks).words(*train_words(
                path("never"), settings(zero_optimization__stage=stage), "--init", bad))))
            fails(CHECKPOINT, done, bad, "tensor 'fc1.weight'", "not finite (%s)" % text, "[3, 17]")
    done = run(*train_words(path("never"), settings(), "--init", write("bad", changed("conv1.bias", 5, math.nan, "F64"))))
    fails(CHECKPOINT, done, "tensor 'conv1.bias'", "not finite (nan) at [5]")
    expect(not os.path.exists(path("never", "metrics.jsonl")), "a run began")
    # A variance is not negative.
    resnet = settings(model__name="resnet18", model__width=1)
    train(path("resnet"), resnet)
    tensors = safetensors(path("resnet", "last.bin"))[0]
    dtype, shape, data = tensors["bn1.running_var"]
    tensors["bn1.running_var"] = (dtype, shape, f32([-0.5, *numbers(data)[1:]]))
    done = run(*train_words(path("never"), resnet, "--init", write("bad", tensors)))
    fails(CHECKPOINT, done, "tensor 'bn1.running_var'", "negative", "(-0.5) at [0]")


@check
def every_verb_names_non_finite_weights():
    metadata = without_checksums(own()[1])
    one, two = changed("fc3.bias", 0, math.nan), changed("fc3.bias", 0, math.inf)
    two["conv2.bias"] = changed("conv2.bias", 1, -math.inf)["conv2.bias"]
    for tensors, said in ((one, "tensor 'fc3.bias' is not finite"),
                          (two, "2 tensors are not finite (the first is 'conv2.bias')")):
        bad = write("bad", tensors, metadata)
        fails(DIVERGED, run("eval", "--ckpt", bad), bad, said, "earlier checkpoint")
        done = succeeds("ckpt", "inspect", bad)
        expect(said in done.stdout.splitlines(), done.stdout)
        done = succeeds("export", "--ckpt", bad, "--out", path("copy"))
        expect_equal(done.stderr.splitlines(), ["warning: '%s': %s" % (bad, said)])
        expect_equal(safetensors(path("copy"))[0], tensors)
    # Of a file with two sets the one that is taken counts.
    average = {name + ".ema": tensor for name, tensor in own()[0].items()}
    both = write("both", {**one, **average}, metadata)
    expect_equal(run("eval", "--ckpt", both, "--ema").returncode, DONE)
    fails(DIVERGED, run("eval", "--ckpt", both, "--no-ema"), "tensor 'fc3.bias' is not finite")
    done = run("export", "--ckpt", both, "--ema", "--out", path("copy"))
    expect_equal([done.returncode, done.stderr], [DONE, ""])


@check
def init_removes_a_common_prefix():
    tensors = own()[0]

    def behind(prefix, tensors=tensors):
        return {prefix + name: tensor for name, tensor in tensors.items()}

    averaged = {**behind("module."), "n_averaged": ("I64", [], struct.pack("<q", 3))}
    cases = [(prefix, behind(prefix)) for prefix in ("module.", "_orig_mod.", "model.", "net.", "module._orig_mod.")]
    for number, (prefix, foreign) in enumerate([*cases, ("module.", averaged)]):
        output, stage = path("behind-%d" % number), 3 if number == 0 else 0
        done = train(output, settings(seed=9, zero_optimization__stage=stage), "--init", write("behind", foreign),
                     ranks=Ranks(2 if stage else 1))
        expect_equal(safetensors(os.path.join(output, "last.bin"))[0], tensors, prefix)
        expect("--init: '%s' before all names is left out" % prefix in done.stderr, done.stderr)
    headless = {name: tensor for name, tensor in tensors.items() if not name.startswith("fc3.")}
    train(path("headless"), settings(), "--init", write("behind", behind("model.", headless)), "--init-head", "reset")
    expect_equal(safetensors(path("headless", "last.bin"))[0]["fc1.weight"], tensors["fc1.weight"])
    # Files are told by their own names, and what stands before some names alone is a name.
    words = train_words(path("never"), settings(), "--init", path("behind"), "--init-head", "keep")
    write("behind", behind("module.", changed("fc1.weight", 0, math.nan)))
    fails(CHECKPOINT, run(*words), "tensor 'module.fc1.weight' is not finite (nan) at [0, 0]")
    write("behind", behind("module.", {**headless, "fc3.weight": tensors["fc3.weight"]}))
    fails(CHECKPOINT, run(*words), "('module.' before all names is left out; missing: 'fc3.bias')")
    write("behind", {**behind("module.", headless), "fc3.bias": tensors["fc3.bias"]})
    fails(CHECKPOINT, run(*words), "missing: 'conv1.weight'", "unexpected: 'module.conv1.bias'")


@check
def init_warns_of_another_network_of_the_same_shapes():
    small = dict(model__name="vit_tiny", model__patch=8, model__dim=16, model__depth=1, model__heads=2,
                 model__dim_head=8, model__mlp_dim=16)
    train(path("two-heads"), settings(**small))
    weights = path("two-heads", "last.bin")
    expect("another network" not in train(path("same"), settings(**small, model__dropout=0), "--init", weights).stderr)
    done = train(path("one-head"), settings(**{**small, "model__heads": 1, "model__dim_head": 16}), "--init", weights)
    expect("of another network: model.heads 2 (here 1), model.dim_head 8 (here 16)" in done.stderr, done.stderr)
    done = run(*train_words(path("never"), settings(**{**small, "model__dim": 8}), "--init", weights))
    expect("model.dim 16 (here 8)" in done.stderr and done.returncode == CHECKPOINT, done.stderr)


@check
def init_refuses_values_too_large_for_f32():
    large = write("large", changed("fc2.weight", 121, -1e300, "F64"), without_checksums(own()[1]))
    for words in (train_words(path("never"), settings(), "--init", large), ["eval", "--ckpt", large],
                  ["export", "--ckpt", large, "--out", path("never.safetensors")]):
        fails(CHECKPOINT, run(*words), large, "tensor 'fc2.weight'", "too large for f32 at [1, 1]")
    expect(not os.path.exists(path("never.safetensors")), "a part was exported")
    integers = dict(own()[0])
    integers["fc2.bias"] = ("I64", [84], bytes(8 * 84))
    done = run(*train_words(path("never"), settings(), "--init", write("integers", integers)))
    fails(CHECKPOINT, done, "tensor 'fc2.bias' is I64 [84]", "BF16")
    short = dict(own()[0])
    short["fc2.bias"] = ("BF16", [42], bytes(84))
    done = run(*train_words(path("never"), settings(), "--init", write("short", short)))
    fails(CHECKPOINT, done, "of another shape: 'fc2.bias' BF16 [42] for BF16 [84]", "of another model")


def spill(name, data):
    with open(path(name), "wb") as file:
        file.write(data)
    return path(name)


def archive(name, entries):
    with zipfile.ZipFile(path(name), "w") as file:
        for entry in entries:
            file.writestr(entry, bytes(100))
    return path(name)


@check
def files_of_other_formats_are_named():
    remedy = "torch.save(torch.load("
    files = [
        (spill("old.pth", b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03."), "as PyTorch wrote before version 1.6", remedy),
        (archive("other.zip", ["weights.safetensors"]), "zip archive", "unpack"),
        (spill("packed.gz", gzip.compress(bytes(100))), "gzip", "unpack"),
        (spill("weights.h5", b"\x89HDF\r\n\x1a\n" + bytes(100)), "HDF5", "safetensors"),
        (spill("array.npy", b"\x93NUMPY\x01\0v\0{'descr': '<f4'}" + bytes(100)), "NumPy", "safetensors"),
        (spill("model.onnx", b"\x08\x07\x12\x07pytorch\x1a\x051.9.0" + bytes(100)), "ONNX", "safetensors"),
        (spill("pointer", b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n"), "Git LFS", "pull"),
        (spill("page", b"<!DOCTYPE html><html></html>"), "web page", "download"),
        (spill("nothing", b""), "empty", "another copy")]
    for file, *culprits in files:
        for words in (train_words(path("never"), settings(), "--init", file), ["eval", "--ckpt", file],
                      ["export", "--ckpt", file, "--out", path("never.safetensors")], ["ckpt", "inspect", file],
                      ["ckpt", "verify", file]):
            fails(CHECKPOINT, run(*words), file, *culprits)
    # A header of 640 bytes begins as a pickle does.
    sized = json.dumps({"t": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).ljust(640).encode()
    with_header = spill("640", struct.pack("<Q", len(sized)) + sized + bytes(4))
    expect_equal(struct.pack("<Q", len(sized))[:2], b"\x80\x02")
    done = succeeds("ckpt", "inspect", with_header)


main()
