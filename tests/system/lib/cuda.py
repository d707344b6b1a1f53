"""What the scripts cuda_*_test.py share: the program that they run, settings, runs that several compare with.

Without a GPU: the program is cifar-train-on-host, beside the one in CIFAR_TRAIN, whose CUDA is a stand-in that computes
on the host. On a machine with a GPU CIFAR_TRAIN_CUDA names a program that computes on it; what only the stand-in can
show is skipped then. A part of the cases by default; all of them with CIFAR_TRAIN_FULL=1.
"""
import os

WITHOUT_CUDA = os.environ.get("CIFAR_TRAIN", "")
REAL = os.environ.get("CIFAR_TRAIN_CUDA", "")
if WITHOUT_CUDA or REAL:
    os.environ["CIFAR_TRAIN"] = REAL or os.path.join(os.path.dirname(WITHOUT_CUDA), "cifar-train-on-host")
import harness
from harness import *

FULL = os.environ.get("CIFAR_TRAIN_FULL", "") not in ("", "0")
TUTORIAL = os.path.join(CONFIGS, "tutorial.yaml")  # a constant learning rate
ONE_GPU = {"CUDA_VISIBLE_DEVICES": "0"}
CUDA = ("--device", "cuda")
CPU = ("--device", "cpu")
# Whatever could depend on who does the work, in steps of few images: the stand-in computes some twenty a second.
SMALL = {"data.on_corrupt": "skip", "model.name": "cnn_plain", "train.max_steps": 3, "train.eval_batch_size": 4,
         "steps_per_print": 1, "gradient_clipping": 0.5, "train_micro_batch_size_per_gpu": 4, "train_batch_size": 16,
         "data.augment": "[{random_crop: {padding: 4}}, {flip: {p: 0.5}}]", "scheduler.params.warmup_num_steps": 4,
         "communication.share_device": True}
# As the tutorial trains.
PLAIN = {"data.on_corrupt": "skip", "train.eval_batch_size": 4, "steps_per_print": 1}


def small(**changed):
    return {**SMALL, "data.path": few(320, 4), **dotted(changed)}


def plain(**changed):
    return {**PLAIN, "data.path": few(1000, 4), **dotted(changed)}


def estimate_words(sets):
    config, name, _, _, *rest = train_words("", sets)
    return ["estimate", config, name, *rest]


def need_stand_in():
    if REAL:
        raise Skip("only the stand-in can show it")


@functools.lru_cache(None)
def gpus():
    if not REAL:
        return 2
    if not shutil.which("nvidia-smi"):
        return 0
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True).stdout.splitlines()
    return sum(line.startswith("GPU ") for line in listed)


def need_two_gpus():
    if gpus() < 2:
        raise Skip("two GPUs are needed")


def files(folder):
    return {name: digest for name, digest in snapshot(folder).items() if name != ".lock"}


def distance(a, b):
    return abs(a - b) / abs(b)


def in_micros(micros, **changed):
    """Settings for micro-batches of two images."""
    return small(train_batch_size=2 * micros, train_micro_batch_size_per_gpu=2, **changed)


def reference(micros, model, bf16):
    """The run on one rank."""
    output = path("one-%d-%s-%d" % (micros, model, bf16))
    if not os.path.exists(output):
        train(output, in_micros(micros, model__name=model, bf16__enabled=bf16), *CUDA, env=ONE_GPU)
    return result(output)


def as_one_rank(ranks, stage, micros=4, model="cnn_plain", bf16=False, env=None, **changed):
    expected = reference(micros, model, bf16)
    output = path("ranks")
    train(output, in_micros(micros, model__name=model, bf16__enabled=bf16, zero_optimization__stage=stage, **changed),
          "--reset", *CUDA, ranks=ranks, env=env)
    expect_same_result(output, expected, "%s, stage %d, %d micro-batches, bf16 %s" % (ranks, stage, micros, bf16))
    expect_equal(weights_sha256(os.path.join(output, "last.bin")), expected[0])


def long(steps, **changed):
    return small(train__max_steps=steps, train__epochs=20, train_batch_size=4, train_micro_batch_size_per_gpu=2,
                 **changed)


def until(output, steps, device, *words):
    return train(output, long(steps), *words, *device)


@functools.lru_cache(None)
def unbroken():
    """The uninterrupted run of eight steps."""
    until(path("unbroken"), 8, CUDA)
    return path("unbroken")


@functools.lru_cache(None)
def half(kind):
    until(path("half-" + kind), 4, ("--device", kind))
    return path("half-" + kind)


def copied(folder, name):
    shutil.copytree(folder, path(name))
    return path(name)


def refused(code, culprits, *words, device=CUDA, ranks=Ranks(1), env=None, sets=None):
    """The command must fail in an existing run's folder, which must not change, and in a new folder, which must not be
    left. Late errors, such as too little memory, may leave the lock."""
    there, nowhere = half("cuda"), path("never")
    before = files(there)
    line = None
    shutil.rmtree(nowhere, ignore_errors=True)
    for output in (there, nowhere):
        done = finish(start(ranks.words(*train_words(output, {**long(8), **(sets or {})}, *words, *device)), env=env))
        line = fails(code, done, *culprits)
    expect_equal(files(there), before, "the run that was there has changed", line)
    if code == MEMORY:
        expect_equal(files(nowhere), {}, line)
    else:
        expect(not os.path.exists(nowhere), "left behind: %s" % list(snapshot(nowhere)), line)
    return line


def problem():
    """The reason why these scripts cannot run; empty: they can."""
    if not PROGRAM:
        return ""  # which main() says
    if not os.path.exists(PROGRAM):
        return "%s is not built" % PROGRAM
    if REAL and gpus() == 0:
        return "there is no GPU: nvidia-smi -L lists none"
    return ""


def main():
    if problem():
        print(problem())
        sys.exit(77)
    harness.main()
