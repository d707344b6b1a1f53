#!/usr/bin/env python3
"""How long a command takes to its first step, and what checkpoints cost.

Usage: start_and_save.py build/release/cifar-train CIFAR10 [--folder DIR] [--rounds 5] [--steps 24]

CIFAR10 holds the binary batches of CIFAR-10; checkpoints are written in DIR (a temporary folder), whose disk is the one
that is measured. Nothing else may run meanwhile. Prints medians:
- the tutorial's network, on one rank, on four, continuing on four, and on four under mpirun (beside mpirun's own time
  for four processes that do nothing): from the start of the command to the line of its first step;
- ResNet-18 in batches of 128: the time that a save adds to a run, divided by the time of an epoch, because a run
  saves at the end of every epoch;
- ResNet-152 with Adam: from the first sign of a checkpoint in its folder to its final name, against `dd bs=8M
  conv=fsync` of the same files into the same disk, in turn.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import tempfile
import time

IMAGES, RECORD = 50000, 3073


def main():
    options = argparse.ArgumentParser(usage=__doc__)
    options.add_argument("program")
    options.add_argument("data")
    options.add_argument("--folder")
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--steps", type=int, default=24)
    given = options.parse_args()
    program, data = os.path.abspath(given.program), os.path.abspath(given.data)
    folder = tempfile.mkdtemp(dir=given.folder)
    runs = os.path.join(folder, "run")

    few = os.path.join(folder, "few")
    os.mkdir(few)
    for at, _, names in os.walk(data):
        for name in names:
            if name.endswith(".bin"):
                with open(os.path.join(at, name), "rb") as whole_file, open(os.path.join(few, name), "wb") as file:
                    file.write(whole_file.read((20 if "test" in name else 1000) * RECORD))
                    file.write(b"\xff" * (10000 * RECORD - file.tell()))  # labels that on_corrupt skips

    def words(config, steps, ranks, *sets, images=data):
        keys = ("train.max_steps=%d" % steps, "steps_per_print=1", "data.validation=0", "train.best.split=last",
                "data.on_corrupt=skip", *sets)
        return [program, "--config", config, "--data", images, "--output", runs, "--ranks", str(ranks), "-v",
                *(word for key in keys for word in ("--set", key))]

    def whole(config, steps, ranks, *sets, **options):
        """Seconds of the whole command."""
        begin = time.monotonic()
        subprocess.run(words(config, steps, ranks, *sets, **options), check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        return time.monotonic() - begin

    def to_first_step(ranks, keep, mpirun=False):
        if not keep:
            shutil.rmtree(runs, ignore_errors=True)
        command = words("default.yaml", 20 if keep else 10, 1 if mpirun else ranks, "train_batch_size=16",
                        "train_micro_batch_size_per_gpu=4")
        begin = time.monotonic()
        job = subprocess.Popen(under_mpirun(ranks, command) if mpirun else command, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True)
        seconds = next(time.monotonic() - begin for line in job.stdout if "step=" in line)
        job.stdout.read()
        job.wait()
        return seconds

    def under_mpirun(ranks, command):
        return ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", str(ranks), *command]

    def first_steps(ranks, resumes=False, mpirun=False):
        times = []
        for _ in range(given.rounds):
            if resumes:
                to_first_step(ranks, False, mpirun)
            times.append(to_first_step(ranks, resumes, mpirun))
        return statistics.median(times)

    def mpirun_alone(ranks):
        begin = time.monotonic()
        subprocess.run(under_mpirun(ranks, ["true"]), check=True)
        return time.monotonic() - begin

    print("first step: 1 rank %.3f s, 4 ranks %.3f s, continuing on 4 ranks %.3f s" % (
        first_steps(1), first_steps(4), first_steps(4, resumes=True)), flush=True)
    print("under mpirun: 4 ranks %.3f s, continuing on 4 ranks %.3f s, mpirun alone %.3f s" % (
        first_steps(4, mpirun=True), first_steps(4, resumes=True, mpirun=True),
        statistics.median(mpirun_alone(4) for _ in range(given.rounds))), flush=True)

    with_saves, without = [], []
    saves = 4
    for _ in range(given.rounds):
        for times, interval in ((with_saves, given.steps // (saves + 1)), (without, 10 ** 6)):
            shutil.rmtree(runs, ignore_errors=True)
            times.append(whole("resnet18.yaml", given.steps, 1, "train.save_interval=%d" % interval, "train_batch_size=128",
                               "train_micro_batch_size_per_gpu=128", images=few))
            with open(os.path.join(runs, "metrics.jsonl")) as file:
                speed = [r["samples_per_sec"] for r in map(json.loads, file) if r["event"] == "step"]
    cost = max(statistics.median(with_saves) - statistics.median(without), 0) / saves
    epoch = IMAGES / statistics.median(speed)
    print("resnet18: a save adds %.3f s to an epoch of %.0f s: %.2f %%" % (cost, epoch, 100 * cost / epoch), flush=True)

    ours, copies = [], []
    for _ in range(given.rounds):
        shutil.rmtree(runs, ignore_errors=True)
        job = subprocess.Popen(words("resnet18.yaml", 1, 1, "model.name=resnet152", "optimizer={type: Adam}", "scheduler={}",
                                     "train_batch_size=2", "train_micro_batch_size_per_gpu=2",
                                     images=few), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        step, begin = os.path.join(runs, "ckpt", "step-00000001"), None
        while job.poll() is None:
            if begin is None and os.path.exists(step.replace("step", ".tmp-step")):
                begin = time.monotonic()
            if os.path.exists(step):
                ours.append(time.monotonic() - begin)
                break
            time.sleep(0.001)
        job.wait()
        files = [os.path.join(step, name) for name in os.listdir(step)]
        size = sum(map(os.path.getsize, files))
        copy = os.path.join(folder, "copy")
        os.mkdir(copy)
        begin = time.monotonic()
        for file in files:
            subprocess.run(["dd", "if=" + file, "of=" + os.path.join(copy, os.path.basename(file)), "bs=8M", "conv=fsync"],
                           check=True, stderr=subprocess.DEVNULL)
        copies.append(time.monotonic() - begin)
        shutil.rmtree(copy)
        shutil.rmtree(runs)
    a, b = statistics.median(ours), statistics.median(copies)
    print("resnet152: %.2f GB saved in %.2f s, dd %.2f s: %.2f x its speed" % (size / 1e9, a, b, b / a))
    shutil.rmtree(folder)


main()
