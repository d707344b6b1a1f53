#!/usr/bin/env python3
"""Trains the tutorial's two epochs with DeepSpeed and with cifar-train, from the same ds_config.json, in turn.

    deepspeed_tutorial.py --data FOLDER [--config FOLDER] [--seeds 1,2,3,4,5] -- cifar-train [options]

FOLDER has cifar-10-batches-bin/; --config is the folder of cifar_deepspeed.yaml and cifar_ds_config.json (default:
configs/seeds). Both are whole processes on one core of the CPU, which read the data and evaluate all test images at the
end. Prints a JSON line a run, then the means and the two targets: a mean accuracy at most 1.5 points lower, in a
twentieth of the time. Exit code 1: a target is missed. Needs torch and deepspeed.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
BATCH, EPOCHS = 4, 2


def train_with_deepspeed(data, config, seed):
    """Runs in a process of its own; prints the accuracy."""
    os.environ.update(DS_ACCELERATOR="cpu", RANK="0", WORLD_SIZE="1", LOCAL_RANK="0", MASTER_ADDR="127.0.0.1",
                      MASTER_PORT=str(29700 + seed))
    import deepspeed
    import torch
    import torch.nn as nn
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    deepspeed.init_distributed(dist_backend="gloo")

    def read(*names):
        raw = b"".join(open(os.path.join(data, "cifar-10-batches-bin", n + ".bin"), "rb").read() for n in names)
        rows = torch.frombuffer(bytearray(raw), dtype=torch.uint8).view(-1, 3073)
        return rows[:, 1:].reshape(-1, 3, 32, 32).float() / 127.5 - 1, rows[:, 0].long()

    network = nn.Sequential(
        nn.Conv2d(3, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))
    with open(config) as file:
        settings = json.load(file)
    settings["optimizer"]["params"]["torch_adam"] = True  # DeepSpeed's own Adam wants to be compiled first
    engine, *_ = deepspeed.initialize(model=network, model_parameters=network.parameters(), config=settings)
    images, labels = read(*["data_batch_%d" % i for i in range(1, 6)])
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(images)).split(BATCH):
            loss = nn.functional.cross_entropy(engine(images[batch]), labels[batch])
            engine.backward(loss)
            engine.step()
    tests, answers = read("test_batch")
    with torch.no_grad():
        print("accuracy", (engine.module(tests).argmax(1) == answers).double().mean().item())


def of_deepspeed(a, seed):
    said = subprocess.run([sys.executable, os.path.abspath(__file__), "--one", str(seed), "--data", a.data,
                           "--config", a.config, "--"], check=True, capture_output=True, text=True).stdout
    return float(re.search(r"accuracy ([\d.]+)", said).group(1))


def of_ours(a, seed):
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "run")
        subprocess.run([*a.command, "train", "--config", os.path.join(a.config, "cifar_deepspeed.yaml"),
                        "--deepspeed_config", os.path.join(a.config, "cifar_ds_config.json"),
                        "--output", out, "--ranks", "1", "--set", "data.path=" + a.data, "--set", "seed=%d" % seed,
                        "--set", "train.epochs=%d" % EPOCHS], check=True, stdout=subprocess.DEVNULL)
        with open(os.path.join(out, "metrics.jsonl")) as file:
            return [r for r in map(json.loads, file) if r["event"] == "eval"][-1]["accuracy"]


def main():
    words = sys.argv[1:]
    if "--" not in words:
        sys.exit(__doc__)
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--config", default=os.path.join(HERE, "..", "..", "configs", "seeds"))
    parser.add_argument("--seeds", default="1,2,3,4,5")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    a = parser.parse_args(words[:words.index("--")])
    a.command = words[words.index("--") + 1:]
    if a.one is not None:
        return train_with_deepspeed(a.data, os.path.join(a.config, "cifar_ds_config.json"), a.one)
    runs = {"deepspeed": [], "ours": []}
    for seed in map(int, a.seeds.split(",")):
        for side, accuracy_of in (("deepspeed", of_deepspeed), ("ours", of_ours)):
            begun = time.perf_counter()
            accuracy = accuracy_of(a, seed)
            runs[side].append((accuracy, time.perf_counter() - begun))
            print(json.dumps({"side": side, "seed": seed, "accuracy": accuracy, "seconds": runs[side][-1][1]}),
                  flush=True)
    mean = {side: [statistics.mean(column) for column in zip(*results)] for side, results in runs.items()}
    lower = 100 * (mean["deepspeed"][0] - mean["ours"][0])
    part = mean["ours"][1] / mean["deepspeed"][1]
    print(json.dumps({"accuracy": {side: m[0] for side, m in mean.items()}, "points_lower": lower,
                      "seconds": {side: m[1] for side, m in mean.items()}, "part_of_the_time": part}))
    return int(lower > 1.5 or part > 1 / 20)


if __name__ == "__main__":
    sys.exit(main())
