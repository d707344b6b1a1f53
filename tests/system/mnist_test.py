"""MNIST's idx files through the program: training, resuming and evaluating; faults are one line of error."""
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import *
from png import png

LINEAR = os.path.join(CONFIGS, "linear.yaml")
TRAIN_IMAGES, TRAIN_LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"
TEST_IMAGES, TEST_LABELS = "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"
HEADER = 16  # bytes of a file of images; one of labels has 8


def digits(name, train=320, test=100):
    """A data.path whose mnist/ has noise, brighter in the class's stripe."""
    folder = path(name, "mnist")
    os.makedirs(folder)
    numbers = random.Random(3)
    for images, labels, count in [(TRAIN_IMAGES, TRAIN_LABELS, train), (TEST_IMAGES, TEST_LABELS, test)]:
        classes = bytes(numbers.randrange(10) for _ in range(count))
        pixels = bytearray(b & 0x3f for b in numbers.randbytes(784 * count))
        for i, c in enumerate(classes):
            pixels[784 * i + 56 * c:784 * i + 56 * c + 56] = b"\xf0" * 56
        for file, header, content in [(images, (0x803, count, 28, 28), pixels), (labels, (0x801, count), classes)]:
            with open(os.path.join(folder, file), "wb") as out:
                out.write(struct.pack(">%dI" % len(header), *header) + content)
    return path(name)


def settings(data, **changed):
    return {"data.dataset": "mnist", "data.path": data, "train_batch_size": 16, "train.epochs": 3, "train.save_interval": 10,
            "train.best.split": "test", "steps_per_print": 1, **dotted(changed)}


@functools.lru_cache(None)
def trained():
    """(data.path, folder of the run, what it printed)"""
    data = digits("whole")
    return data, path("run"), train(path("run"), settings(data), config=LINEAR)


@check
def it_is_found_learnt_and_evaluated():
    data, output, done = trained()
    expect("data: MNIST in %s/mnist" % data in done.stderr, done.stderr)
    last = records(output, "eval")[-1]
    expect("MNIST in " + data in run("doctor", "--data", data).stdout)
    expect_equal(last["images"], 100)
    expect(last["accuracy"] > 0.9, last)
    tensors, metadata = safetensors(os.path.join(output, "best.bin"))
    expect_equal({name: shape for name, (_, shape, _) in tensors.items()},
                 {"linear.weight": [10, 784], "linear.bias": [10]})
    expect_equal(metadata["cifar_train.dataset"], "MNIST")
    evaluated = json.loads(run("eval", "--ckpt", os.path.join(output, "last.bin"), "--json").stdout)
    expect_equal((evaluated["accuracy"], evaluated["loss"]), (last["accuracy"], last["loss"]))
    expect_equal(len(evaluated["per_class"]), 10)
    expect_equal(json.loads(metadata["cifar_train.class_names"]), list("0123456789"))


@check
def resumed_on_other_ranks_it_has_the_same_bits():
    data, whole, _ = trained()
    parts = path("parts")
    train(parts, settings(data, train__max_steps=23), config=LINEAR, ranks=Ranks(2))
    train(parts, settings(data), config=LINEAR)
    expect_equal(result(parts)[0], result(whole)[0])


@check
def data_info_takes_the_set_that_a_run_takes():
    data = digits("beside-pictures", train=10, test=10)
    for number, (split, label) in enumerate((s, c) for s in ("train", "val") for c in ("cat", "dog")):
        os.makedirs(os.path.join(data, split, label))
        with open(os.path.join(data, split, label, "a.png"), "wb") as file:
            file.write(png(12, 12, bytes([50 * number]) * 3 * 144))
    sizes = [w for key in ("data.size=8", "data.resize=8", "train_batch_size=2", "train_micro_batch_size_per_gpu=1") for w in ("--set", key)]
    expect_in("image_folder", run("--config", LINEAR, "--data", data, "--output", path("out"), "--dry-run", *sizes).stdout)
    expect_in("cat", run("data", "info", data).stdout)
    expect_in("every picture is decoded", run("data", "verify", "--data", data).stdout)
    expect_in("MNIST", run("data", "info", data, "--dataset", "mnist").stdout)


