#!/usr/bin/env python3
"""Compares `cifar-train estimate` with runs. For some configurations and every ZeRO stage it compares the peak resident
memory of a short run with in-process ranks, which saves in the background and evaluates, with the estimate for this
host, and the elements that a step communicates with the estimated number. Prints a table and the largest error; exit
status 1 if it is above --limit.

Ranks that are threads map the data set once each, and the system counts the shared pages once a mapping: the script
subtracts the duplicates.
"""
import argparse
import json
import os
import shutil
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "system", "lib"))

ADAM = "{type: Adam, params: {lr: 0.001}}"
SGD = "{type: SGD, params: {lr: 0.01}}"
BF16 = {"bf16.enabled": "true"}


def case(config, ranks, micro, accumulation=1, **more):
    keys = {key.replace("__", "."): value for key, value in more.items()}
    return config, ranks, {"train_batch_size": ranks * micro * accumulation, "train_micro_batch_size_per_gpu": micro,
                           **keys}


CASES = [
    case("resnet18", 1, 4),
    case("resnet18", 1, 64),
    case("resnet18", 1, 16, accumulation=4, train__eval_batch_size=50),
    case("resnet18", 2, 16, optimizer=ADAM),
    case("resnet18", 2, 8, accumulation=3, optimizer=SGD),
    case("resnet18", 2, 32, accumulation=2, bf16__enabled="true", optimizer=ADAM),
    case("resnet18", 4, 4, accumulation=2, optimizer=ADAM, train__eval_batch_size=16),
    case("resnet18", 4, 8, bf16__enabled="true", train__eval_batch_size=100),
    case("resnet18", 2, 16, checkpoint__asynchronous="false", train__eval_batch_size=8),
    case("default", 2, 1024, train__eval_batch_size=500),
]


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", metavar="I,I", help="numbers of configurations, from 0; default: all")
    parser.add_argument("--stages", metavar="S,S", default="0,1,2,3", help="ZeRO stages; default: 0,1,2,3")
    parser.add_argument("--limit", metavar="PERCENT", type=float, default=2, help="largest error allowed; default: 2")
    parser.add_argument("--cifar-train", metavar="PATH", default=os.path.join(ROOT, "build", "release", "cifar-train"))
    return parser.parse_args()


chosen = options()
os.environ["CIFAR_TRAIN"] = os.path.abspath(shutil.which(chosen.cifar_train) or chosen.cifar_train)
import harness


def foretell(config, ranks, settings):
    """Estimates by stage, and the part common to all stages."""
    words = ["estimate", "--config", config, "--ranks", ranks, "--json"]
    for key, value in settings.items():
        words += ["--set", "%s=%s" % (key, value)]
    done = harness.run(*words)
    harness.expect_equal(done.returncode, harness.DONE, done.stderr)
    found = json.loads(done.stdout)
    return found["stages"], found


def measure(config, ranks, settings, stage):
    """The end record of a run."""
    output = harness.path("run")
    words = harness.train_words(output, {**settings, "zero_optimization.stage": stage}, "--reset", config=config)
    done = harness.finish(harness.start(harness.Ranks(ranks).words(*words)), timeout=3600)
    harness.expect_equal(done.returncode, harness.DONE, done.stderr)
    return harness.records(output, "end")[-1]


def compare(number):
    name, ranks, settings = CASES[number]
    config = os.path.join(harness.CONFIGS, name + ".yaml")
    settings = {"data.on_corrupt": "skip", "data.dataset": "cifar10", "train.max_steps": 3, "train.save_interval": 1,
                "train.eval_batch_size": 64, **settings}
    settings["data.path"] = harness.few(  # at least one image for every rank, in training and in evaluation
        train=3 * settings["train_batch_size"], test=ranks * settings["train.eval_batch_size"])
    estimates, common = foretell(config, ranks, settings)
    worst = 0
    for stage in map(int, chosen.stages.split(",")):
        end, foretold = measure(config, ranks, settings, stage), estimates[stage]
        found = end["peak_bytes"]["process"] - (ranks - 1) * common["data_set"]
        accounts, rank = end["peak_bytes"], foretold["rank"]
        error = 100 * (foretold["host"] / found - 1)
        moved, said = end["traffic"]["elements"], foretold["traffic"]["training"]["elements"]
        worst = max(worst, abs(error))
        planned = rank["total"] - rank["overhead"]
        rest = found - common["data_set"] - ranks * accounts["total"]
        print("%4d  %-9s %5d %5d %6d  %9.1f  %9.1f  %+6.1f %%  %9.1f  %9.1f  %9.1f  %s" % (
            number, name, ranks, settings["train_micro_batch_size_per_gpu"], stage, found / 1e6,
            foretold["host"] / 1e6, error, accounts["total"] / 1e6, planned / 1e6, rest / 1e6,
            "as foretold" if abs(moved - said) < 1e-6 * max(moved, 1) else "%.0f, not %.0f" % (moved, said)), flush=True)
        for key in ("weights", "gradients", "optimizer", "activations", "gradient_buckets", "other", "snapshot"):
            if abs(accounts[key] - rank[key]) > 1e-3 * accounts[key]:  # ranks' shares differ slightly from the mean
                print("      %s: %d, not %d" % (key, accounts[key], rank[key]), flush=True)
    return worst


def main():
    if not shutil.which(chosen.cifar_train):
        sys.exit("error: there is no program %s: build it or give --cifar-train PATH" % chosen.cifar_train)
    numbers = range(len(CASES)) if chosen.cases is None else map(int, chosen.cases.split(","))
    try:
        print("case  model     ranks micro  stage   peak MB    estimate     error   accounts      plan       rest  "
              "elements moved", flush=True)
        worst = max(compare(number) for number in numbers)
    finally:
        if harness.scratch.cache_info().currsize:
            shutil.rmtree(harness.scratch(), ignore_errors=True)
    print("largest error: %.1f %%" % worst)
    sys.exit(0 if worst <= chosen.limit else 1)


if __name__ == "__main__":
    main()
