#!/usr/bin/env python3
"""Trains vit_tiny with cifar-train and with PyTorch, in turn: test loss, accuracy and time of the same short recipe.

    torch_vit_tiny.py --data FOLDER [--images 20000] [--epochs 3] [--cycle 60] [--seeds 1,2,3] [--skip ours|torch]
                      -- cifar-train [options]

The recipe is that of configs/vit_tiny.yaml: batches of 512 images (eight micro-batches of 64), mirror and resized crop,
dropout, AdamW with one cycle of rate and momentum whose first half has --cycle steps, clipping at 5, bf16. FOLDER has
cifar-10-batches-bin/; the first --images training images are used, and the test images are evaluated once, at the end.
cifar-train's time is that of the whole process; PyTorch's starts after its modules are loaded. Prints a JSON line a
run, and then the means. Needs torch and torchvision.
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, MICRO = 512, 64


class Attention(nn.Module):
    """No token attends to itself; the logits' scale is learnt."""

    def __init__(self, dim, heads=6, width=64):
        super().__init__()
        self.heads = heads
        self.temperature = nn.Parameter(torch.tensor(math.log(width**-0.5)))
        self.to_qkv = nn.Linear(dim, 3 * heads * width, bias=False)
        self.to_out = nn.Linear(heads * width, dim)

    def forward(self, x):
        q, k, v = self.to_qkv(x).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        logits = (q * self.temperature.exp()) @ k.transpose(2, 3)
        itself = torch.eye(x.shape[1], dtype=torch.bool)
        weights = logits.masked_fill(itself, torch.finfo(logits.dtype).min).softmax(-1)
        return self.to_out((weights @ v).transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, dim, hidden, p):
        super().__init__()
        self.attend = nn.Sequential(nn.LayerNorm(dim), Attention(dim), nn.Dropout(p))
        self.feed = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, hidden), nn.GELU(), nn.Dropout(p),
                                  nn.Linear(hidden, dim), nn.Dropout(p))

    def forward(self, x):
        x = x + self.attend(x)
        return x + self.feed(x)


class VitTiny(nn.Module):
    """Tokens are patches of 4x4 pixels of the image and of its four neighbours one pixel away."""

    def __init__(self, dim=512, depth=4, hidden=256, p=0.1):
        super().__init__()
        self.embed = nn.Sequential(nn.LayerNorm(240), nn.Linear(240, dim))
        self.cls_token, self.position = nn.Parameter(torch.randn(1, 1, dim)), nn.Parameter(torch.randn(1, 65, dim))
        self.blocks = nn.Sequential(nn.Dropout(p), *[Block(dim, hidden, p) for _ in range(depth)])
        self.head = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 10))

    def forward(self, x):
        shifted = [F.pad(x, pad) for pad in [(1, -1, 0, 0), (-1, 1, 0, 0), (0, 0, 1, -1), (0, 0, -1, 1)]]
        patches = torch.cat([x, *shifted], 1).unfold(2, 4, 4).unfold(3, 4, 4)  # [n, 15, 8, 8, 4, 4]
        tokens = self.embed(patches.permute(0, 2, 3, 4, 5, 1).reshape(len(x), 64, 240))
        tokens = torch.cat([self.cls_token.expand(len(x), -1, -1), tokens], 1) + self.position
        return self.head(self.blocks(tokens)[:, 0])


def read(folder, names):
    rows = torch.cat([
        torch.frombuffer(bytearray(open(os.path.join(folder, "cifar-10-batches-bin", n + ".bin"), "rb").read()),
                         dtype=torch.uint8).view(-1, 3073) for n in names
    ])
    return rows[:, 1:].reshape(-1, 3, 32, 32), rows[:, 0].long()


def one_cycle(done, first):
    """Rate and momentum after `done` steps: up for `first` steps, down for as many."""
    up = done / first if done <= first else max(0.0, 2 - done / first)
    return 1e-4 + 3.9e-3 * up, 0.9 - 0.1 * up


