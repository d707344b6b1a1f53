"""The same configuration gives the same bits on any number of ranks, as threads or under mpirun."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import *

# Whatever could depend on who does the work: order, augmentation, clipping, warm-up, accumulation.
SETTINGS = {"train.max_steps": 60, "steps_per_print": 1, "data.shuffle": True, "gradient_clipping": 0.5,
            "data.augment": "[{random_crop: {padding: 4}}, {flip: {p: 0.5}}]", "data.on_corrupt": "skip",
            "train.log_interval": 50}
TEN_MICROS = {**SETTINGS, "train_batch_size": 40}


def data():
    return few(train=1000)  # an epoch is 62 steps


def trained(name, settings, *words, ranks=Ranks(1)):
    done = train(path(name), {**settings, "data.path": data()}, *words, ranks=ranks)
    return done, result(path(name))


@functools.lru_cache(None)
def alone(of=60):
    return trained("alone-%d" % of, SETTINGS if of == 60 else TEN_MICROS)


def same_as_alone(ranks, of=60):
    name = repr(ranks).replace(" ", "") + "-%d" % of
    done, _ = trained(name, SETTINGS if of == 60 else TEN_MICROS, ranks=ranks)
    expect_same_result(path(name), alone(of)[1], ranks)
    expect_equal(done.stdout, alone(of)[0].stdout, "what is printed on stdout must not depend on the ranks")
    return done


@check
def threads_2():
    same_as_alone(Ranks(2))


@check
def threads_4():
    same_as_alone(Ranks(4))


@check
def mpirun_1():
    need_mpi()
    same_as_alone(Ranks(1, mpi=True))


@check
def mpirun_2():
    need_mpi()
    same_as_alone(Ranks(2, mpi=True))


@check
def mpirun_4():
    need_mpi()
    same_as_alone(Ranks(4, mpi=True))


@check
def ten_micro_batches_threads_2():
    same_as_alone(Ranks(2), of=40)


@check
def ten_micro_batches_mpirun_2():
    need_mpi()
    same_as_alone(Ranks(2, mpi=True), of=40)


@check
def the_run_did_something():
    sha, found = alone()[1]
    expect_equal([r["step"] for r in found if r["event"] == "step"], list(range(1, 61)))
    expect_equal([(r["step"], r["images"]) for r in found if r["event"] == "eval"], [(60, 200)])
    expect_equal(weights_sha256(path("alone-60", "last.bin")), sha)
    trained("initial", {**SETTINGS, "train.max_steps": 0})
    expect_equal(weights_sha256(path("alone-60", "ckpt", "step-00000000", "weights.safetensors")),
                 result(path("initial"))[0], "both start from the same weights")
    expect(sha != result(path("initial"))[0], "the weights are still the initial ones")
    losses = [r["loss"] for r in found if r["event"] == "step"]
    expect(sum(losses[-10:]) < sum(losses[:10]), "the loss did not fall", losses)


@check
def another_seed_differs():
    _, other = trained("seed-43", {**SETTINGS, "seed": 43})
    expect(other[0] != alone()[1][0], "seed 43 gives the weights of seed 42")


@check
def few_lines_before_the_first_metric_and_none_twice():
    for ranks in [Ranks(4), Ranks(4, mpi=True)] if has_mpi() else [Ranks(4)]:
        job = start(ranks.words(*train_words(path("lines"), {**SETTINGS, "data.path": data()}, "--reset")),
                    prefix=["sh", "-c", 'exec "$@" 2>&1', "sh"])
        lines = finish(job).stdout.splitlines()
        first = next(i for i, line in enumerate(lines) if line.startswith("["))
        before = [line for line in lines[:first] if line.strip()]
        expect(0 < len(before) <= 40, "%d lines before the first metric with %s" % (len(before), ranks), *before)
        expect_equal(len(set(lines)), len(lines), "a line is repeated with %s" % ranks, *lines)
        shutil.rmtree(path("lines"))


def on_two_hosts(first, second, *words):
    """A rank in each of two working folders, as on hosts of which each has disks of its own."""
    rank = [PROGRAM, *map(str, words)]
    return finish(start(["mpirun", "-np", "1", "-wdir", first, *rank, ":", "-np", "1", "-wdir", second, *rank]))


@check
def ranks_with_other_options_are_refused():
    need_mpi()
    few = train_words(path("options"), {**SETTINGS, "train.max_steps": 2})
    init = ["--init", trained("initial", {**SETTINGS, "train.max_steps": 2})]
    for first, second, named in [(["--dry-run"], [], "--dry-run is not given, but given for rank 0"),
                                 ([], ["--dry-run"], "--dry-run is given, but not given for rank 0"),
                                 ([], ["--reset"], "--reset is given, but not given for rank 0"),
                                 (["--resume", "must"], [], "--resume is 'auto', but 'must' for rank 0"),
                                 (init, [], "--init is not given, but '"),
                                 (init, [*init, "--init-head", "reset"], "--init-head is 'reset', but not given for")]:
        done = finish(start(["mpirun", "-np", "1", PROGRAM, *few, *first, ":", "-np", "1", PROGRAM, *few, *second]))
        fails(USAGE, done, "rank 1 on host", named, "start every rank with the same options")
        expect(not os.path.exists(path("options")), first, second)


@check
def hosts_with_other_files_are_refused():
    need_mpi()
    here, there = path("here"), path("there")
    for host in here, there:
        shutil.copytree(data(), os.path.join(host, "data"))
    words = train_words(path("hosts"), {**SETTINGS, "data.path": "data"}, "--reset")
    trained("other", {**SETTINGS, "train.max_steps": 2, "seed": 43})
    weights = {host: shutil.copy(path("other", name), os.path.join(host, "weights.safetensors"))
               for host, name in ((here, "last.bin"), (there, "ckpt/step-00000000/weights.safetensors"))}
    expect_equal(len(weights), 2)

    def refused(what, *more):
        done = on_two_hosts(here, there, *words, *more)
        expect_equal(done.returncode, USAGE, done.stdout, done.stderr)
        expect_match(done.stderr, "error: rank 1 on host .*: the %s is .*, but .* for rank 0 on host .*; give all hosts the same" % what)
    refused("checksum of 'weights.safetensors'", "--init", "weights.safetensors")
    for host, name in (here, "other"), (there, "alone-60"):
        alone()
        shutil.copytree(path(name), os.path.join(host, "run"))
    refused("checksum of 'run/best.bin'", "--init", "run")
    for name, what in ("test_batch.bin", "images to evaluate"), ("data_batch_1.bin", "training images"):
        with open(os.path.join(there, "data", "cifar-10-batches-bin", name), "r+b") as file:
            file.seek(5)
            file.write(b"other")
        refused("checksum of the " + what)
        shutil.copy(os.path.join(here, "data", "cifar-10-batches-bin", name), os.path.join(there, "data", "cifar-10-batches-bin"))
    shutil.rmtree(os.path.join(there, "data"))
    shutil.copytree(few(train=800), os.path.join(there, "data"))
    refused("number of training images")


main()
