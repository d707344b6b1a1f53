#!/usr/bin/env python3
"""Measures the gain of overlapping communication with computation: two ranks on two "hosts" (network namespaces, so
root and iproute2 are needed), with a link slowed down until a step's communication takes as long as its computation.
Prints the median time of a step with zero_optimization.overlap_comm true and false, and their ratio; the results must
have the same bits. Perfect overlap would give about 0.5. Run nothing else meanwhile: each rank needs a core.
"""
import argparse
import os
import shutil
import statistics
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "system", "lib"))


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", metavar="FILE", default=os.path.join(ROOT, "configs", "resnet18.yaml"))
    parser.add_argument("--set", metavar="KEY=VALUE", action="append", default=[], help="for all runs; repeatable")
    parser.add_argument("--stages", metavar="S,S", default="0,1,2,3", help="ZeRO stages; default: 0,1,2,3")
    parser.add_argument("--micro", metavar="N", type=int, default=32, help="micro-batch size; default: 32")
    parser.add_argument("--accumulation", metavar="N", type=int, default=1, help="micro-batches per rank; default: 1")
    parser.add_argument("--steps", metavar="N", type=int, default=12,
                        help="of a run, the first two not counted; default: 12")
    parser.add_argument("--rounds", metavar="N", type=int, default=3, help="runs of each kind, in turn; default: 3")
    parser.add_argument("--rate", metavar="MBIT", type=float, help="instead of finding it: the cable's Mbit/s")
    parser.add_argument("--cifar-train", metavar="PATH", default=os.path.join(ROOT, "build", "release", "cifar-train"))
    return parser.parse_args()


chosen = options()
os.environ["CIFAR_TRAIN"] = os.path.abspath(shutil.which(chosen.cifar_train) or chosen.cifar_train)
import harness
import network


def run(net, stage, overlap):
    """(a step's median seconds, bytes per rank and step, weights_sha256)"""
    batch = 2 * chosen.micro * chosen.accumulation
    settings = {"data.path": harness.few(train=batch * chosen.steps, test=10), "data.on_corrupt": "skip",
                "data.dataset": "cifar10", "steps_per_print": 1, "train.max_steps": chosen.steps,
                "train.eval_batch_size": 10,
                "train_batch_size": batch, "train_micro_batch_size_per_gpu": chosen.micro,
                **dict(setting.split("=", 1) for setting in chosen.set),
                "zero_optimization.stage": stage, "zero_optimization.overlap_comm": overlap}
    output = harness.path("run")
    words = harness.train_words(output, settings, "--reset", config=chosen.config)
    done = harness.finish(harness.start(net.ranks(2).words(*words)), timeout=3600)
    harness.expect_equal(done.returncode, harness.DONE, done.stderr)
    end = harness.records(output, "end")[-1]
    seconds = [batch / r["samples_per_sec"] for r in harness.records(output, "step")[2:]]
    return statistics.median(seconds), end["traffic"]["bytes"], end["weights_sha256"]


def measure(stage):
    with network.Network() as net:
        free, moved, sha = run(net, stage, overlap=False)
        rate = chosen.rate or 8e-6 * moved / free
        net.shape("%dkbit" % (1000 * rate))
        found, hashes = {True: [], False: []}, {sha}
        for _ in range(chosen.rounds):
            for overlap in (False, True):
                seconds, _, sha = run(net, stage, overlap)
                found[overlap].append(seconds)
                hashes.add(sha)
    off, on = statistics.median(found[False]), statistics.median(found[True])
    print("%5d  %12.1f  %12.1f  %8.0f  %12.1f  %12.1f  %6.2f  %s" % (
        stage, 1e3 * free, moved / 1e6, rate, 1e3 * off, 1e3 * on, on / off,
        "the same" if len(hashes) == 1 else "DIFFERENT"), flush=True)
    return len(hashes) == 1


def main():
    if chosen.steps < 3 or chosen.rounds < 1 or chosen.micro < 1 or chosen.accumulation < 1:
        sys.exit("error: at least 3 steps, 1 round, 1 image and 1 micro-batch are needed")
    if not shutil.which(chosen.cifar_train):
        sys.exit("error: there is no program %s: build it or give --cifar-train PATH" % chosen.cifar_train)
    try:
        harness.need_mpi()
        network.need_namespaces()
        print("stage  fast link ms  MB sent/step    Mbit/s  overlap off  overlap on ms   ratio  bits", flush=True)
        same = [measure(int(stage)) for stage in chosen.stages.split(",")]
    except harness.Skip as reason:
        sys.exit("error: %s" % reason)
    finally:
        if harness.scratch.cache_info().currsize:
            shutil.rmtree(harness.scratch(), ignore_errors=True)
    sys.exit(0 if all(same) else 1)


if __name__ == "__main__":
    main()
