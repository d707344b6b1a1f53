#!/usr/bin/env python3
"""PyTorch's AdamW(fused, capturable) in a CUDA graph, over ResNet-50's 161 tensors: microseconds a step.

Replays a graph of several steps and takes the median of windows timed with events, like kernel_benchmark. Prints one
JSON line.
"""
import json
import statistics

import torch

STEPS, WINDOWS = 10, 15


def shapes():
    """ResNet-50's parameters: each convolution, then its batch norm's two."""
    found = []

    def convolution(out, into, kernel):
        found.extend([(out, into, kernel, kernel), (out,), (out,)])

    convolution(64, 3, 7)
    into, planes = 64, 64
    for blocks in (3, 4, 6, 3):
        for block in range(blocks):
            convolution(planes, into, 1)
            convolution(planes, planes, 3)
            convolution(4 * planes, planes, 1)
            if block == 0:
                convolution(4 * planes, into, 1)
            into = 4 * planes
        planes *= 2
    return found + [(1000, 2048), (1000,)]


def main():
    parameters = [torch.randn(shape, device="cuda", requires_grad=True) for shape in shapes()]
    for p in parameters:
        p.grad = 1e-3 * torch.randn_like(p)
    optimizer = torch.optim.AdamW(parameters, lr=1e-6, weight_decay=0.01, fused=True, capturable=True)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            optimizer.step()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(STEPS):
            optimizer.step()
    times = []
    for _ in range(WINDOWS + 1):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(1e3 * begin.elapsed_time(end) / STEPS)
    us = statistics.median(times[1:])  # the first warms up
    elements = sum(p.numel() for p in parameters)
    print(json.dumps({"torch": "torch " + torch.__version__, "tensors": len(parameters), "parameters": elements,
                      "us": round(us, 2), "gb_per_s": round(28 * elements / us / 1e3, 1)}))


main()
