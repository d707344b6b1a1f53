#!/usr/bin/env python3
"""`estimate` predicts the requirements of runs (tools/measure_estimate.py compares in full), and needs little
itself."""
import json
import os
import resource
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import *

TOOL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "measure_estimate.py")


def estimate(*words, **options):
    done = succeeds("estimate", *words, "--json", **options)
    return json.loads(done.stdout)


def need_true_sizes():
    with open(PROGRAM, "rb") as file:
        if re.search(b"__[at]san_init", file.read()):
            raise Skip("a sanitizer's memory counts too")


def peaks(config, ranks, settings):
    """A run's largest resident set in bytes: the kernel's, at the end of the process; the record's; the estimate's,
    with the data set counted once a rank as in the kernel (each thread maps it)."""
    output, config = path("run"), os.path.join(CONFIGS, config + ".yaml")
    words = train_words(output, settings, "--reset", config=config)
    job = start(Ranks(ranks).words(*words))
    _, status, usage = os.wait4(job.pid, 0)
    job.returncode = os.waitstatus_to_exitcode(status)
    out, err = job.communicate()
    expect_equal(job.returncode, DONE, out, err)
    foretold = estimate(*(w for w in words if w not in ("--output", output, "--reset")), "--ranks", ranks)
    host = foretold["stages"][foretold["configured_stage"]]["host"]
    return (1024 * usage.ru_maxrss, records(output, "end")[-1]["peak_bytes"]["process"],
            host + (ranks - 1) * foretold["data_set"])


@check
def the_record_and_the_estimate_are_the_kernels_peak():
    """The whole run counts, also steps after the last evaluation such as hashing the weights."""
    need_true_sizes()
    sets = {"data.path": few(train=8, test=8), "data.on_corrupt": "skip", "data.dataset": "cifar10",
            "train.max_steps": 1, "train_batch_size": 8, "train_micro_batch_size_per_gpu": 4, "train.eval_batch_size": 8}
    for config, ranks, more in [("default", 1, {}), ("default", 2, {}), ("linear", 1, {}), ("resnet18", 1, {})]:
        kernel, record, foretold = peaks(config, ranks, {**sets, **more})
        for name, bytes_, most in [("record", record, 0.02), ("estimate", foretold, 0.05)]:  # libraries' code differs
            expect(abs(bytes_ / kernel - 1) < most, "%s, %d ranks: %d by the kernel, %d by the %s" % (
                config, ranks, kernel, bytes_, name))


@check
def a_peak_is_the_runs_own_under_any_parent():
    """Before exec, a child's peak is its parent's."""
    need_true_sizes()
    sets = {"data.path": few(train=8, test=8), "data.on_corrupt": "skip", "data.dataset": "cifar10",
            "train.max_steps": 1, "train_batch_size": 8, "train_micro_batch_size_per_gpu": 4, "train.eval_batch_size": 8}
    ballast = b"x" * (400 << 20)
    kernel, record, foretold = peaks("linear", 1, sets)
    expect(kernel > len(ballast), "the kernel counts no parent here: this shows nothing")
    expect(abs(record / foretold - 1) < 0.05, record, foretold)  # a parent's would be twice as large


@check
def runs_need_what_was_estimated():
    """The tutorial network on two ranks; the peak is mostly its large micro-batch and the data set."""
    need_true_sizes()
    done = subprocess.run([sys.executable, TOOL, "--cases", "9", "--stages", "0,3", "--limit", "5",  # libraries differ
                           "--cifar-train", PROGRAM], text=True, capture_output=True)
    expect_equal(done.returncode, 0, done.stdout, done.stderr)
    expect_equal(len(re.findall("as foretold", done.stdout)), 2, done.stdout)


@check
def all_stages_are_printed_and_nothing_is_written():
    folder = path("empty")
    os.makedirs(folder)
    found = estimate("--config", os.path.join(CONFIGS, "resnet18.yaml"), "--ranks", 4, cwd=folder)
    expect_equal(os.listdir(folder), [])
    expect_equal([s["stage"] for s in found["stages"]], [0, 1, 2, 3])
    accounts = ["weights", "gradients", "optimizer"]
    held = [sum(s["rank"][a] for a in accounts) / found["parameters"] for s in found["stages"]]
    # SGD with momentum: 12 bytes per parameter; a quarter of what is shared out by four.
    for have, formula in zip(held, [12, 8 + 4 / 4, 4 + 8 / 4, 12 / 4]):
        expect(abs(have / formula - 1) < 0.03, held)
    moved = [s["traffic"]["training"]["elements"] / found["parameters"] for s in found["stages"]]
    for have, formula in zip(moved, [2, 2, 2, 3]):
        expect(abs(have / (formula * 3 / 4) - 1) < 0.01, moved)


