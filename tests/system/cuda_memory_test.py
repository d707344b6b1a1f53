"""The memory of GPUs: runs that need too much, and predictions of estimates and dry runs."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cuda import *


@check
def too_little_memory_on_the_gpu():
    need_stand_in()
    env = {"ON_HOST_MEMORY": "1000000"}
    line = refused(MEMORY, ["out of memory", "GPU 0", "1000000", "micro-batch"], env=env)
    print("      " + line)
    fails(MEMORY, run("train", *train_words(path("auto"), small(), "--device", "auto"), env=env), "out of memory")


@check
def the_table_of_memory():
    """If the GPU's memory is too small: the requirements, and a configuration that fits."""
    need_stand_in()
    # 62006 parameters, each with its gradient and Adam's state, and the activations of 64 images: with 16 it fits.
    sets = small(model__name="cnn_plain", train_batch_size=64, train_micro_batch_size_per_gpu=64, train__max_steps=1)
    done = run("train", *train_words(path("table"), sets, *CUDA), env={"ON_HOST_MEMORY": "3500000"})
    fails(MEMORY, done, "out of memory")
    for what in ("weights", "gradients", "optimizer", "activations"):
        expect(what in done.stderr, "nothing is said of the %s" % what, done.stderr)
    expect(re.search(r"micro-batch[^\n]*\b\d+", done.stderr), "no micro-batch that fits is named", done.stderr)


def estimated(sets, ranks, memory=2 ** 31):
    done = run(*estimate_words(sets), *CUDA, "--ranks", ranks, "--json", env={**ONE_GPU, "ON_HOST_MEMORY": str(memory)})
    return json.loads(done.stdout)


def without_images(sets, ranks):
    """With as much memory as the run needs with the training images: then these are left out, for 9/10 would have to
    be enough."""
    with_them = estimated(sets, ranks)["stages"]
    expect_equal([s["rank"]["images"] for s in with_them], 4 * [3072 * 320])
    found = estimated(sets, ranks, with_them[sets.get("zero_optimization.stage", 0)]["device"])
    expect_equal(found["stages"][sets.get("zero_optimization.stage", 0)]["rank"]["images"], 0)
    return found


@check
def images_that_do_not_fit_on_the_gpu():
    """Then each step uploads its own, to the same bits; one line says so."""
    need_stand_in()
    for ranks, stage in [(r, s) for r in (1, 2, 4) for s in range(4)] if FULL else [(1, 0), (2, 2), (4, 3)]:
        sets = small(train__max_steps=4, zero_optimization__stage=stage, train_batch_size=16,
                     train_micro_batch_size_per_gpu=2)
        need = without_images(sets, ranks)["stages"][stage]["device"]
        said = {}
        for name, memory in (("there", 2 ** 31), ("brought", need + 4096)):
            output = path("images-%d-%d-%s" % (ranks, stage, name))
            done = train(output, sets, *CUDA, ranks=Ranks(ranks), env={**ONE_GPU, "ON_HOST_MEMORY": str(memory)})
            said[name] = [line for line in done.stderr.splitlines() if "do not fit into the GPU's memory" in line]
        expect_equal({name: len(lines) for name, lines in said.items()}, {"there": 0, "brought": 1})
        expect("the training images, 983 kB a rank" in said["brought"][0], said)
        expect_same_result(output, result(path("images-%d-%d-there" % (ranks, stage))), ranks, stage)


@check
def evaluations_of_large_batches_amid_steps_of_small_ones():
    """Evaluations that come where steps have been sent and not run, in batches of 25 times as many images: with the
    training images on the GPU the same bits as without, and as launched kernel by kernel."""
    need_stand_in()
    sets = plain(data__path=few(320, 130), steps_per_print=50, train__eval_interval=27, train__max_steps=70,
                 train_batch_size=4, train__eval_batch_size=100, model__name="cnn" if FULL else "linear")
    need = without_images(sets, 1)["stages"][0]["device"]
    for name, words, memory in (("recorded", (), 2 ** 31), ("launched", ("--no-record",), 2 ** 31),
                                ("brought", (), need + 4096)):
        done = train(path("amid-" + name), sets, *words, *CUDA, env={**ONE_GPU, "ON_HOST_MEMORY": str(memory)})
        expect_equal("do not fit into the GPU's memory" in done.stderr, name == "brought", done.stderr)
        expect_same_result(path("amid-" + name), result(path("amid-recorded")), name)
    expect_equal([r["step"] for r in records(path("amid-brought"), "eval")], [27, 54, 70])


