#!/usr/bin/env python3
"""Measures training steps of large networks by PyTorch on a GPU: images/s in bf16, the batch already on the device.

    torch_networks.py [--compile MODE] [--seconds 0.5] NETWORK:BATCH...

NETWORK is resnet18 (CIFAR's stem), resnet50 (224 x 224 pixels) or vit_tiny. Weights are f32 under autocast, convolutions
are channels_last, attention is F.scaled_dot_product_attention, the optimizer (SGD with momentum; vit_tiny: AdamW) is
fused. A step is captured in a CUDA graph; with --compile the network is compiled first (default, or
max-autotune-no-cudagraphs, which searches for minutes). Prints a JSON line a network.
Needs torch, and torchvision for the ResNets.
"""
import argparse
import json
import statistics
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

from torch_tutorial import captured
from torch_vit_tiny import Attention, VitTiny


class SdpaAttention(Attention):
    def forward(self, x):
        q, k, v = self.to_qkv(x).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        others = ~torch.eye(x.shape[1], dtype=torch.bool, device=x.device)
        y = F.scaled_dot_product_attention(q * self.temperature.exp().to(q.dtype), k, v, attn_mask=others, scale=1.0)
        return self.to_out(y.transpose(1, 2).flatten(2))


def network_of(name):
    if name == "vit_tiny":
        model = VitTiny()
        for block in model.blocks:
            if hasattr(block, "attend"):
                block.attend[1].__class__ = SdpaAttention
        return model, 32, 10
    import torchvision
    if name == "resnet50":
        return torchvision.models.resnet50(), 224, 1000
    model = torchvision.models.resnet18(num_classes=10)
    model.conv1, model.maxpool = nn.Conv2d(3, 64, 3, padding=1, bias=False), nn.Identity()
    return model, 32, 10


def step_of(name, batch, compiled):
    torch.manual_seed(0)
    model, size, classes = network_of(name)
    model = model.cuda().to(memory_format=torch.channels_last)
    if name == "vit_tiny":
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True, capturable=True)
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9, fused=True)
    forward = torch.compile(model, mode=compiled) if compiled else model
    images = torch.randn(batch, 3, size, size, device="cuda").to(memory_format=torch.channels_last)
    labels = torch.randint(0, classes, (batch,), device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.bfloat16, cache_enabled=False):
            loss = F.cross_entropy(forward(images).float(), labels)
        loss.backward()
        optimizer.step()

    return step


def images_per_s(step, batch, seconds):
    rates = []
    for _ in range(3):
        done, begun = 0, time.perf_counter()
        while time.perf_counter() - begun < seconds:
            for _ in range(5):
                step()
            torch.cuda.synchronize()
            done += 5
        rates.append(done * batch / (time.perf_counter() - begun))
    return statistics.median(rates)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--compile", metavar="MODE", choices=("default", "max-autotune-no-cudagraphs"))
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("networks", nargs="+")
    a = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    for word in a.networks:
        name, batch = word.split(":")
        begun = time.perf_counter()
        step = step_of(name, int(batch), a.compile)
        rate = images_per_s(captured(step), int(batch), a.seconds)
        print(json.dumps({"network": name, "batch": int(batch), "compiled": a.compile, "torch": torch.__version__,
                          "images_per_s": round(rate), "ready_after_s": round(time.perf_counter() - begun, 1)}),
              flush=True)


if __name__ == "__main__":
    main()