@check
def a_run_without_memory_names_the_largest_micro_batch_that_fits():
    need_true_sizes()
    sets = {**FEW, "data.path": few(1024), "model.name": "resnet18", "model.width": 8, "train_batch_size": 1024,
            "train_micro_batch_size_per_gpu": 1024, "train.max_steps": 1}
    limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (600 << 20, 600 << 20))
    words = train_words(path("large"), sets, "--ranks", 1)
    line = fails(MEMORY, run(*words, preexec_fn=limit), "out of memory", "train_micro_batch_size_per_gpu")
    fits = re.search(r"use a micro-batch \(train_micro_batch_size_per_gpu\) of (\d+), the largest that fits", line)
    expect(fits and int(fits[1]) in (128, 256, 512), line)
    words = train_words(path("large"), {**sets, "train_micro_batch_size_per_gpu": fits[1]}, "--ranks", 1)
    done = run(*words, preexec_fn=limit)
    expect_equal(done.returncode, DONE, done.stderr)


@check
def text_marks_the_chosen_stage_and_advises():
    done = succeeds("estimate", "--config", DEFAULT, "--set", "zero_optimization.stage=2", "--ranks", 2)
    expect("2 (chosen)" in done.stdout and "1 (chosen)" not in done.stdout, done.stdout)
    expect_match(done.stdout, "(?m)^stage 2 fits")
    expect(max(map(len, done.stdout.splitlines())) <= 80, done.stdout)


@check
def without_a_gpu_its_sizes_are_printed_without_limits():
    """As on a login node."""
    words = ["--config", DEFAULT, "--ranks", 2]
    env = {"CUDA_VISIBLE_DEVICES": ""}
    found, cpu = estimate(*words, "--device", "cuda", env=env), estimate(*words, "--device", "cpu")
    expect_equal([s["fits"] for s in found["stages"]], 4 * [None])
    expect_equal([found["available"], found["available_of_gpu"], found["largest_micro_batch"]], 3 * [None])
    for gpu, host in zip(found["stages"], cpu["stages"]):
        expect_equal([gpu["rank"]["weights"], gpu["device"]], [host["rank"]["weights"], gpu["rank"]["device"]])
        # Masters and moments have page-locked copies.
        expect(gpu["rank"]["mirrors"] > host["rank"]["optimizer"] + host["rank"]["weights"], gpu)
        expect_equal([host["device"], host["rank"]["mirrors"]], [0, 0])
    text = run("estimate", *words, "--device", "cuda", env=env).stdout
    expect("a GPU with 1 rank, MB" in text and "fits" not in text and "available here" not in text, text)
    expect_match(text, "(?m)^the figures are not compared with this machine: ")
    expect(max(map(len, text.splitlines())) <= 80, text)


@check
def fp16_without_a_gpu_counts_as_bf16_with_a_message():
    env = {"CUDA_VISIBLE_DEVICES": ""}
    fp16 = ["--config", DEFAULT, "--set", "fp16.enabled=true", "--ranks", 2]
    bf16 = estimate("--config", DEFAULT, "--set", "bf16.enabled=true", "--ranks", 2)
    for device in ("auto", "cuda"):
        done = run("estimate", *fp16, "--device", device, "--json", env=env)
        expect("warning: fp16.enabled: " in done.stderr and "those of bf16" in done.stderr, done.stderr)
        expect("on this host a run would be refused" in done.stderr, done.stderr)
        found = json.loads(done.stdout)
        expect_equal(found["compute"], "bf16")
        if device == "auto":
            expect_equal(found["stages"], bf16["stages"])
    fails(USAGE, run("estimate", *fp16, "--device", "cpu", env=env), "fp16.enabled: a CPU does not compute in fp16")
    done = run("estimate", "--config", DEFAULT, "--set", "bf16.enabled=true", "--set", "fp16.auto_cast=true")
    expect("those of bf16" not in done.stderr and "ignored" in done.stderr and "fp16.auto_cast" in done.stderr, done.stderr)


@check
def memory_of_training_and_evaluation_is_separate():
    rank = estimate("--config", DEFAULT, "--ranks", 2)["stages"][0]["rank"]
    expect_equal(rank["activations"], max(rank["activations_in_training"], rank["activations_in_evaluation"]))
    expect(0 < min(rank["activations_in_training"], rank["activations_in_evaluation"]) < rank["activations"], rank)


@check
def a_batch_that_does_not_fit_the_ranks_is_refused_as_by_train():
    words = ["--config", DEFAULT, "--set", "train_batch_size=16", "--ranks", 3]
    by_train = fails(USAGE, run("train", *words), "3 ranks")
    expect_equal(fails(USAGE, run("estimate", *words)), by_train)
    fails(USAGE, run("estimate", "--config", DEFAULT, "--ranks", "none"), "none")
    fails(USAGE, run("estimate", "--config", "nowhere.yaml"), "nowhere.yaml")


main()
