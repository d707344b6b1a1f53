#!/usr/bin/env python3
"""Weights in files of torch.save(): read without running code, and refused by name where they hold anything else."""
import collections
import os
import pickle
import random
import sys
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import *
from torch_files import *

SETTINGS = {**FEW, "train.max_steps": 0}


def settings(**changed):
    return {**SETTINGS, "data.path": few(), **dotted(changed)}


@functools.lru_cache(None)
def own():
    """A run's initial weights, of seed 7."""
    train(path("own"), settings(seed=7))
    return safetensors(path("own", "last.bin"))[0]


def state_dict(**changed):
    tensors = collections.OrderedDict((name, Tensor(*tensor)) for name, tensor in own().items())
    tensors.update(changed)
    return tensors


def initial_weights(file, *words):
    """Those of a run that starts from the file."""
    output = path("from-" + os.path.basename(file))
    train(output, settings(seed=8), "--init", file, "--reset", *words)
    return safetensors(os.path.join(output, "last.bin"))[0]


@check
def state_dicts_alone_and_in_dictionaries():
    files = {
        "plain.pth": state_dict(),
        "dict.pt": dict(state_dict()),
        "parameters.pth": {name: Called("torch._utils", "_rebuild_parameter", tensor, True, collections.OrderedDict())
                           for name, tensor in state_dict().items()},
        "training.tar": {"epoch": 3, "loss": 0.25, "best": None, "big": 1 << 80, "seen": True,
                         "model_state_dict": state_dict(),
                         "optimizer_state_dict": {"state": {0: {"step": 5}}, "param_groups": [{"lr": 0.1}]}},
        "with a tensor beside it.pth": {"state_dict": state_dict(), "step": next(iter(state_dict().values()))},
        "mp_rank_00_model_states.pt": {"module": state_dict(), "buffer_names": [], "ds_version": "0.19.8",
                                       "param_shapes": [{"fc1.weight": Called("torch", "Size", (120, 400))}]},
        "wrapped.pth": {"module." + name: tensor for name, tensor in state_dict().items()},
    }
    for name, thing in files.items():
        expect_equal(initial_weights(torch_save(path(name), thing)), own(), name)


@check
def elements_in_another_order():
    """As of a model in torch.channels_last, and of a transposed matrix."""
    dtype, (n, c, h, w), data = own()["conv2.weight"]
    at = lambda *index: 4 * (((index[0] * c + index[1]) * h + index[2]) * w + index[3])
    pieces = [data[at(i, k, y, x):][:4] for i in range(n) for y in range(h) for x in range(w) for k in range(c)]
    last = Tensor(dtype, [n, c, h, w], b"".join(pieces), (h * w * c, 1, w * c, c))
    dtype, (rows, columns), data = own()["fc2.weight"]
    turned = b"".join(data[4 * (r * columns + k):][:4] for k in range(columns) for r in range(rows))
    file = torch_save(path("ordered.pth"), state_dict(**{"conv2.weight": last, "fc2.weight": Tensor(dtype, [rows, columns], turned,
                                                                                                 (1, rows))}))
    expect_equal(initial_weights(file), own())


@check
def tensors_that_share_a_storage_and_counters():
    name, (dtype, shape, data) = next((n, t) for n, t in own().items() if n == "fc3.weight")
    shared = Tensor(dtype, shape, bytes(40) + data, first=10)
    file = torch_save(path("shared.pth"), state_dict(**{name: shared, "num_batches_tracked": Tensor("I64", [], bytes(8))}))
    expect_equal(initial_weights(file), own())
    listed = good("ckpt", "inspect", file)
    expect(re.search(r"fc3.weight +F32 +\[10, 84\]", listed) and "num_batches_tracked  I64" in listed, listed)


@check
def a_pretrained_network_has_its_head_fitted():
    other = state_dict(**{"fc3.weight": Tensor("F32", [5, 84], bytes(5 * 84 * 4)), "fc3.bias": Tensor("F32", [5], bytes(20))})
    file = torch_save(path("other-classes.pth"), other)
    done = train(path("fitted"), settings(seed=8), "--pretrained", file)
    expect("8 tensors are loaded from '%s'; the last layer, fc3, is initialised from the seed" % file in done.stderr,
           done.stderr)
    train(path("seed"), settings(seed=8))
    fresh, found = (safetensors(path(run, "last.bin"))[0] for run in ("seed", "fitted"))
    for name in own():
        expect_equal(found[name], (fresh if name.startswith("fc3.") else own())[name], name)
    done = train(path("same-classes"), settings(seed=8), "--pretrained", torch_save(path("same.pth"), state_dict()))
    expect("10 tensors are loaded from" in done.stderr and "initialised from the seed" not in done.stderr, done.stderr)
    expect_equal(safetensors(path("same-classes", "last.bin"))[0], own())
    bad(CHECKPOINT, "only the last layer differs", *train_words(path("never"), settings(), "--init", file, "--init-head", "keep"))
    bad(USAGE, "--init-head needs --init FILE or --pretrained FILE", *train_words(path("never"), settings(), "--init-head",
                                                                                 "fit"))


