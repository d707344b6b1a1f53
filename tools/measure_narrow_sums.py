#!/usr/bin/env python3
"""Measures communication of gradients in 16 bits (communication_data_type: bf16) between two "hosts" (network
namespaces, so root and iproute2 are needed) with a slow link: the median time of a step, bytes sent, and the test
accuracy and loss of complete trainings, compared with f32 in the same setting (communication.reproducible: false).
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
    parser.add_argument("--data", metavar="FOLDER", required=True, help="the images: CIFAR-10 or another set")
    parser.add_argument("--config", metavar="FILE", default=os.path.join(ROOT, "configs", "default.yaml"))
    parser.add_argument("--set", metavar="KEY=VALUE", action="append", default=[], help="for all runs; repeatable")
    parser.add_argument("--rate", metavar="MBIT", type=float, default=100, help="the link's Mbit/s; default: 100")
    parser.add_argument("--seeds", metavar="N", type=int, default=3, help="trainings of each kind; default: 3")
    parser.add_argument("--cifar-train", metavar="PATH", default=os.path.join(ROOT, "build", "release", "cifar-train"))
    return parser.parse_args()


chosen = options()
os.environ["CIFAR_TRAIN"] = os.path.abspath(shutil.which(chosen.cifar_train) or chosen.cifar_train)
import harness
import network

DTYPES = ("fp32", "bf16")


def run(net, dtype, seed):
    """(a step's median milliseconds, bytes per rank and step, test accuracy in percent, test loss)"""
    settings = {"data.path": os.path.abspath(chosen.data), "communication.reproducible": False,
                "communication_data_type": dtype, "seed": seed, **dict(word.split("=", 1) for word in chosen.set)}
    output = harness.path("run")
    words = harness.train_words(output, settings, "--reset", config=chosen.config)
    done = harness.finish(harness.start(net.ranks(2).words(*words)), timeout=3600)
    harness.expect_equal(done.returncode, harness.DONE, done.stderr)
    end = harness.records(output, "end")[-1]
    steps = harness.records(output, "step")[1:]
    batch = steps[-1]["samples"] / steps[-1]["step"]
    test = [r for r in harness.records(output, "eval") if r["split"] == "test"][-1]
    return (statistics.median(1e3 * batch / r["samples_per_sec"] for r in steps), end["traffic"]["bytes"],
            100 * test["accuracy"], test["loss"])


def main():
    if not shutil.which(chosen.cifar_train):
        sys.exit("error: there is no program %s: build it or give --cifar-train PATH" % chosen.cifar_train)
    try:
        harness.need_mpi()
        network.need_namespaces()
        found = {dtype: [] for dtype in DTYPES}
        with network.Network() as net:
            net.shape("%dkbit" % (1000 * chosen.rate))
            for seed in range(1, chosen.seeds + 1):
                for dtype in DTYPES:
                    found[dtype].append(run(net, dtype, seed))
                    print("# %s, seed %d: step %.2f ms, %d bytes, accuracy %.2f %%, loss %.4f"
                          % (dtype, seed, *found[dtype][-1]), flush=True)
    except harness.Skip as reason:
        sys.exit("error: %s" % reason)
    finally:
        if harness.scratch.cache_info().currsize:
            shutil.rmtree(harness.scratch(), ignore_errors=True)
    print("gradients  step ms  bytes sent/step  accuracy %%   loss  (%d seeds, %g Mbit/s)" % (chosen.seeds, chosen.rate))
    for dtype in DTYPES:
        times, sent, accuracy, loss = zip(*found[dtype])
        print("%9s  %7.2f  %15d  %10.2f  %.4f" % (dtype, statistics.median(times), statistics.mean(sent),
                                                  statistics.mean(accuracy), statistics.mean(loss)))


if __name__ == "__main__":
    main()