def train_with_torch(a, seed):
    from torchvision.transforms import v2
    torch.manual_seed(seed)
    images, labels = read(a.data, ["data_batch_%d" % i for i in range(1, 6)])
    images, labels = images[:a.images], labels[:a.images]
    augment = v2.Compose([v2.RandomHorizontalFlip(0.3),
                          v2.RandomResizedCrop(32, scale=(0.25, 1), ratio=(0.9, 1.1), antialias=True)])
    begun = time.perf_counter()
    model = VitTiny()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, eps=1e-8, weight_decay=3e-7, fused=True)
    done = 0
    for _ in range(a.epochs):
        order = torch.randperm(len(images))
        for batch in order[:len(order) // BATCH * BATCH].split(BATCH):
            rate, momentum = one_cycle(done, a.cycle)
            optimizer.param_groups[0].update(lr=rate, betas=(momentum, 0.99))
            optimizer.zero_grad()
            for micro in batch.split(MICRO):
                x = torch.stack([augment(images[i]) for i in micro]).float() / 255
                with torch.autocast("cpu", dtype=torch.bfloat16, enabled=a.dtype == "bf16"):
                    loss = F.cross_entropy(model(x).float(), labels[micro])
                (loss * len(micro) / BATCH).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5)
            optimizer.step()
            done += 1
    model.eval()
    tests, answers = read(a.data, ["test_batch"])
    total = right = 0.0
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16, enabled=a.dtype == "bf16"):
        for x, y in zip(tests.split(250), answers.split(250)):
            logits = model(x.float() / 255).float()
            total += F.cross_entropy(logits, y, reduction="sum").item()
            right += (logits.argmax(1) == y).sum().item()
    return {"loss": total / len(answers), "accuracy": right / len(answers), "steps": done,
            "seconds": time.perf_counter() - begun}


def train_with_ours(a, seed):
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "run")
        sets = {"seed": seed, "data.path": a.data, "data.limit": a.images, "data.validation": 0, "train.epochs": a.epochs,
                "train.eval_interval": 1000000, "train.best.split": "last", "train.early_stopping.patience": 0,
                "scheduler.params.cycle_first_step_size": a.cycle, "bf16.enabled": str(a.dtype == "bf16").lower()}
        begun = time.perf_counter()
        subprocess.run([*a.command, "train", "--config", "vit_tiny.yaml", "--output", out, "-q",
                        *[word for key, value in sets.items() for word in ("--set", "%s=%s" % (key, value))]],
                       check=True, stdout=subprocess.DEVNULL)
        seconds = time.perf_counter() - begun
        records = [json.loads(line) for line in open(os.path.join(out, "metrics.jsonl"))]
        last = [r for r in records if r["event"] == "eval"][-1]
        return {"loss": last["loss"], "accuracy": last["accuracy"], "steps": last["step"], "seconds": seconds}


def main():
    words = sys.argv[1:]
    if "--" not in words:
        sys.exit(__doc__)
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--images", type=int, default=20000)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--cycle", type=int, default=60)
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--dtype", choices=["bf16", "f32"], default="bf16")
    parser.add_argument("--threads", type=int, default=0, help="of PyTorch; 0: its own choice")
    parser.add_argument("--skip", choices=["ours", "torch"])
    a = parser.parse_args(words[:words.index("--")])
    a.command = words[words.index("--") + 1:]
    if a.threads:
        torch.set_num_threads(a.threads)
    sides = {"ours": train_with_ours, "torch": train_with_torch}
    sides.pop(a.skip, None)
    runs = {side: [] for side in sides}
    for seed in map(int, a.seeds.split(",")):
        for side, train in sides.items():
            runs[side].append(train(a, seed))
            print(json.dumps({"side": side, "seed": seed, **runs[side][-1]}), flush=True)
    for side, results in runs.items():
        print(json.dumps({"side": side, **{key: statistics.mean(r[key] for r in results) for key in results[0]}}))


if __name__ == "__main__":
    main()
