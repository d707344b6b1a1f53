#!/usr/bin/env python3
"""Frozen layers and layer decay against PyTorch: 50 steps from the same weights, of cnn_plain, resnet18 and vit_tiny.

Usage: torch_freeze.py build/release/cifar-train [--cases PATTERN] [--steps 50] [--batch 8] [--threads 2]

PyTorch trains in float64 and in float32, with requires_grad off for frozen parameters, frozen batch norms in evaluation
mode, and a parameter group for each layer's rate. For this program and for PyTorch's float32 it prints the distance
from float64: the largest relative difference of a loss, and the largest difference of a weight, divided by the largest
weight of its tensor. Adam divides by the root of the second moment: where a gradient is near zero, its rounding becomes
a change of weight, the more the smaller eps is. A ReLU whose input is nearly zero may pass a gradient in one program
and not in the other: probably the reason why small biases of some channels of resnet18 differ by percents, in PyTorch's
float32 too. --cases takes a part of a case's name. Exit code 77: PyTorch or torchvision is missing; 1: a weight is
above 1e-6 and above twice PyTorch's float32, or a frozen one has changed.
"""
import argparse
import fnmatch
import json
import os
import subprocess
import sys
import tempfile

try:
    import torch
    import torchvision  # noqa: F401
except ImportError:
    print("PyTorch and torchvision are needed: pip install torch torchvision, in a virtual environment")
    sys.exit(77)

from torch_networks import network_of
from torch_tutorial import Network
from torch_vit_tiny import VitTiny
from torch_weights import name_in_vit_tiny, tensors

# In cifar-train's names: what is frozen, and the number of a tensor's layer.
BACKBONE = {"cnn_plain": ["conv*", "fc1*", "fc2*"], "resnet18": ["conv1*", "bn1*", "layer*"],
            "vit_tiny": ["to_patch*", "cls_token", "pos_embedding", "transformer*"]}
MIXED = {"cnn_plain": ["conv1*"], "resnet18": ["conv1*", "bn1.*", "layer[13]*", "layer2.0*"],
         "vit_tiny": ["to_patch*", "transformer.layers.[02]*", "transformer.layers.1.0*"]}
LAYERS = {"cnn_plain": 5, "resnet18": 10, "vit_tiny": 6}


def layer_of(model, name):
    first = name.split(".")[0]
    if model == "cnn_plain":
        return ["conv1", "conv2", "fc1", "fc2", "fc3"].index(first)
    if first in ("fc", "mlp_head"):
        return LAYERS[model] - 1
    if first.startswith("layer"):
        return 2 * int(first[5]) - 1 + int(name.split(".")[1])
    return 1 + int(name.split(".")[2]) if first == "transformer" else 0


def ours(program, folder, model, frozen, decay, optimizer, args):
    """The losses, and the weights before and after."""
    output = os.path.join(folder, "run")
    sets = {"model.name": model, "data.path": folder, "data.dataset": "synthetic", "data.shuffle": "false", "data.augment": "[]",
            "data.validation": 0, "train.best": "{split: last}", "data.normalize": "{mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5]}", "bf16.enabled": "false",
            "train_batch_size": args.batch, "train_micro_batch_size_per_gpu": args.batch, "steps_per_print": 1, "scheduler": "{}",
            "train.max_steps": args.steps, "data.limit": args.steps * args.batch, "train.eval_interval": 1000000,
            "checkpoint.keep_last": 1000, "train.freeze": json.dumps(frozen), "train.layer_decay": decay, "optimizer": optimizer}
    if model == "vit_tiny":
        sets.update({"model.dropout": 0, "model.emb_dropout": 0})
    words = [program, "--config", "default.yaml", "--output", output, "--reset", "--quiet"]
    for key, value in sets.items():
        words += ["--set", "%s=%s" % (key, value)]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    with open(os.path.join(output, "metrics.jsonl")) as lines:
        losses = [record["loss"] for record in map(json.loads, lines) if record["event"] == "step"]
    at = [tensors(os.path.join(output, "ckpt", "step-%08d" % step, "weights.safetensors")) for step in (0, args.steps)]
    return losses, *at


