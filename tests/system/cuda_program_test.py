#!/usr/bin/env python3
"""The program built with CUDA, on a machine without a GPU; the detection of a machine's GPU and driver."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import *

ROOT = os.path.realpath(os.path.join(CONFIGS, ".."))
LIBRARIES = r"lib(cuda|cudart|cudnn|cublas|nccl|nvrtc|nvjitlink|nvidia)"


def need_cuda():
    if "GPUs: CUDA" not in run("--version").stdout:
        raise Skip("built without CUDA")


@check
def starts_without_cuda_s_libraries():
    need_cuda()
    needed = subprocess.run(["ldd", PROGRAM], capture_output=True, text=True, check=True).stdout
    expect(not re.search("not found|" + LIBRARIES, needed, re.I), needed)


@check
def tells_its_version_without_looking_for_a_library():
    need_cuda()
    done = succeeds("--version", env={"LD_DEBUG": "libs"})
    expect(re.search(r"(?m)^GPUs: CUDA \d+\.\d+ for sm_", done.stdout), done.stdout)
    expect(not re.search(r"(calling init:.*/|find library=)" + LIBRARIES, done.stderr, re.I), done.stderr)


@check
def device_cuda_without_a_gpu_is_one_line_and_leaves_nothing():
    need_cuda()
    done = run("train", "--config", os.path.join(CONFIGS, "linear.yaml"), "--device", "cuda", "--output", path("never"),
               env={"CUDA_VISIBLE_DEVICES": ""})
    expect_equal(done.returncode, USAGE, done.stderr)
    expect(re.fullmatch(r"error: device: cuda: .*--device cpu\n", done.stderr), done.stderr)
    expect(not os.path.exists(path("never")), "something was left behind")


def machine(**files):
    """A folder that imitates a system's root."""
    root = path("machine-%d" % len(os.listdir(scratch())))
    os.makedirs(os.path.join(root, "sys/bus/pci/devices"))
    for name, text in files.items():
        file = os.path.join(root, name.replace("__", "/"))
        os.makedirs(os.path.dirname(file), exist_ok=True)
        with open(file, "w") as out:
            out.write(text)
    return root


def on_bus(vendor, kind):
    folder = "sys__bus__pci__devices__0000:01:00.0__"
    return {folder + "vendor": vendor + "\n", folder + "class": kind + "\n"}


def shell(words, **options):
    """The output and status of a function of tools/gpu.sh."""
    script = ". %s/tools/gpu.sh; %s" % (ROOT, words)
    return subprocess.run(["bash", "-euo", "pipefail", "-c", script], capture_output=True, text=True, **options)


@check
def a_gpu_is_found_by_its_file_or_on_the_bus():
    for there, files in [(False, {}), (False, on_bus("0x8086", "0x030000")), (False, on_bus("0x10de", "0x040300")),
                         (False, {"dev__nvidiactl": ""}), (True, {"dev__nvidia0": ""}), (False, {"dev__dxg": ""}),
                         (True, {"usr__lib__wsl__lib__libcuda.so.1": ""}),
                         (True, on_bus("0x10de", "0x030000")), (True, on_bus("0x10de", "0x030200"))]:
        expect_equal(shell("gpu_here %s" % machine(**files)).returncode == 0, there, files)


@check
def the_driver_decides_whether_toolkit_13_will_do():
    for version, will_do in [("", True), ("580.65.06", True), ("590.1", True), ("570.124.06", False), ("535.1", False)]:
        root = machine(sys__module__nvidia__version=version + "\n") if version else machine()
        expect_equal(shell('serves_cuda_13 "$(gpu_driver %s)"' % root).returncode == 0, will_do, version)


@check
def the_build_is_for_the_gpus_that_are_there():
    for capabilities, architectures in [("", ""), ("9.0\n9.0\n", "90a-real"), ("8.0\n8.9\n", "80-real"),
                                        ("8.6\n9.0\n", "80-real;90a-real"), ("10.0\n8.0\n8.6\n", "100-real;80-real"),
                                        ("7.5\n9.0\n", ""), ("10.3\n", "100-real"), ("12.0\n", "")]:
        folder = machine()
        with open(os.path.join(folder, "nvidia-smi"), "w") as file:
            file.write("#!/bin/sh\nprintf '%s'\n" % capabilities.replace("\n", "\\n"))
        os.chmod(file.name, 0o755)
        found = shell("gpu_architectures", env={**os.environ, "PATH": folder + ":" + os.environ["PATH"]})
        expect_equal((found.returncode, found.stdout), (0, architectures), capabilities)


main()
