#!/usr/bin/env python3
"""Class weights and balanced draws against PyTorch in float64: a linear network on uneven classes, trained by both.

The draws of data.sampler: balanced are made here again, from Philox4x32-10 alone. Printed is the largest difference of a
weight after the last step, divided by the largest weight.

Usage: torch_balance.py build/release/cifar-train [steps]. Exit code 77: PyTorch is missing; 1: a difference is above 1e-6.
"""
import os
import random
import subprocess
import sys
import tempfile

try:
    import torch
except ImportError:
    print("PyTorch is not installed: pip install torch, in a virtual environment")
    sys.exit(77)

from torch_weights import tensors

SEED, BATCH, PURPOSE_BALANCE = 42, 16, 8
COUNTS = [200, 60, 20]


def philox(counter, key):
    c, (k0, k1) = list(counter), (key & 0xffffffff, key >> 32)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k0, b & 0xffffffff, (a >> 32) ^ c[3] ^ k1, a & 0xffffffff]
        k0, k1 = (k0 + 0x9E3779B9) & 0xffffffff, (k1 + 0xBB67AE85) & 0xffffffff
    return c


def balanced(labels, epoch):
    """An epoch's images: a class, then one of its images, each by a 64-bit number."""
    by_class = [[i for i, label in enumerate(labels) if label == c] for c in sorted(set(labels))]
    words = (word for block in range(1 << 32)
             for word in philox([block, epoch & 0xffffffff, epoch >> 32, PURPOSE_BALANCE], SEED))

    def any_of(items):
        low = next(words)
        return items[((next(words) << 32 | low) * len(items)) >> 64]
    return [any_of(any_of(by_class)) for _ in labels]


def write_data(folder):
    numbers = random.Random(3)
    labels = [label for label, count in enumerate(COUNTS) for _ in range(count)]
    numbers.shuffle(labels)
    records = [bytes([label]) + numbers.randbytes(3072) for label in labels]
    blank = b"\xff" + bytes(3072)
    os.makedirs(os.path.join(folder, "cifar-10-batches-bin"))
    for name, of in [("test_batch", records[:50]), ("data_batch_1", records)] + [("data_batch_%d" % i, []) for i in range(2, 6)]:
        with open(os.path.join(folder, "cifar-10-batches-bin", name + ".bin"), "wb") as file:
            file.write(b"".join(of) + blank * (10000 - len(of)))
    pixels = torch.tensor([list(record[1:]) for record in records], dtype=torch.float64)
    return labels, (pixels / 255 - 0.5) / 0.5


def ours(program, folder, name, steps, settings):
    output = os.path.join(folder, name)
    words = [program, "--config", "linear.yaml", "--output", output, "--quiet"]
    for key, value in {"data.path": folder, "data.on_corrupt": "skip", "train_batch_size": BATCH, "seed": SEED,
                       "train_micro_batch_size_per_gpu": 4, "train.max_steps": steps, "train.epochs": 1000,
                       "checkpoint.keep_last": 1000, "optimizer.type": "SGD", "optimizer.params.lr": 0.01, "scheduler": "{}", **settings}.items():
        words += ["--set", "%s=%s" % (key, value)]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    start, end = (os.path.join(folder, "%s-%s.safetensors" % (name, of)) for of in ("start", "end"))
    subprocess.run([program, "export", "--ckpt", os.path.join(output, "ckpt", "step-%08d" % 0), "--out", start],
                   check=True, stdout=subprocess.DEVNULL)
    subprocess.run([program, "export", "--ckpt", os.path.join(output, "best.bin"), "--out", end], check=True,
                   stdout=subprocess.DEVNULL)
    return tuple({name: value.double() for name, value in tensors(path).items()} for path in (start, end))


def theirs(start, images, orders, weight, smoothing, steps):
    """SGD by the mean over images of the weighted losses, of which PyTorch's own mean divides by the weights' sum."""
    layer = torch.nn.Linear(3072, 10).double()
    names = sorted(start, key=lambda name: "bias" in name)
    with torch.no_grad():
        layer.weight.copy_(start[names[0]]), layer.bias.copy_(start[names[1]])
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.01)
    pixels, labels = images
    of_epoch = len(labels) // BATCH
    loss_of = torch.nn.CrossEntropyLoss(weight=weight, label_smoothing=smoothing, reduction="sum")
    for step in range(steps):
        batch = orders(step // of_epoch)[step % of_epoch * BATCH:][:BATCH]
        loss = loss_of(layer(pixels[batch]), torch.tensor([labels[i] for i in batch])) / BATCH
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return {names[0]: layer.weight.detach(), names[1]: layer.bias.detach()}


def main():
    program, steps = os.path.abspath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 60
    worst = 0
    with tempfile.TemporaryDirectory() as folder:
        labels, pixels = write_data(folder)
        n = torch.tensor(COUNTS + [0] * 7, dtype=torch.float64)
        auto = torch.where(n > 0, len(labels) / (3 * n), torch.zeros(10, dtype=torch.float64))
        ratio = torch.ones(10, dtype=torch.float64)
        ratio[2] = 4
        named = ratio * len(labels) / (n * ratio).sum()
        in_order, drawn = lambda epoch: list(range(len(labels))), lambda epoch: balanced(labels, epoch)
        for name, settings, orders, weight, smoothing in [
                ("auto", {"train.class_weights": "auto", "data.shuffle": "false"}, in_order, auto, 0),
                ("named, smoothed", {"train.class_weights": "{bird: 4}", "data.shuffle": "false", "train.label_smoothing": 0.1},
                 in_order, named, 0.1),
                ("balanced", {"data.sampler": "balanced"}, drawn, None, 0),
                ("balanced and weighted", {"data.sampler": "balanced", "train.class_weights": "{bird: 4}"}, drawn, named, 0)]:
            start, end = ours(program, folder, name, steps, settings)
            reference = theirs(start, (pixels, labels), orders, weight, smoothing, steps)
            difference = max(float((end[key] - reference[key]).abs().max() / reference[key].abs().max()) for key in reference)
            moved = max(float((end[key] - start[key]).abs().max()) for key in reference)
            print("%-22s %d steps: largest difference %.1e of the largest weight (moved by up to %.2g)" % (name, steps, difference, moved))
            worst = max(worst, difference)
    return 1 if worst > 1e-6 else 0


sys.exit(main())