def theirs(model, start, frozen, decay, make_optimizer, dtype, args, images, labels):
    """The same by PyTorch, in cifar-train's names."""
    spelled = name_in_vit_tiny if model == "vit_tiny" else str
    net = {"cnn_plain": Network, "vit_tiny": lambda: VitTiny(p=0)}.get(model, lambda: network_of(model)[0])()
    problems = net.load_state_dict({spelled(name): value for name, value in start.items()}, strict=False)
    assert not problems.unexpected_keys and all("num_batches" in key for key in problems.missing_keys), problems
    net.to(dtype).train()
    parameters, groups = dict(net.named_parameters()), {}
    for name in start:
        if spelled(name) in parameters:
            still = any(fnmatch.fnmatchcase(name, pattern) for pattern in frozen)
            parameters[spelled(name)].requires_grad_(not still)
            if not still:
                groups.setdefault(LAYERS[model] - 1 - layer_of(model, name), []).append(parameters[spelled(name)])
    for module in net.modules():
        if isinstance(module, torch.nn.BatchNorm2d) and not module.weight.requires_grad and not module.bias.requires_grad:
            module.eval()
    optimizer = make_optimizer([{"params": of, "scale": decay**above} for above, of in groups.items()])
    losses = []
    for step in range(args.steps):
        part = slice(step * args.batch, (step + 1) * args.batch)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(net((images[part].to(dtype) / 255 - 0.5) / 0.5), labels[part])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    state = net.state_dict()
    return losses, {name: state[spelled(name)].double() for name in start}


def distance(found, exact):
    """The largest relative difference of a loss, and of a weight."""
    losses, weights = found
    return (max(abs(a - b) / abs(b) for a, b in zip(losses, exact[0])),
            max(float((weights[name] - value).abs().max() / value.abs().max().clamp(min=1e-12)) for name, value in exact[1].items()))


def sgd(lr):
    return ("{type: SGD, params: {lr: %g, momentum: 0.9}}" % lr, lambda groups: torch.optim.SGD(
        [{"params": group["params"], "lr": lr * group["scale"]} for group in groups], lr=lr, momentum=0.9))


def adam(lr, eps=1e-8):
    return ("{type: Adam, params: {lr: %g, eps: %g}}" % (lr, eps), lambda groups: torch.optim.Adam(
        [{"params": group["params"], "lr": lr * group["scale"]} for group in groups], lr=lr, eps=eps))


CASES = [(model + ": " + name, model, frozen.get(model, []), decay, optimizer)
         for model, momentum, rates in [("cnn_plain", sgd(1e-3), adam(1e-3)), ("resnet18", sgd(5e-4), adam(1e-5)),
                                        ("vit_tiny", sgd(1e-3), adam(1e-4))]
         for name, frozen, decay, optimizer in [
             ("frozen but for the head, SGD", BACKBONE, 1, momentum), ("frozen but for the head, Adam", BACKBONE, 1, rates),
             ("some layers frozen, SGD", MIXED, 1, momentum), ("layer decay 0.75, SGD", {}, 0.75, momentum),
             ("layer decay 0.75, Adam", {}, 0.75, rates)]]
CASES += [("cnn_plain: layer decay 0.75, Adam, eps %g" % eps, "cnn_plain", [], 0.75, adam(1e-3, eps)) for eps in (1e-6, 1e-4)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--cases", default="")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    program = os.path.abspath(args.program)
    torch.set_num_threads(args.threads)
    far = False
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([program, "data", "synth", "--out", folder, "--images", str(50 * -(-args.steps * args.batch // 10))], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with open(os.path.join(folder, "synthetic-10-batches-bin", "data_batch_1.bin"), "rb") as file:
            rows = torch.frombuffer(bytearray(file.read(3073 * args.steps * args.batch)), dtype=torch.uint8).reshape(-1, 3073)
        images, labels = rows[:, 1:].reshape(-1, 3, 32, 32), rows[:, 0].long()
        for name, model, frozen, decay, (words, make_optimizer) in CASES:
            if args.cases not in name:
                continue
            losses, start, end = ours(program, folder, model, frozen, decay, words, args)
            exact, rounded = (theirs(model, start, frozen, decay, make_optimizer, dtype, args, images, labels)
                              for dtype in (torch.float64, torch.float32))
            of_ours, of_torch = distance((losses, end), exact), distance(rounded, exact)
            still = [key for key in start if any(fnmatch.fnmatchcase(key, pattern) for pattern in frozen)]
            changed = [key for key in still if not torch.equal(start[key], end[key])]
            far = far or bool(changed) or of_ours[1] > max(1e-6, 2 * of_torch[1])
            print("%-44s loss %.1e, weights %.1e; PyTorch's float32 %.1e, %.1e%s"
                  % (name, *of_ours, *of_torch, "; frozen tensors changed: " + ", ".join(changed) if changed else ""), flush=True)
    return 1 if far else 0


sys.exit(main())
