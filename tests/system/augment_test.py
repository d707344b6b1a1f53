"""data.augment: every step through the program, the same bits on any number of ranks, at any stage, after a resume, and
on a GPU's stand-in; settings that do not fit are refused."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import *
from png import png

STEPS = ["flip", "random_crop", "alternating_flip", "{random_resized_crop: {scale: [0.25, 1], ratio: [0.9, 1.1]}}",
         "cutout", "{color_jitter: {hue: 0.1}}", "rand_augment", "mixup", "cutmix"]
ALL = ("[alternating_flip, random_resized_crop, {color_jitter: {hue: 0.1}}, random_crop, rand_augment, cutout, "
       "{mixup: {alpha: 0.8, p: 0.5}}, cutmix, flip]")


def settings(steps, **changed):
    return {**FEW, "data.path": few(), "data.augment": steps, "train_batch_size": 16, "train.label_smoothing": 0.1,
            "train.max_steps": 30, "train.eval_interval": 30, **dotted(changed)}


@functools.lru_cache(None)
def whole():
    train(path("whole"), settings(ALL))  # an epoch and a bit
    return result(path("whole"))


@check
def any_ranks_and_stages_give_the_same():
    for ranks, stage in [(2, 1), (4, 2), (4, 3), (2, 0)]:
        output = path("ranks-%d-%d" % (ranks, stage))
        train(output, settings(ALL, zero_optimization__stage=stage), ranks=Ranks(ranks))
        expect_same_result(output, whole(), "%d ranks, stage %d" % (ranks, stage))


@check
def a_resumed_run_gives_the_same():
    train(path("parts"), settings(ALL, train__max_steps=13))
    train(path("parts"), settings(ALL), ranks=Ranks(2))
    expect_same_result(path("parts"), whole(), "resumed at step 13")


@check
def every_step_counts():
    hashes = {}
    for steps in ["[]", *("[%s]" % step for step in STEPS), "[cutout, flip]", "[flip, cutout]"]:
        output = path("steps-%d" % len(hashes))
        train(output, settings(steps, train__max_steps=4, train__eval_interval=4))  # the first two have a rate of 0
        sha, found = result(output)
        expect(sha not in hashes, steps, "gives the weights of", hashes.get(sha))
        hashes[sha] = steps
        expect(all(r["skipped"] == 0 for r in found if r["event"] == "step"), found)
    # Evaluation sees images as they are: before training all runs find the same.
    found = set()
    for steps in ["[]", ALL]:
        output = path("before-%d" % len(found))
        train(output, settings(steps, train__max_steps=0))
        found.add(tuple(r["loss"] for r in records(output, "eval")))
    expect_equal(len(found), 1)


@check
def pictures_by_any_workers_and_ranks_give_the_same():
    """Workers crop pictures after decoding, and may flip them first; the device does the other steps."""
    numbers = random.Random(3)
    for split, label in ((s, c) for s in ("train", "val") for c in ("ant", "bee")):
        os.makedirs(path("pictures", split, label))
        for i in range(12):
            with open(path("pictures", split, label, "p%02d.png" % i), "wb") as file:
                file.write(png(16 + i, 20, bytearray(numbers.randbytes(3 * (16 + i) * 20))))
    sets = settings("[flip, random_resized_crop, color_jitter, mixup]", data__path=path("pictures"), data__size=12,
                    data__resize=16, model__name="linear", train__max_steps=8, train__eval_interval=8,
                    train_batch_size=8, train_micro_batch_size_per_gpu=2)
    train(path("worker-1"), {**sets, "data.workers": 1})
    for workers, ranks in [(3, 1), (2, 4)]:
        output = path("workers-%d-%d" % (workers, ranks))
        train(output, {**sets, "data.workers": workers}, ranks=Ranks(ranks))
        expect_same_result(output, result(path("worker-1")), "%d workers, %d ranks" % (workers, ranks))


@check
def a_gpus_stand_in_gives_the_losses_of_the_cpu():
    """Edited images are the same bytes; later arithmetic is rounded differently."""
    need_on_host()
    losses = []
    for device in ("cpu", "cuda"):
        words = train_words(path(device), settings(ALL, model__name="linear", train__max_steps=4, train__eval_interval=4,
                                                   train__eval_batch_size=4, data__path=few(320, 4)), "--device", device)
        done = finish(start([ON_HOST, *words]))
        expect_equal(done.returncode, DONE, done.stderr)
        losses.append([r["loss"] for r in records(path(device), "step")])
    for cpu, cuda in zip(*losses):
        expect(abs(cpu - cuda) <= 1e-5 * cpu, losses)


@check
def unsuitable_settings_are_refused():
    one = {"train_batch_size": 4, "train_micro_batch_size_per_gpu": 1}
    for steps, changed, words in [("[mixup]", one, ["mixup", "train_micro_batch_size_per_gpu is 1"]),
                                  ("[flip, cutmix]", one, ["cutmix", "2 or more"]),
                                  ("[{cutout: {length: 65}}]", {}, ["cutout.length", "at least 1 and at most 64", "65"]),
                                  ("[{mixup: {alpha: -1}}]", {}, ["mixup.alpha", "at least 0.001 and at most 100", "-1"]),
                                  ("[{rand_augment: {magnitude: 10, num_magnitude_bins: 5}}]", {},
                                   ["rand_augment.magnitude", "at most 4", "10"])]:
        fails(USAGE, train(path("refused"), {**settings(steps), **changed}, expecting=USAGE), *words)
        expect(not os.path.exists(path("refused", "ckpt")), "a refused run has saved")


main()