@check
def a_shared_gpu_too_small_for_two_ranks():
    """Each rank alone would fit; no rank may meet a failing allocation."""
    need_stand_in()
    sets = small(train_batch_size=8, zero_optimization__stage=0)
    words = ["train", *train_words(path("shared"), sets, *CUDA, "--ranks", 2)]
    foretold = without_images(sets, 2)
    need = foretold["stages"][0]["device"]
    expect_equal([foretold["ranks_a_gpu"], need], [2, 2 * foretold["stages"][0]["rank"]["device"]])
    for available, advice in ((need // 2 + 1, ""), (need - 1, "zero_optimization.stage 1 is the lowest that fits")):
        for more in ([], ["--dry-run"]):
            line = fails(MEMORY, run(*words, *more, env={**ONE_GPU, "ON_HOST_MEMORY": str(available)}),
                         "out of memory on GPU 0", "for weights", "for optimizer state", "for activations",
                         "2 ranks that share the GPU: %d in all" % need, "of %d are free" % available,
                         advice)
    print("      " + line)
    done = succeeds(*words, env={**ONE_GPU, "ON_HOST_MEMORY": str(need + 4096)})


@check
def estimates_of_a_gpu():
    """Estimates are compared with the GPU's memory, and the host's part with the host's."""
    need_stand_in()
    sets = small(zero_optimization__offload_optimizer__device="cpu", train_batch_size=64,
                 train_micro_batch_size_per_gpu=64)
    words = [*estimate_words(sets), "--ranks", 1]
    found = json.loads(run(*words, *CUDA, "--json", env={"ON_HOST_MEMORY": "2000000"}).stdout)
    rank, = {json.dumps(s["rank"]) for s in found["stages"]}  # one rank shares nothing
    rank = json.loads(rank)
    expect_equal(found["available_of_gpu"], 2000000)
    expect(rank["device"] > 2000000 and rank["offloaded"] >= 12 * found["parameters"], rank)
    expect_equal(rank["optimizer"], 0)
    expect_equal(rank["host"], rank["offloaded"] + rank["mirrors"] + rank["staged"] + rank["snapshot"] + rank["overhead"])
    expect_equal([s["fits"] for s in found["stages"]], 4 * [False])
    expect(1 <= found["largest_micro_batch"] < 64, found["advice"])
    text = run(*words, *CUDA, env={"ON_HOST_MEMORY": "2000000"}).stdout
    expect(re.search(r"2\.0 MB of GPU 0", text) and re.search(r"a GPU with 1 rank, MB\n.*\n  fits +no", text), text)
    expect("page-locked copies" in text and re.search(r"this host, MB\n.*\n  fits +yes", text), text)
    # A login node has no GPU: the sizes are told, but there is nothing to compare them with.
    nowhere = run(*words, *CUDA, env={"ON_HOST_DRIVER": "0"})
    expect_equal(nowhere.returncode, DONE, nowhere.stderr)
    expect("fits" not in nowhere.stdout and "a GPU with 1 rank" in nowhere.stdout, nowhere.stdout)
    expect(re.search("not compared with this machine.*no NVIDIA driver", " ".join(nowhere.stdout.split())), nowhere.stdout)
    host = json.loads(run(*words, *CPU, "--json").stdout)
    expect_equal([host["available_of_gpu"], host["stages"][0]["device"]], [None, 0])


@check
def dry_runs_print_offloaded_memory():
    done = train(path("dry-offload"), small(zero_optimization__offload_optimizer__device="cpu"), "--dry-run", *CUDA)
    found = re.search(r"^of the host's memory: (\d+) bytes per rank for offloaded optimizer state, (\d+) page-locked",
                      done.stdout, re.MULTILINE)
    expect(found and int(found[1]) >= 12 * 62006 and int(found[2]) > 0, done.stdout)


@check
def dry_runs():
    for ranks, env in ((Ranks(1), {}), (Ranks(2), ONE_GPU)):
        for sets in (small(), small(bf16__enabled=True, zero_optimization__stage=3)):
            done = train(path("dry"), sets, "--dry-run", *CUDA, ranks=ranks, env=env)
            expect(re.search(r"^cuda, .*sm_\d+.*CUDA \d+\.\d+.*driver", done.stdout, re.MULTILINE), done.stdout)
            expect("activations" in done.stdout, done.stdout)
            expect(not os.path.exists(path("dry")), "a dry run has left something")
    shown = run("train", *train_words(path("dry"), small(), "--print-config", *CUDA, "--no-record"))
    expect_equal(shown.returncode, DONE, shown.stderr)
    expect(re.search(r"device: cuda", shown.stdout) and re.search(r"record: false", shown.stdout), shown.stdout)
    plan = run("train", *train_words(path("dry"), small(), "--dump-plan", *CUDA))
    expect(plan.returncode == DONE and plan.stdout, plan.stderr)


@check
def a_dry_run_refuses_what_a_run_refuses():
    sets = small(communication__share_device=False)
    fails(USAGE, run("train", *train_words(path("dry"), sets, "--dry-run", *CUDA, "--ranks", "2"), env=ONE_GPU),
          "share_device")
    if not REAL:
        fails(MEMORY, run("train", *train_words(path("dry"), small(), "--dry-run", *CUDA),
                          env={"ON_HOST_MEMORY": "1000000"}), "out of memory")


@check
def every_verb_has_its_own_remedy_for_too_little_memory():
    need_stand_in()
    evaluate = ["eval", "--ckpt", os.path.join(unbroken(), "best.bin")]
    step = [*estimate_words(small(train_batch_size=4)), "--ranks", "1", "--windows", "1", "--seconds", "0.001"]
    for words, remedy in (
            (["train", *train_words(path("never"), small(train_batch_size=4))], "train_micro_batch_size_per_gpu or"),
            (evaluate, "--batch-size"), (["bench", "step", *step[1:]], "train_micro_batch_size_per_gpu (--set)"),
            (["bench", "reduce", "--ranks", "1"], "--elements"), (["bench", "update", "--ranks", "1"], "--elements")):
        line = fails(MEMORY, run(*words, *CUDA, env={"ON_HOST_FAIL": "cudaMalloc:2:1"}), "out of memory on GPU 0",
                     " bytes more are needed", "or end other programs on the GPU")
        expect(re.search("; use (a smaller|fewer) " + re.escape(remedy), line), line)
    expect("--batch-size" in fails(MEMORY, run(*evaluate, *CUDA, env={"ON_HOST_MEMORY": "300000"})), evaluate)


main()
