"""Classes with different numbers of images: weights in the loss (train.class_weights) and data.sampler: balanced."""
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import *

COUNTS = {"plane": 200, "car": 60, "bird": 20}


@functools.lru_cache(None)
def uneven():
    """A data.path whose three classes have COUNTS training images, as few() writes them."""
    folder = path("uneven", "cifar-10-batches-bin")
    os.makedirs(folder)
    numbers = random.Random(3)
    labels = [label for label, count in enumerate(COUNTS.values()) for _ in range(count)]
    numbers.shuffle(labels)
    blank = b"\xff" + bytes(RECORD - 1)

    def record(label):
        pixels = bytearray(numbers.randbytes(RECORD - 1))
        for row in range(3 * label, 3 * label + 3):
            pixels[32 * row:32 * row + 32] = b"\xf0" * 32
        return bytes([label]) + bytes(pixels)

    for name, of in [("data_batch_1.bin", labels), ("test_batch.bin", [0, 1, 2] * 40), *[("data_batch_%d.bin" % i, [])
                                                                                        for i in (2, 3, 4, 5)]]:
        with open(os.path.join(folder, name), "wb") as file:
            file.write(b"".join(map(record, of)) + blank * (10000 - len(of)))
    return os.path.dirname(folder)


def settings(**changed):
    return {**FEW, "data.path": uneven(), "train_batch_size": 16, "train.max_steps": 12, "train.epochs": 2,
            "train.save_interval": 3, **dotted(changed)}


BALANCED = {"train__class_weights": "{bird: 2.5}", "data__sampler": "balanced", "train__label_smoothing": 0.1,
            "data__augment": "[random_crop, flip, {mixup: {p: 0.5}}]"}


@check
def the_same_bits_on_any_ranks_and_stages():
    whole = path("whole")
    train(whole, settings(**BALANCED))
    for ranks, stage in [(2, 0), (2, 2), (4, 1), (4, 3)]:
        output = path("on-%d-%d" % (ranks, stage))
        train(output, settings(**BALANCED, zero_optimization__stage=stage), ranks=Ranks(ranks))
        expect_same_result(output, result(whole), "%d ranks, stage %d" % (ranks, stage))
    output = path("in parts")
    train(output, settings(**{**BALANCED, "train__max_steps": 7}))
    train(output, settings(**BALANCED, zero_optimization__stage=2), ranks=Ranks(2))
    expect_same_result(output, result(whole), "in two parts")
    for key in BALANCED:
        output = path("without " + key)
        train(output, settings(**{k: v for k, v in BALANCED.items() if k != key}))
        expect(result(output)[0] != result(whole)[0], key)


@check
def auto_weighs_by_the_counts():
    auto, named = path("auto"), path("named")
    train(auto, settings(train__class_weights="auto"))
    ratios = ", ".join("%s: %r" % (name, 1 / count) for name, count in COUNTS.items())
    others = ", ".join("%s: 0" % name for name in "cat deer dog frog horse ship truck".split())
    train(named, settings(train__class_weights="{%s, %s}" % (ratios, others)))
    expect_same_result(named, result(auto))


@check
def a_gpus_stand_in_computes_the_same_losses():
    need_on_host()
    losses = []
    for device in ("cpu", "cuda"):
        output = path("losses-" + device)
        words = train_words(output, settings(**BALANCED, train__max_steps=4), "--device", device)
        done = finish(start([ON_HOST, *words]))
        expect_equal(done.returncode, DONE, done.stderr)
        losses.append([record["loss"] for record in records(output, "step")])
    expect_equal(len(losses[0]), 4)
    for ours, theirs in zip(*losses):
        expect(abs(ours - theirs) < 1e-5 * ours, losses)


@check
def imbalance_and_mistakes_are_told():
    told = "classes have very different numbers of training images: plane 200, bird 20"
    expect_in(told, train(path("uneven run"), settings(train__max_steps=1)).stderr)
    expect_not_in(told, train(path("even run"), settings(train__max_steps=1, data__sampler="balanced")).stderr)
    for changed, culprit in [({"train__class_weights": "{brid: 2}"}, "no class is called 'brid'; did you mean bird?"),
                             ({"train__class_weights": "{plane: 0, car: 0, bird: 0}"}, "no image that counts"),
                             ({"train__class_weights": "{bird: -1}"}, "train.class_weights.bird must be at least 0"),
                             ({"train__class_weights": "even"}, "train.class_weights expects auto, or weights"),
                             ({"data__sampler": "balanced", "data__shuffle": "false"}, "remove data.shuffle false")]:
        refused = train(path("refused"), settings(**changed), expecting=USAGE)
        expect_in(culprit, refused.stderr)
        expect(not os.path.exists(path("refused")), changed)


main()
