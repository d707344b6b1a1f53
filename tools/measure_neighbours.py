#!/usr/bin/env python3
"""Measures a run's speed next to another program: images/s of two ranks alone, next to a busy loop of the lowest
priority, and next to one of the same priority, in turn. Ranks are threads, unbound processes of mpirun, or processes of
`launch`. Prints the median share of each kind; run nothing else meanwhile.
"""
import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BENCH = ["bench", "step", "--json", "--set", "train_batch_size=512", "--set", "train_micro_batch_size_per_gpu=256"]


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", metavar="N", type=int, default=5, help="of alone and beside, in turn; default: 5")
    parser.add_argument("--seconds", metavar="S", type=float, default=0.5, help="of each of 5 windows; default: 0.5")
    parser.add_argument("--kinds", default="threads,mpirun,launch", help="default: threads,mpirun,launch")
    parser.add_argument("--peer", metavar="COMMAND", action="append", default=[],
                        help="another program, whose last line is an object with samples_per_sec; repeatable")
    parser.add_argument("--cifar-train", metavar="PATH", default=os.path.join(ROOT, "build", "release", "cifar-train"))
    return parser.parse_args()


def commands(chosen):
    bench = [*BENCH, "--seconds", str(chosen.seconds)]
    words = {"threads": [chosen.cifar_train, *bench, "--ranks", "2"],
             "mpirun": ["mpirun", "--bind-to", "none", "-np", "2", chosen.cifar_train, *bench],
             "launch": [chosen.cifar_train, "launch", "--num_gpus", "2", *bench]}
    return {**{kind: words[kind] for kind in chosen.kinds.split(",") if kind}, **{p: shlex.split(p) for p in chosen.peer}}


def speed(words):
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
    # The object ends the output, on one line or on several.
    found = json.loads(done.stdout[done.stdout.rindex("\n{") + 1:] if "\n{" in done.stdout else done.stdout)
    return found.get("samples_per_sec") or found["images_per_sec"]


def beside(priority, words):
    """The speed next to a busy loop."""
    if priority is None:
        return speed(words)
    loop = subprocess.Popen(["nice", "-n", str(priority), sys.executable, "-c", "while True: pass"])
    try:
        return speed(words)
    finally:
        loop.kill()
        loop.wait()


def main():
    chosen = options()
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    print("%-40s %12s %18s %18s" % ("", "alone", "beside nice 19", "beside nice 0"))
    found = {name: [] for name in commands(chosen)}
    for _ in range(chosen.rounds):
        for name, words in commands(chosen).items():
            found[name].append([beside(priority, words) for priority in (None, 19, 0)])
    for name, rows in found.items():
        shares = [statistics.median(row[i] / row[0] for row in rows) for i in (1, 2)]
        print("%-40s %12.0f %17.1f%% %17.1f%%" % (name[-40:], statistics.median(row[0] for row in rows),
                                                  *(100 * share for share in shares)))


main()
