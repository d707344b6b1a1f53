#!/usr/bin/env python3
"""configs/seeds/ and the original files of these systems with --device cuda, in fp16 if they require it."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cuda import *
from seeds import CONFIGURATIONS, their_files, train_small

# The stand-in computes some twenty images a second.
SLOW = {} if REAL else {"train__max_steps": 2}


def trains(name, seed):
    """The configuration with smaller sizes: the first steps of fp16 may overflow, as loss scaling allows."""
    output, _ = train_small(name, seed, *CUDA, ranks=1, output=path("cuda-" + name), **SLOW)
    steps = records(output, "step")
    expect_equal([r["step"] for r in steps], list(range(1, 1 + SLOW.get("train__max_steps", 3))), name)
    begun = records(output, "start")[-1]
    expect_equal(begun["compute"], "f16" if seed.fp16 else "f32", name)
    expect(all(r["loss"] is not None and 0 < r["loss"] < 20 for r in steps), name, steps)
    if seed.fp16:
        expect(all(r["loss_scale"] > 1 for r in steps), name, steps)
    else:
        expect_equal([r["skipped"] for r in steps], [0] * len(steps), name)


@check
def every_configuration_trains_with_cuda():
    for name, seed in CONFIGURATIONS.items():
        if FULL or REAL or not name.startswith("methods_") or name == "methods_gpu":  # which differ in their batch
            trains(name, seed)


@check
def the_systems_own_files_train_with_cuda():
    for name, seed in their_files().items():
        trains(name, seed)


@check
def the_device_that_a_configuration_names():
    """01 requires a CPU, 02 a GPU."""
    for name, device in (("methods_cpu", "cpu"), ("methods_gpu", "CUDA")):
        output, _ = train_small(name, CONFIGURATIONS[name], ranks=1, output=path("own-" + name), train__max_steps=1)
        expect(device.lower() in records(output, "start")[-1]["device"].lower(), records(output, "start"))


main()
