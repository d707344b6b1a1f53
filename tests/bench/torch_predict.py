#!/usr/bin/env python3
"""`cifar-train predict` beside PyTorch and torchvision: the same answers, and pictures a second on the same cores.

Usage: torch_predict.py build/release/cifar-train PICTURES [--models cnn,resnet18,...] [--rounds 5] [--threads 2]

PICTURES is a folder of JPEG files, such as a class of ImageNet. cnn and vit_tiny get native-size PNG files of 32x32 that
are cut from them. Each network has the first weights of a run. PyTorch's reader is a DataLoader with one worker a thread
and torchvision's transforms (Resize, CenterCrop); its time begins after the modules are imported and ends with the last
answer, and cifar-train's is that of the whole process. Exit code 77: PyTorch or torchvision is missing.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

try:
    import torch
    import torchvision
    from PIL import Image
except ImportError:
    print("PyTorch, torchvision and Pillow are needed: pip install torch torchvision pillow, in a virtual environment")
    sys.exit(77)

from torch_tutorial import Network
from torch_vit_tiny import VitTiny
from torch_weights import name_in_vit_tiny, tensors

SYNTHETIC = [texture + "-" + shape for shape in ("disc", "ring", "square", "triangle", "cross") for texture in ("striped", "checked")]


def network(model, classes):
    if model == "cnn":
        return Network()
    if model == "vit_tiny":
        return VitTiny()
    return getattr(torchvision.models, model)(num_classes=classes)


class Pictures(torch.utils.data.Dataset):
    def __init__(self, files, transform):
        self.files, self.transform = files, transform

    def __len__(self):
        return len(self.files)

    def __getitem__(self, i):
        with Image.open(self.files[i]) as picture:
            return self.transform(picture.convert("RGB"))


def answers_of_torch(net, files, transform, threads, batch):
    loader = torch.utils.data.DataLoader(Pictures(files, transform), batch_size=batch, num_workers=threads)
    with torch.inference_mode():
        return torch.cat([net(images).softmax(1) for images in loader])


def run(program, *words):
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit("%s: %s" % (" ".join(map(str, words)), done.stderr))
    return done.stdout


def small_pictures(files, folder, count):
    """Native-size pictures: 32x32 parts, as PNG."""
    os.makedirs(folder)
    made = []
    for k in range(count):
        with Image.open(files[k % len(files)]) as picture:
            width, height = picture.size
            x, y = 37 * k % max(width - 32, 1), 53 * k % max(height - 32, 1)
            made.append(os.path.join(folder, "p%05d.png" % k))
            picture.convert("RGB").crop((x, y, x + 32, y + 32)).save(made[-1])
    return made


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("pictures")
    parser.add_argument("--models", default="cnn,vit_tiny,resnet18,resnet50")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--count", type=int, default=1000)
    args = parser.parse_args()
    program = os.path.abspath(args.program)
    torch.set_num_threads(args.threads)
    jpegs = sorted(os.path.join(root, name) for root, _, names in os.walk(args.pictures) for name in names
                   if name.lower().endswith((".jpeg", ".jpg")))
    with tempfile.TemporaryDirectory() as folder:
        small = small_pictures(jpegs, os.path.join(folder, "small"), args.count)
        for model in args.models.split(","):
            large = model.startswith("resnet")
            files = (jpegs * (1 + args.count // len(jpegs)))[:args.count] if large else small
            size, classes = (224, 4) if large else (32, 10)
            output = os.path.join(folder, model)
            # Ten classes of a set that is written here, or four folders of the pictures: only the first weights matter.
            if large:
                data = os.path.join(folder, "folders")
                for split in ("train", "val"):
                    for c in range(classes):
                        os.makedirs(os.path.join(data, split, "c%d" % c), exist_ok=True)
                        for k in range(4):
                            to = os.path.join(data, split, "c%d" % c, "%d.jpg" % k)
                            if not os.path.exists(to):
                                os.symlink(os.path.abspath(jpegs[(8 * c + k + 4 * (split == "val")) % len(jpegs)]), to)
                sets = {"data.path": data, "data.size": 224, "data.resize": 256, "model.stem": "imagenet"}
            else:
                sets = {"data.path": folder, "data.dataset": "synthetic"}
            words = ["--config", "default.yaml", "--output", output, "--quiet", "--set", "model.name=" + model]
            for key, value in {**sets, "train.max_steps": 2, "train_batch_size": 8, "train_micro_batch_size_per_gpu": 8,
                               "data.validation": 0, "train.best": "{split: last}", "train.eval_batch_size": 50,
                               "data.normalize": "{mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225]}"}.items():
                words += ["--set", "%s=%s" % (key, value)]
            run(program, *words)
            exported = os.path.join(folder, model + ".safetensors")
            run(program, "export", "--ckpt", output, "--out", exported)
            weights = tensors(exported)
            if model == "vit_tiny":
                weights = {name_in_vit_tiny(name): value for name, value in weights.items()}
            net = network(model, classes).eval()
            problems = net.load_state_dict(weights, strict=False)
            assert not problems.unexpected_keys and all("num_batches_tracked" in key for key in problems.missing_keys), problems
            to_tensor = [torchvision.transforms.ToTensor(),
                         torchvision.transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]
            resize = [torchvision.transforms.Resize(256), torchvision.transforms.CenterCrop(224)] if large else []
            transform = torchvision.transforms.Compose(resize + to_tensor)
            listed = [program, "predict", "--ckpt", os.path.join(output, "best.bin"), "--top", str(classes), "--json", "--quiet"]
            ours, theirs = [], []
            for _ in range(args.rounds):
                begin = time.monotonic()
                done = subprocess.run([*listed, *files], capture_output=True, text=True)
                ours.append(time.monotonic() - begin)
                if done.returncode != 0:
                    sys.exit(done.stderr)
                begin = time.monotonic()
                answers = answers_of_torch(net, files, transform, args.threads, 50)
                theirs.append(time.monotonic() - begin)
            lines = [json.loads(line) for line in done.stdout.splitlines()]
            names = ["c%d" % c for c in range(classes)] if large else SYNTHETIC
            largest, same = 0, 0
            for line, answer in zip(lines, answers):
                mine = torch.zeros(classes)
                for entry in line["predictions"]:
                    mine[names.index(entry["class"])] = entry["probability"]
                largest = max(largest, float((mine - answer).abs().max()))
                same += int(mine.argmax()) == int(answer.argmax())
            rates = [len(files) / statistics.median(times) for times in (ours, theirs)]
            print("%-9s %5d %s: %.0f pictures/s, PyTorch %.0f: %.2fx; largest difference of a probability %.1e; same first class %.1f %%"
                  % (model, len(files), "JPEG" if large else "PNG", *rates, rates[0] / rates[1], largest, 100 * same / len(files)), flush=True)


main()
