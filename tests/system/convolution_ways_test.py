"""Timed convolution algorithms: all ranks agree on them, the checkpoint records them, and a resumed run uses them."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import *
from png import png


def settings(steps, **changed):
    return {**FEW, "data.path": few(), "model.name": "cnn_plain", "train.epochs": 10, "train.max_steps": steps,
            "train.save_interval": 2, **dotted(changed)}


def plans(output):
    newest = sorted(os.listdir(os.path.join(output, "ckpt")))[-1]
    with open(os.path.join(output, "ckpt", newest, "state.json")) as file:
        return json.load(file)["plans"]


@check
def timed_ways_are_kept():
    whole, parts = path("whole"), path("parts")
    train(whole, settings(2, cpu__autotune=True), ranks=Ranks(2))
    timed = plans(whole)
    expect(": convolution forward f32" in timed and "(direct " in timed, timed)
    shutil.copytree(whole, parts)
    train(whole, settings(4, cpu__autotune=True), ranks=Ranks(1))
    train(parts, settings(3), ranks=Ranks(2))  # it need not be asked for again
    train(parts, settings(4), ranks=Ranks(1))
    expect_equal(plans(whole), timed)
    expect_equal(plans(parts), timed)
    expect_same_result(parts, result(whole))


@check
def narrow_strided_convolutions_are_timed_within_their_memory():
    """oneDNN's kernels of their weight gradients write past the result, so that they are not candidates."""
    for split in ("train", "val"):
        for label, shade in (("dark", 40), ("light", 200)):
            os.makedirs(path("pictures", split, label))
            for i in range(4):
                with open(path("pictures", split, label, "%d.png" % i), "wb") as file:
                    file.write(png(48, 48, bytes([shade + i]) * (3 * 48 * 48)))
    train(path("narrow"), {"data.path": path("pictures"), "data.dataset": "image_folder", "data.size": 48,
                           "data.resize": 48, "model.name": "resnet18", "model.width": 8, "cpu.autotune": True,
                           "train_batch_size": 4, "train_micro_batch_size_per_gpu": 4, "train.max_steps": 2})
    strided = [line for line in plans(path("narrow")).splitlines() if "grad" in line and "product" in line]
    expect(strided, plans(path("narrow")))


@check
def the_table_is_not_stored():
    train(path("table"), settings(2))
    expect_equal(plans(path("table")), "")


@check
def winograd_is_part_of_the_result():
    output = path("winograd")
    train(output, settings(1))
    done = train(output, settings(2, cpu__winograd=False), expecting=CHECKPOINT)
    fails(CHECKPOINT, done, "cpu.winograd")


main()
