#!/usr/bin/env python3
"""Measures the tutorial's network on a GPU, four images a step with Adam: images/s of a program and of PyTorch.

    torch_tutorial.py [--rounds 5] [--seconds 0.5] [--tf32 off] -- cifar-train bench step --json ...

The command prints JSON with samples_per_sec. Each round runs it, then times PyTorch's eager step, then PyTorch's whole
step in one CUDA graph with fused Adam; medians over rounds. PyTorch's batch is already on the device. --tf32 sets TF32
for PyTorch's f32 convolutions and products, which have different defaults; the command must set the same for the other
program (cuda.tf32). Prints one JSON line.
"""
import argparse
import json
import statistics
import subprocess
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 4


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(3, 6, 5), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2).flatten(1)
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))


def make_step(**options):
    """One step of training a network of its own."""
    torch.manual_seed(0)
    network = Network().cuda()
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3, betas=(0.8, 0.999), weight_decay=3e-7, **options)
    images = torch.randn(BATCH, 3, 32, 32, device="cuda")
    labels = torch.randint(0, 10, (BATCH,), device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(network(images), labels).backward()
        optimizer.step()

    return step


def captured(step):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(11):
            step()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def images_per_second(step, seconds):
    for _ in range(20):
        step()
    torch.cuda.synchronize()
    steps, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        for _ in range(100):
            step()
        steps += 100
        torch.cuda.synchronize()  # so that replays do not pile up beyond the window
    return BATCH * steps / (time.perf_counter() - begin)


def other_program(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit("error: %s ended with exit code %d" % (command[0], done.returncode))
    return json.loads(done.stdout)["samples_per_sec"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="of a window of PyTorch's")
    parser.add_argument("--tf32", choices=("off", "on"), default="off", help="PyTorch's")
    parser.add_argument("command", nargs="+", help="after --: the program to compare with")
    options = parser.parse_args()
    torch.backends.cudnn.benchmark = True  # its fastest engines
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = options.tf32 == "on"
    eager, graph = make_step(), captured(make_step(fused=True, capturable=True))
    ours, eager_rates, graph_rates = [], [], []
    for _ in range(options.rounds):
        ours.append(other_program(options.command))
        eager_rates.append(images_per_second(eager, options.seconds))
        graph_rates.append(images_per_second(graph, options.seconds))
    a, b, c = map(statistics.median, (ours, eager_rates, graph_rates))
    print(json.dumps({"torch": "torch " + torch.__version__, "rounds": options.rounds,
                      "tf32": [torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32],
                      "images_per_s": round(a), "eager_per_s": round(b), "graph_per_s": round(c),
                      "over_eager": round(a / b, 3), "over_graph": round(a / c, 3)}))


if __name__ == "__main__":
    main()