@check
def what_would_run_code_is_refused_by_its_name():
    random.seed(1)
    globals_ = [("os", "system"), ("posix", "system"), ("builtins", "eval"), ("builtins", "exec"), ("nt", "system"),
                ("subprocess", "Popen"), ("builtins", "getattr"), ("importlib", "import_module"), ("codecs", "encode"),
                ("torchvision.models.resnet", "ResNet"), ("__main__", "Net"), ("argparse", "Namespace"),
                ("numpy.core.multiarray", "scalar"), ("torch.nn.modules.linear", "Linear"), ("pickle", "loads"),
                ("torch.storage", "_load_from_bytes"), ("collections", "Counter"), ("torch", "load")]
    for module, name in globals_:
        witness = path("witness")
        attack = Called(module, name, "touch " + witness)
        for thing in (attack, {"state_dict": state_dict(), "extra": attack}, state_dict(**{"fc1.bias": attack})):
            file = torch_save(path("attack.pth"), thing)
            bad(CHECKPOINT, "needs '%s.%s' to be called, and no code of a file is run" % (module, name), "ckpt", "inspect",
                file)
            expect(not os.path.exists(witness), module, name)


@check
def damaged_and_hostile_archives():
    good_file = torch_save(path("good.pth"), state_dict())
    whole = open(good_file, "rb").read()
    random.seed(2)

    def refused(name, data=None, culprit="use another copy"):
        if data is not None:
            with open(path(name), "wb") as file:
                file.write(data)
        bad(CHECKPOINT, culprit, "ckpt", "inspect", path(name))

    for cut in (30, 100, len(whole) // 2, len(whole) - 5):
        refused("cut-%d.pth" % cut, whole[:cut], "cut-%d.pth" % cut)
    for _ in range(40):  # of the directory and the pickle: never a crash, and a file that is refused or whole
        at = random.choice([random.randrange(len(whole) - 1000, len(whole)), random.randrange(0, 2000)])
        with open(path("flipped.pth"), "wb") as file:
            file.write(whole[:at] + bytes([whole[at] ^ 1 << random.randrange(8)]) + whole[at + 1:])
        done = run("ckpt", "inspect", path("flipped.pth"))
        expect(done.returncode in (DONE, CHECKPOINT), at, done.returncode, done.stderr)
    torch_save(path("packed.pth"), state_dict(), compression=zipfile.ZIP_DEFLATED)
    refused("packed.pth", culprit="compressed")
    torch_save(path("big-endian.pth"), state_dict(), byteorder=b"big")
    refused("big-endian.pth", culprit="big-endian machine")
    torch_save(path("lost.pth"), state_dict(), without=["data/0"])
    refused("lost.pth", culprit="has no file 'data/0' in it")
    torch_save(path("short.pth"), state_dict(**{"fc1.bias": Tensor("F32", [120], bytes(400))}))
    refused("short.pth", culprit="tensor 'fc1.bias' is longer than its data")
    for strides in ((1, 85), (0, 1), (120, 0), (240, 2), (-120, 1)):
        torch_save(path("with-gaps.pth"), state_dict(**{"fc2.weight": Tensor("F32", [84, 120], bytes(99999), strides)}))
        refused("with-gaps.pth", culprit="tensor 'fc2.weight' is not contiguous: save it with .contiguous()")
    torch_save(path("huge.pth"), state_dict(**{"fc1.bias": Tensor("F32", [1 << 40, 1 << 40], bytes(400))}))
    refused("huge.pth", culprit="tensor 'fc1.bias' has an impossible shape")
    torch_save(path("complex.pth"), state_dict(**{"fc1.bias": Tensor("ComplexFloatStorage", [120], bytes(960))}))
    refused("complex.pth", culprit="elements of 'torch.ComplexFloatStorage'")
    torch_save(path("nothing.pth"), {"epoch": 3})
    refused("nothing.pth", culprit="holds no state_dict")
    nested = b"\x80\x02" + b"]" * 100000 + b"a" * 99999 + b"."
    torch_archive(path("nested.pth"), nested)
    refused("nested.pth", culprit="holds no state_dict")
    for code in (b"", b"\x80\x02", b"\x80\x02.", b"\x80\x02(", b"\x80\x02}u.", b"\x80\x02h\x05.", b"\x80\x02X\xff\xff\xff\xff",
                 b"\x80\x02cos\n", b"\x80\x09N.", b"\xff"):
        torch_archive(path("code.pth"), code)
        refused("code.pth", culprit="code.pth")
    torch_archive(path("model.pth"), b"\x80\x02ctorch.nn.modules.linear\nLinear\n)\x81.")
    refused("model.pth", culprit="needs 'torch.nn.modules.linear.Linear' to be called")
    with zipfile.ZipFile(torch_archive(path("script.pt"), b"\x80\x02}."), "a") as file:
        file.writestr("archive/constants.pkl", b"\x80\x02).")
    refused("script.pt", culprit="is TorchScript")
    for protocol in (0, 1):
        with open(path("early.pth"), "wb") as file:
            pickle.dump(collections.OrderedDict(bias=1.0), file, protocol)
        refused("early.pth", culprit="a Python pickle that torch.save() did not write")
    write_safetensors(path("unknown.safetensors"), {"features.%d.weight" % i: ("F32", [1], bytes(4)) for i in range(40)})
    bad(CHECKPOINT, "its 40 tensors, such as 'features.0.weight', are of another network",
        *train_words(path("never"), settings(), "--init", path("unknown.safetensors")))


main()
