"""Faulty drivers, GPUs, libraries and options: one line of error, or the CPU with --device auto."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cuda import *


def refused_without_a_gpu(env, *culprits):
    """--device cuda is an error, of eval and of a dry run too; auto computes on the CPU."""
    line = refused(USAGE, [*culprits, "--device cpu"], env=env)
    for words in (["eval", "--ckpt", os.path.join(unbroken(), "best.bin"), *CUDA],
                  ["train", *train_words(path("never"), small(), *CUDA, "--dry-run")]):
        expect_equal(fails(USAGE, run(*words, env=env), *culprits), line)
    output = path("without-a-gpu")
    train(output, small(train_batch_size=4), "--reset", "--device", "auto", env=env)
    start_record, = records(output, "start")
    expect(start_record["device"].startswith("cpu"), start_record)
    if not os.path.exists(path("on-the-cpu")):
        train(path("on-the-cpu"), small(train_batch_size=4), *CPU)
    expect_same_result(output, result(path("on-the-cpu")))
    print("      " + line)


@check
def no_driver():
    need_stand_in()
    refused_without_a_gpu({"ON_HOST_DRIVER": "0"}, "device: cuda", "no NVIDIA driver", "libcuda.so.1",
                          "; install the NVIDIA driver, or use --device cpu")


@check
def a_driver_that_is_too_old():
    need_stand_in()
    refused_without_a_gpu({"ON_HOST_DRIVER": "11080"}, "device: cuda", "driver is too old", "11.8",
                          "; update the driver, or use --device cpu")


@check
def no_gpu():
    need_stand_in()
    refused_without_a_gpu({"ON_HOST_DEVICES": "0"}, "device: cuda", "no GPU",
                          "; check nvidia-smi, or use --device cpu")


@check
def gpus_hidden_by_cuda_visible_devices():
    refused_without_a_gpu({"CUDA_VISIBLE_DEVICES": ""}, "device: cuda", "no GPU", "CUDA_VISIBLE_DEVICES is ''",
                          "; have it name GPUs that nvidia-smi -L lists, or use --device cpu")


@check
def a_gpu_that_is_too_old():
    need_stand_in()
    refused_without_a_gpu({"ON_HOST_CAPABILITY": "7.0"}, "GPU 0", "sm_70", "too old", "sm_80",
                          "; choose others by CUDA_VISIBLE_DEVICES, or use --device cpu")


@check
def a_gpu_that_is_not_there():
    refused(USAGE, ["no GPU number 77", "; choose one of those, or use --device cpu"], device=("--device", "cuda:77"))


@check
def two_ranks_on_one_gpu_unasked():
    sets = {"communication.share_device": False, "train_batch_size": 8}
    culprits = ["ranks 0 and 1", "GPU", "share_device: true"]
    refused(USAGE, culprits, ranks=Ranks(2), env=ONE_GPU, sets=sets)
    if has_mpi():
        refused(USAGE, culprits, ranks=Ranks(2, mpi=True), env=ONE_GPU, sets=sets)


@check
def more_ranks_than_gpus():
    sets = {"communication.share_device": False, "train_batch_size": 8 * gpus()}
    line = refused(USAGE, ["ranks 0 and %d" % gpus(), "share_device: true"], ranks=Ranks(2 * gpus()), sets=sets)
    if not REAL:
        for _ in range(5):
            expect("device 1" not in line, "it names another GPU than that of ranks 0 and 2", line)
            line = refused(USAGE, [], ranks=Ranks(4), sets=sets)


@check
def nccl_where_it_cannot_be():
    both = {"communication.backend": "nccl", "train_batch_size": 8}
    refused(USAGE, ["nccl", "ranks 0 and 1", "auto"], ranks=Ranks(2), env=ONE_GPU, sets=both)
    refused(USAGE, ["nccl", "cpu", "auto"], ranks=Ranks(2), device=CPU, sets=both)


@check
def wrong_words():
    refused(USAGE, ["gpu", "cuda"], device=("--device", "gpu"))
    refused(USAGE, ["fp16", "bf16"], sets={"fp16.enabled": True, "bf16.enabled": True})
    refused(USAGE, ["cuda.recor"], sets={"cuda.recor": False})


@check
def a_program_that_has_no_gpu():
    """The installed program on a machine without a GPU: built with CUDA or without."""
    if not WITHOUT_CUDA or REAL or os.path.realpath(WITHOUT_CUDA) == os.path.realpath(PROGRAM):
        raise Skip("CIFAR_TRAIN names no other program")
    version = finish(start([WITHOUT_CUDA, "--version"])).stdout
    why = "built without CUDA" if "built without CUDA" in version else "no NVIDIA driver"
    before, nowhere = files(half("cuda")), path("nothing")
    for words in (train_words(half("cuda"), long(8), *CUDA), train_words(nowhere, long(8), *CUDA)):
        fails(USAGE, finish(start([WITHOUT_CUDA, *words])), why, "--device cpu")
    fails(USAGE, finish(start([WITHOUT_CUDA, "eval", "--ckpt", os.path.join(unbroken(), "best.bin"), *CUDA])), why)
    expect_equal(files(half("cuda")), before)
    expect(not os.path.exists(nowhere), "something was left behind")
    output = path("without-cuda")
    done = finish(start([WITHOUT_CUDA, *train_words(output, long(2), "--device", "auto", "--ranks", "1")]))
    expect_equal(done.returncode, DONE, done.stderr)
    # It goes on with what was trained with CUDA.
    done = finish(start([WITHOUT_CUDA, *train_words(copied(half("cuda"), "taken-over"), long(8), *CPU, "--ranks", "1",
                                                    "--resume", "must")]))
    expect_equal(done.returncode, DONE, done.stderr)
    expect("another device" in done.stdout + done.stderr, done.stdout, done.stderr)


@check
def help_needs_no_gpu():
    for env in ({}, {"ON_HOST_DRIVER": "0"}, {"CUDA_VISIBLE_DEVICES": ""}):
        for words in (["--help"], ["train", "--help"], ["train", *CUDA, "--help"], ["eval", *CUDA, "--help"]):
            done = run(*words, env=env)
            expect_equal((done.returncode, done.stderr), (DONE, ""), words)
            if "train" in words:
                for option in ("--device", "auto | cpu | cuda", "--cuda-path", "--no-record", "--ranks"):
                    expect(option in done.stdout, option, done.stdout)


def left_out(done):
    expect_equal(done.returncode, DONE, done.stdout, done.stderr)
    return [line for line in done.stderr.splitlines() if line.startswith("warning: device: auto ")]


@check
def auto_with_an_unusable_gpu():
    """One line names the reason; without a GPU there is no line."""
    need_stand_in()
    auto, sets = ("--device", "auto"), small(train__max_steps=0)
    for env, why in (({"ON_HOST_DRIVER": "12080"}, "driver is too old: it supports CUDA 12.8.*; update the driver"),
                     ({"ON_HOST_CAPABILITY": "7.5"}, r"GPU 0.*sm_75.*; choose others by CUDA_VISIBLE_DEVICES"),
                     ({"ON_HOST_DRIVER": "0"}, None), ({"ON_HOST_DEVICES": "0"}, None),
                     ({"CUDA_VISIBLE_DEVICES": ""}, None), ({}, None)):
        jobs = [ranks.words(*train_words(path("left-out"), sets, "--reset", *auto))
                for ranks in (Ranks(1), Ranks(2), *([Ranks(2, mpi=True)] if has_mpi() else []))]
        if why:
            jobs += [[PROGRAM, *words] for words in (
                ["train", *train_words(path("left-out"), sets, "--dry-run", *auto)],
                ["eval", "--ckpt", os.path.join(unbroken(), "best.bin"), "--max-images", "1", *auto],
                ["bench", "reduce", "--elements", "1000", "--windows", "1", "--seconds", "0.001", *auto])]
        for job in jobs:
            lines = left_out(finish(start(job, env=env)))
            expect_equal(len(lines), 1 if why else 0, job, lines)
            expect(not why or re.search("computes on the CPU: .*%s, or say --device cpu$" % why, lines[0]), lines)
    expect_equal(left_out(train(path("left-out"), sets, "--reset", *CPU, env={"ON_HOST_DRIVER": "12080"})), [])


@check
def auto_takes_the_gpus_that_can_be_used():
    """An old display card of any number must not prevent the use of a good GPU."""
    need_stand_in()
    for capabilities, old in (("9.0,7.0", 1), ("7.0,9.0", 0)):
        words = train_words(path("mixed"), small(train_batch_size=4, communication__share_device=False), "--reset",
                            "--device", "auto")
        done = finish(start([PROGRAM, *words], env={"ON_HOST_CAPABILITY": capabilities}))
        expect_equal(done.returncode, DONE, done.stderr)
        expect("cuda, On-host GPU (sm_90)" in done.stderr and "solo" in done.stderr, done.stderr)
        expect(re.search("does not use the GPU: GPU %d, .*too old" % old, "\n".join(left_out(done))), done.stderr)


@check
def a_cuda_path_that_is_no_folder():
    """An error even if no library is searched there."""
    wrong = ("--cuda-path", path("no-such-folder"))
    line = fails(USAGE, run("doctor", *wrong), wrong[1])
    for device in (CUDA, CPU):
        expect_equal(refused(USAGE, [], *wrong, device=device), line)
        for words in (["train", *train_words(path("never"), small(), "--dry-run")],
                      ["eval", "--ckpt", os.path.join(unbroken(), "best.bin")], ["selftest"],
                      ["bench", "reduce", "--ranks", "1"]):
            expect_equal(fails(USAGE, run(*words, *wrong, *device)), line, words)


@check
def doctor_names_a_library_that_is_too_old():
    need_stand_in()
    folder = os.path.join(os.path.dirname(WITHOUT_CUDA), "made_up")

    def row(**env):
        return json.loads(run("doctor", "--json", "--cuda-path", folder, env=env).stdout)["cuDNN"]

    why = "cuDNN 9.7.1 in %s is too old: install 9.8.0 or later" % os.path.join(folder, "libcudnn.so.9")
    found = row()
    expect_equal((found["ok"], found["value"]), (False, "cannot be used"))
    expect(found["warning"].startswith(why), found)
    found = row(ON_HOST_DEVICES="0")
    expect(found["ok"] and found["value"].startswith(why), found)


@check
def doctor_tries_nvrtc_out():
    """NVRTC opens its builtins by name, wherever NVRTC itself is."""
    need_stand_in()
    made_up = os.path.join(os.path.dirname(WITHOUT_CUDA), "made_up")
    folder = path("nvrtc")
    os.makedirs(folder)
    with open(os.path.join(folder, "libcublasLt.so.13"), "w") as file:
        file.write("no library, so that no cuBLASLt's version of NVRTC is asked for")

    def row(**env):
        return json.loads(run("doctor", "--json", "--cuda-path", folder, env=env).stdout)["NVRTC"]

    shutil.copy(os.path.join(made_up, "libnvrtc.so.13"), folder)
    without = row()
    expect_equal((without["ok"], without["value"]), (False, "cannot be used"))
    expect("libnvrtc-builtins.so.13.77" in without["warning"] and folder in without["warning"], without)
    expect(row(ON_HOST_DEVICES="0")["ok"], "there is no GPU that could miss it")
    shutil.copy(os.path.join(made_up, "libnvrtc-builtins.so.13.77"), folder)
    expect_equal(row(), {"ok": True, "warning": "", "value": "13.77 in %s, with %s" % (
        os.path.join(folder, "libnvrtc.so.13"), os.path.join(folder, "libnvrtc-builtins.so.13.77"))})


main()