@check
def it_is_described_and_verified():
    data, _, _ = trained()
    info = run("data", "info", "--data", data).stdout
    expect("MNIST in %s/mnist\n320 images to train on, 100 to test on, 28x28, 1 channel, 10 classes" % data in info, info)
    verified = run("data", "verify", "--data", os.path.join(data, "mnist"))
    expect_equal((verified.returncode, verified.stdout.count("  ok\n")), (DONE, 4), verified.stdout, verified.stderr)
    estimate = run("estimate", "--config", LINEAR, "--set", "data.path=" + data, "--set", "data.dataset=mnist")
    expect("data set: MNIST, 0.3 MB" in estimate.stdout, estimate.stdout, estimate.stderr)


@check
def damaged_files_are_refused_by_name():
    """By every verb that reads them; mnist_set_test.cpp tests every kind of damage."""
    def bad_label(file):
        with open(file, "r+b") as out:
            out.seek(8 + 7)
            out.write(b"\x0a")

    def replace(content):
        def damage(file):
            with open(file, "wb") as out:
                out.write(content)
        return damage

    for name, file, damage, problem in [
            ("pointer", TRAIN_IMAGES, replace(b"version https://git-lfs.github.com/spec/v1\n"), "Git LFS, not the file itself"),
            ("page", TEST_LABELS, replace(b"<!DOCTYPE html><html>"), "a web page"),
            ("truncated", TRAIN_IMAGES, lambda file: os.truncate(file, HEADER + 784 * 319), "truncated"),
            ("label", TEST_LABELS, bad_label, "label 7 is 10")]:
        data, output = digits("data-" + name), path("out-" + name)
        damage(os.path.join(data, "mnist", file))
        for words in [("train", *train_words(output, settings(data), config=LINEAR)),
                      ("data", "info", "--data", data), ("data", "verify", "--data", data)]:
            line = fails(DATA, run(*words), file, problem)
            if name in ("pointer", "page"):
                expect("gunzip" not in line, line)  # one remedy is enough
            else:
                expect("gunzip" in line or "data.on_corrupt" in line, line)
        expect(not os.path.exists(output), "a refused run left a folder")
    fails(DATA, run("eval", "--ckpt", os.path.join(trained()[1], "best.bin"), "--data", data), TEST_LABELS, "label 7 is 10")


@check
def a_bad_label_may_be_skipped():
    data = digits("skipped")
    with open(os.path.join(data, "mnist", TRAIN_LABELS), "r+b") as file:
        file.seek(8)
        file.write(b"\xff")
    done = train(path("out-skipped"), settings(data, data__on_corrupt="skip"), config=LINEAR)
    expect("1 damaged record is left out" in done.stderr, done.stderr)


@check
def other_data_does_not_continue_its_run():
    data = digits("other", test=90)
    with open(os.path.join(data, "mnist", TRAIN_IMAGES), "r+b") as file:
        file.seek(HEADER + 5)
        file.write(b"\x77")
    shutil.copytree(trained()[1], path("continued"))
    words = train_words(path("continued"), settings(data, train__epochs=4), config=LINEAR)
    fails(CHECKPOINT, run("train", *words), "different images (MNIST)", "data.path")


@check
def a_model_of_another_shape_is_refused():
    data, _, _ = trained()
    fails(USAGE, run("train", *train_words(path("out-cnn"), {"data.dataset": "mnist", "data.path": data})), "1x28x28",
          "3x32x32")
    os.makedirs(path("none"))
    fails(DATA, run("train", *train_words(path("out-none"), {"data.dataset": "mnist", "data.path": path("none")})),
          "no mnist", "gunzip")
    nowhere = path("nowhere")
    fails(DATA, run("train", *train_words(path("out-none"), {"data.dataset": "mnist", "data.path": nowhere})), nowhere,
          "give the one that contains mnist/")


@check
def auto_never_selects_it():
    data = digits("unasked")
    before = sorted(os.listdir(data))
    for compressed in (False, True):
        if compressed:
            subprocess.run(["gzip", *(os.path.join(data, "mnist", name) for name in os.listdir(os.path.join(data, "mnist")))],
                           check=True)
        fails(DATA, train(path("out-unasked"), {"data.path": data, "train.max_steps": 4}, expecting=DATA),
              os.path.join(data, "mnist"), "set data.dataset: mnist", "data.dataset: synthetic")
        expect_equal(sorted(os.listdir(data)), before)


main()
