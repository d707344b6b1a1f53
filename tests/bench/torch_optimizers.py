#!/usr/bin/env python3
"""Distances of optimizers from float64 after 1,000 recorded steps: this program's, and PyTorch's in float32.

The gradients are those of the tutorial's network, trained by PyTorch on synthetic images; all sides use the same ones.
The distance is the norm of the difference from PyTorch's float64 over the norm of the movement, the median of five seeds.
PyTorch has no Lion, LAMB and LARS: tests/engine/optimizer_distance_test.cpp compares them.

Usage: torch_optimizers.py build/release/optimizer_steps [seeds]. Exit code 77: PyTorch is missing; 1: a distance is
more than 1.5 times PyTorch's.
"""
import ctypes
import os
import statistics
import subprocess
import sys
import tempfile

try:
    import torch
except ImportError:
    print("PyTorch is not installed: pip install torch, in a virtual environment")
    sys.exit(77)

from torch_tutorial import Network

STEPS = 1000

# What PyTorch is given, and the same in this program's words.
CASES = [
    ("SGD", dict(lr=0.01, momentum=0.9, weight_decay=1e-3), "type: SGD, params: {lr: 0.01, momentum: 0.9, weight_decay: 1e-3}"),
    ("SGD", dict(lr=0.01, momentum=0.9, nesterov=True), "type: SGD, params: {lr: 0.01, momentum: 0.9, nesterov: true}"),
    ("Adam", dict(lr=1e-3, weight_decay=1e-2), "type: Adam, params: {lr: 1e-3, weight_decay: 1e-2, adam_w_mode: false}"),
    ("AdamW", dict(lr=1e-3, weight_decay=1e-2), "type: AdamW, params: {lr: 1e-3, weight_decay: 1e-2}"),
    ("RMSprop", dict(lr=1e-3, momentum=0.5, centered=True),
     "type: RMSprop, params: {lr: 1e-3, momentum: 0.5, centered: true}"),
    ("Adagrad", dict(lr=1e-2, lr_decay=1e-3), "type: Adagrad, params: {lr: 1e-2, lr_decay: 1e-3}"),
    ("Muon", dict(lr=1e-2, weight_decay=0.1), "type: Muon, params: {lr: 1e-2, adamw_lr: 1e-2, weight_decay: 0.1}"),
]


def record(seed):
    """The first weights, and the gradients of STEPS steps of training."""
    torch.manual_seed(seed)
    net, gradients = Network(), []
    start = [p.detach().clone() for p in net.parameters()]
    means = torch.randn(10, 3, 32, 32)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    for _ in range(STEPS):
        labels = torch.randint(10, (4,))
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(means[labels] + 2 * torch.randn(4, 3, 32, 32)), labels)
        loss.backward()
        gradients.append([p.grad.clone() for p in net.parameters()])
        optimizer.step()
    return start, gradients


def orthogonalised(u, a, b, c, steps, eps):
    """torch.optim.Muon's iteration, which there is in bf16 whatever the weights are, in u's own type."""
    x = u.T if u.size(0) > u.size(1) else u
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if u.size(0) > u.size(1) else x


class Muon:
    """torch.optim.Muon's formula for matrices and convolutions, AdamW for vectors, in any type."""

    def __init__(self, parameters, lr, weight_decay, momentum=0.95):
        self.matrices = [p for p in parameters if p.dim() > 1]
        self.rest = torch.optim.AdamW([p for p in parameters if p.dim() < 2], lr=lr, weight_decay=weight_decay)
        self.buffers = [torch.zeros_like(p) for p in self.matrices]
        self.lr, self.weight_decay, self.momentum = lr, weight_decay, momentum

    @torch.no_grad()
    def step(self):
        for p, buffer in zip(self.matrices, self.buffers):
            buffer.lerp_(p.grad, 1 - self.momentum)
            o = orthogonalised(p.grad.lerp(buffer, self.momentum).flatten(1), 3.4445, -4.7750, 2.0315, 5, 1e-7)
            p.mul_(1 - self.lr * self.weight_decay)
            p.sub_(o.view_as(p), alpha=self.lr * max(1, o.size(0) / o.size(1)) ** 0.5)
        self.rest.step()


def by_torch(name, options, start, gradients, dtype):
    parameters = [torch.nn.Parameter(p.to(dtype)) for p in start]
    optimizer = Muon(parameters, **options) if name == "Muon" else getattr(torch.optim, name)(parameters, **options)
    for step in gradients:
        for p, gradient in zip(parameters, step):
            p.grad = gradient.to(dtype)
        optimizer.step()
    return flat(parameters).double()


def flat(tensors):
    return torch.cat([t.detach().reshape(-1) for t in tensors])


def write(path, tensors):
    numbers = flat(tensors).float().contiguous()
    with open(path, "wb") as file:
        file.write(ctypes.string_at(numbers.data_ptr(), 4 * numbers.numel()))


def by_program(program, folder, options):
    subprocess.run([program, os.path.join(folder, "weights"), os.path.join(folder, "gradients"),
                    os.path.join(folder, "result"), "optimizer: {%s}" % options], check=True)
    with open(os.path.join(folder, "result"), "rb") as file:
        return torch.frombuffer(bytearray(file.read()), dtype=torch.float32).double()


def main():
    program, seeds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 5
    torch.set_num_threads(1)
    found = {case[2]: ([], []) for case in CASES}
    for seed in range(seeds):
        start, gradients = record(seed)
        with tempfile.TemporaryDirectory() as folder:
            write(os.path.join(folder, "weights"), start)
            write(os.path.join(folder, "gradients"), [g for step in gradients for g in step])
            for name, options, ours in CASES:
                exact = by_torch(name, options, start, gradients, torch.float64)
                moved = (exact - flat(start).double()).norm()
                found[ours][0].append(float((by_program(program, folder, ours) - exact).norm() / moved))
                found[ours][1].append(
                    float((by_torch(name, options, start, gradients, torch.float32) - exact).norm() / moved))
    far = False
    for ours, (program_distances, torch_distances) in found.items():
        a, b = statistics.median(program_distances), statistics.median(torch_distances)
        far = far or a > 1.5 * b
        print("%-84s %.2e, PyTorch's float32 %.2e, ratio %.2f" % (ours, a, b, a / b))
    sys.exit(1 if far else 0)


main()
