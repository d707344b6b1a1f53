"""Files of data and weights that are truncated while they are read, unreadable or missing: one line of error with the
file's name, its own exit code, and no training on lost data."""
import mmap
import os
import resource
import shutil
import struct
import sys

os.environ.setdefault("TMPDIR", "/tmp")
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import *

SETTINGS = {**FEW, "train.epochs": 10 ** 6, "train.save_interval": 1, "train.eval_interval": 10 ** 6,
            "checkpoint.keep_last": 1}
SYNTHETIC = "synthetic-10-batches-bin"


def maps(job, file):
    try:
        with open("/proc/%d/maps" % job.pid) as lines:
            return file in lines.read()
    except OSError:  # it has just ended
        return False


def cut_while_mapped(file, size, *words):
    """Runs the program and truncates the file once it is mapped; returns the finished job."""
    job = start([PROGRAM, *words])
    wait_until(lambda: maps(job, file), job, pause=0)
    os.truncate(file, size)
    return finish(job)


def own_copy(name, source, file=None):
    """A data.path of links to the files of another, with a copy of one file; returns both paths."""
    shutil.copytree(source, path(name), copy_function=os.link)
    folder = os.path.join(path(name), os.listdir(source)[0])
    if file is None:
        return path(name), folder
    victim = os.path.join(folder, file)
    os.remove(victim)
    shutil.copyfile(os.path.join(source, os.path.basename(folder), file), victim)
    return path(name), victim


def sets(data, **changed):
    return {**SETTINGS, "data.path": data, **dotted(changed)}


def lay(name, *files):
    """A data.path with files, or with folders if the names end in a slash."""
    for file in files or ("",):
        target = path(name, file)
        os.makedirs(target if file.endswith("/") or not file else os.path.dirname(target), exist_ok=True)
        if file and not file.endswith("/"):
            with open(target, "wb") as out:
                out.write(b"not read")
    return path(name)


# ---- files cut while they are read

@check
def a_data_file_cut_while_training():
    # Behind the new end there is nothing to read; but the page in which it lies reads as zeros from there on, without
    # a signal: here that is the end of the last image, the others being whole.
    last_image = 400 * RECORD - 300
    cases = [(Ranks(1), 2 * mmap.PAGESIZE), (Ranks(1), last_image), (Ranks(2), 2 * mmap.PAGESIZE)]
    if has_mpi():
        cases.append((Ranks(2, mpi=True), 2 * mmap.PAGESIZE))
    for i, (ranks, size) in enumerate(cases):
        (data, file), output = own_copy("cut-data-%d" % i, few(), "data_batch_1.bin"), path("cut-%d" % i)
        job = start(ranks.words(*train_words(output, sets(data))))
        wait_for_step(output, job, at_least=3)
        os.truncate(file, size)
        done = finish(job)
        fails(DATA, done, file)
        expect("rank 0 was lost" not in done.stderr and "Signal" not in done.stderr, done.stderr)
        # What was saved was learnt from whole images: continued on the restored file, the run is as if never cut.
        step = checkpoints(output)[-1] + 5
        shutil.copyfile(os.path.join(few(), "cifar-10-batches-bin", "data_batch_1.bin"), file)
        train(output, sets(data, train__max_steps=step), ranks=ranks)
        train(path("whole-%d" % i), sets(few(), train__max_steps=step), ranks=ranks)
        expect_same_result(output, result(path("whole-%d" % i)), ranks, size)


@functools.lru_cache(None)
def trained():
    """A run's folder, on the synthetic set."""
    train(path("trained"), {**FEW, "data.path": synthetic(), "train.max_steps": 1, "train.eval_batch_size": 250})
    return path("trained")


@check
def no_set_is_written_into_a_run():
    fails(USAGE, run("data", "synth", "--out", trained()), trained(), "holds a run")
    fails(USAGE, run("data", "synth", "--out", os.path.join(trained(), "config.yaml")), "config.yaml", "is no folder")


@check
def a_killed_process_leaves_no_folder():
    data = path("killed-synth")
    words = [PROGRAM, "data", "synth", "--out", data]
    left = os.path.join(data, ".tmp-%s-0" % SYNTHETIC)

    def age():
        os.utime(left, (time.time() - 120,) * 2)
    for number in range(2):
        job = start(words)
        wait_until(lambda: os.path.isdir(left), job)
        job.kill()
        job.communicate()
        expect_equal(os.listdir(data), [os.path.basename(left)])
        age()
    jobs = [start([*words, "--images", "500"]) for _ in range(6)]
    expect_equal([finish(job).returncode for job in jobs], [DONE] * 6)
    expect_equal(os.listdir(data), [SYNTHETIC])
    shutil.copytree(os.path.join(data, SYNTHETIC), left)
    age()
    expect_equal(finish(start([*words, "--images", "500"])).returncode, DONE)  # the set is there
    expect_equal(os.listdir(data), [SYNTHETIC])


@check
def a_damaged_synthetic_set_is_written_again_by_the_command_that_is_named():
    data = path("damaged-synthetic")
    good("data", "synth", "--images", "500", "--out", data)
    before = snapshot(data)
    file = os.path.join(data, SYNTHETIC, "data_batch_4.bin")

    def folder_instead():
        os.remove(file)
        os.mkdir(file)

    for damage, problem in [(lambda: os.truncate(file, 0), "empty"), (lambda: os.truncate(file, os.path.getsize(file) + 3073), "too long"),
                            (lambda: os.truncate(file, 3073), "truncated"), (folder_instead, "not a file")]:
        damage()
        words = train_words(path("on-damaged"), {**FEW, "data.path": data, "data.dataset": "synthetic"})
        error = fails(DATA, finish(start([PROGRAM, *words])), file + ": " + problem)
        command = error[error.index("cifar-train data synth"):].split()
        expect_equal(command[1:], ["data", "synth", "--out", data, "--images", "500"])
        shutil.rmtree(os.path.join(data, SYNTHETIC))
        good(*command[1:])
        expect_equal(snapshot(data), before)


@check
def the_test_file_cut_while_it_is_evaluated():
    data, file = own_copy("cut-test", synthetic(), "test_batch.bin")
    done = cut_while_mapped(file, 4096, "eval", "--ckpt", trained(), "--data", data, "--batch-size", "1", "--json")
    fails(DATA, done, file)
    expect_equal(done.stdout, "")


@check
def a_data_file_cut_while_it_is_verified():
    data, file = own_copy("cut-verified", synthetic(), "data_batch_1.bin")
    fails(DATA, cut_while_mapped(file, 4096, "data", "verify", "--data", data), file, "while it was in use")


def large_weights(name, elements=1 << 26):
    """A foreign safetensors file without checksums, sparse on disk: reading it takes a while."""
    header = ('{"w":{"dtype":"F32","shape":[%d],"data_offsets":[0,%d]}}' % (elements, 4 * elements)).encode()
    with open(path(name), "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.truncate(8 + len(header) + 4 * elements)
    return path(name)


@check
def weights_cut_while_they_are_read():
    out = path("exported.safetensors")
    for words in [("ckpt", "inspect"), ("export", "--out", out, "--ckpt"), ("ckpt", "diff", large_weights("other"))]:
        file = large_weights("cut.safetensors")
        fails(CHECKPOINT, cut_while_mapped(file, 1 << 20, *words, file), file, "while it was in use")
    expect(not os.path.exists(out), "zeros were exported")


# ---- memory and files that cannot be had

def limited(*limits):
    def set_limits():
        for what, value in limits:
            resource.setrlimit(what, (value, value))
    return set_limits


@check
def too_little_memory_to_map_the_data():
    def starts(mib):
        return run("--version", preexec_fn=limited((resource.RLIMIT_AS, mib << 20))).returncode == DONE
    low, high = 0, 1 << 15  # MiB
    if not starts(high):
        raise Skip("the program needs more than 32 GiB of addresses to start")
    while high - low > 8:
        middle = (low + high) // 2
        low, high = (low, middle) if starts(middle) else (middle, high)
    # Five training files of 29.3 MiB are mapped one after the other: not all of them fit.
    done = run("data", "info", "--data", synthetic(), preexec_fn=limited((resource.RLIMIT_AS, (high + 80) << 20)))
    line = fails(MEMORY, done, "out of memory", "data_batch_")
    expect("delete" not in line and "unpack" not in line, line)
    words = train_words(path("out-memory"), {"data.path": synthetic(), "data.dataset": "synthetic"})
    job = start([PROGRAM, *words], preexec_fn=limited((resource.RLIMIT_AS, (high + 80) << 20)))
    fails(MEMORY, finish(job), "out of memory")


@check
def a_thread_that_cannot_be_had():
    """The limit of processes is below the number of threads: of a rank, or of the watchdog."""
    done = as_nobody([PROGRAM, *train_words(path("out-threads"), {"data.path": few(), **FEW}), "--ranks", "8"],
                     (resource.RLIMIT_NPROC, 1))
    expect_not_in("out of memory", fails(MEMORY, done, "cannot start a thread", "processes (ulimit -u)"))


def as_nobody(words, *limits):
    """Runs as a user without root's rights, which ignore permissions."""
    nobody = 65534
    os.chmod(scratch(), 0o755)

    def become():
        limited(*limits)()
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(nobody)
            os.setuid(nobody)
    if os.geteuid() == 0:
        try:
            if finish(start([PROGRAM, "--version"], preexec_fn=become)).returncode != DONE and not limits:
                raise Skip("nobody cannot run the program")
        except PermissionError:
            raise Skip("the program lies where nobody cannot reach it")
    return finish(start(words, preexec_fn=become))


@check
def class_names_that_cannot_be_read():
    data, folder = own_copy("meta", few())
    meta = os.path.join(folder, "batches.meta.txt")

    def refused(reason, run_it=lambda words: run(*words)):
        for words in [("data", "info", "--data", data), ("data", "verify", "--data", data),
                      ("train", *train_words(path("out-meta"), sets(data)))]:
            line = fails(DATA, run_it(words), "batches.meta.txt", reason)
            expect("not a list" not in line, line)

    os.symlink("batches.meta.txt", meta)
    refused("symbolic link")
    os.remove(meta)
    os.mkdir(meta)
    refused("not a regular file")
    os.rmdir(meta)
    with open(meta, "w") as file:
        file.write("one\n")
    fails(DATA, run("data", "info", "--data", data), "batches.meta.txt", "not a list of 10 class names")
    os.chmod(meta, 0)
    refused("Permission denied", lambda words: as_nobody([PROGRAM, *words]))


@check
def a_data_path_that_cannot_be_looked_at():
    locked, loop = path("locked", "data"), path("loop")
    os.makedirs(locked)
    os.chmod(os.path.dirname(locked), 0)
    os.symlink("loop", loop)
    cases = [(loop, "symbolic link", run), (os.path.join(scratch(), "x" * 256), "shorter path", run),
             (locked, "permission", lambda *words: as_nobody([PROGRAM, *words]))]
    checkpoint = os.path.join(trained(), "best.bin")
    for data, reason, run_it in cases:
        for words in [("train", *train_words(path("out-locked"), sets(data))), ("data", "info", "--data", data),
                      ("data", "verify", "--data", data), ("eval", "--ckpt", checkpoint, "--data", data),
                      ("data", "synth", "--out", data)]:
            fails(DATA, run_it(*words), os.path.basename(data)[:100], reason)
    os.chmod(os.path.dirname(locked), 0o755)


# ---- folders that are not there

@check
def a_data_folder_that_is_not_there():
    typo = path("tpyo")
    training = ("train", *train_words(path("out-typo"), sets(typo, train__max_steps=1)))
    for words in [training, (*training, "--dry-run"), (*training, "--ranks", "2"),
                  ("bench", "--config", DEFAULT, "--set", "data.path=" + typo), ("eval", "--ckpt", trained(), "--data", typo),
                  ("data", "verify", "--data", typo), ("data", "info", "--data", typo)]:
        fails(DATA, run(*words), typo)
        expect(not os.path.exists(typo), "%r made the folder" % (words,))


@check
def a_missing_folder_is_named_with_its_expected_content():
    for dataset, there, absent in [("synthetic", "an existing folder", "cifar-10-batches-bin"),
                                   ("cifar10", "cifar-10-batches-bin/; download", "data synth")]:
        done = train(path("out-absent"), {**FEW, "data.path": path("absent"), "data.dataset": dataset}, expecting=DATA)
        expect(absent not in fails(DATA, done, path("absent"), "no such folder", there), done.stderr)


@check
def the_synthetic_set_is_announced():
    # The shipped folder: a README and hidden files are nothing.
    work = lay("work", "data/README.md", "data/.gitignore")
    small = {**FEW, "data.path": "data", "train.max_steps": 1, "train.eval_batch_size": 250}
    done = finish(start([os.path.abspath(PROGRAM), *train_words("run", small)], cwd=work))
    expect_equal(done.returncode, DONE, done.stderr)
    expect("written to data/" + SYNTHETIC in done.stderr, done.stderr)
    # Weights say where their run had its images: gone, the set is made in memory, and nothing on disk.
    shutil.rmtree(os.path.join(work, "data"))
    evaluated = run("eval", "--ckpt", os.path.join(work, "run"), "--json")
    expect_equal(evaluated.returncode, DONE, evaluated.stderr)
    expect("synthetic-10 in memory" in evaluated.stderr, evaluated.stderr)
    expect(not os.path.exists(os.path.join(work, "data")), "eval wrote a data set")
    wanted = records(os.path.join(work, "run"), "eval")[-1]
    expect_equal(json.loads(evaluated.stdout)["accuracy"], wanted["accuracy"])


@check
def a_refused_run_leaves_no_synthetic_set():
    data = path("untouched")
    os.mkdir(data)

    made = {**FEW, "data.path": data, "data.dataset": "synthetic", "train.max_steps": 1}

    def refused(code, changed, *words, culprits=()):
        failed = train(path("refused-run"), {**made, **changed}, *words, expecting=code)
        fails(code, failed, *culprits)
        expect_equal(os.listdir(data), [], changed, words)

    refused(USAGE, {"data.augment": "[{cutout: {length: 65}}]"}, culprits=["cutout.length", "64", "3x32x32"])
    refused(USAGE, {"train_batch_size": 60000}, culprits=["train_batch_size", "50000"])
    refused(USAGE, {"data.limit": 50001}, culprits=["data.limit"])
    refused(CHECKPOINT, {}, "--resume", "must", culprits=["--resume must"])
    refused(USAGE, {}, "--init", path("no-such.safetensors"), culprits=["no-such.safetensors"])
    with open(path("theirs.safetensors"), "wb") as file:
        file.write(b"not weights")
    refused(CHECKPOINT, {}, "--init", path("theirs.safetensors"), culprits=["theirs.safetensors"])
    os.makedirs(path("theirs"))
    with open(path("theirs", "config.yaml"), "w") as file:
        file.write("mine: 1\n")
    refused(USAGE, {"output": path("theirs")}, culprits=["config.yaml"])
    dry = run("train", *train_words(path("dry"), made, "--dry-run"))
    expect_equal((dry.returncode, os.listdir(data)), (DONE, []), dry.stderr)
    # Half a folder of pictures is no place for it.
    for there, missing, key in [("train", "val", "data.val"), ("val", "train", "data.train")]:
        half = path("half-" + there)
        os.makedirs(os.path.join(half, there, "ant"))
        fails(DATA, train(path("refused-run"), {**FEW, "data.path": half}, expecting=DATA), half,
              "%s/ but no %s/" % (there, missing), key, "data.dataset: synthetic")
        told = run("estimate", "--config", DEFAULT, "--set", "data.path=" + half)
        expect(told.returncode == DONE and "on this host a run would be refused" in told.stderr and key in told.stderr, told.stderr)
        expect_equal(os.listdir(half), [there])
    # What is accepted gets it, also by ranks that only wait for it.
    train(path("accepted"), made, ranks=Ranks(2))
    expect_equal(os.listdir(data), [SYNTHETIC])
    again = path("accepted-again")
    train(again, made)
    expect_same_result(again, result(path("accepted")))


# ---- folders that hold something else

def what_lies_there(data):
    return sorted(os.path.join(folder, name) for folder, below, files in os.walk(data) for name in below + files)


@check
def a_file_of_cifar_that_is_something_else_is_named():
    for content, word in (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS"), (b"<html>", "web page"):
        data, file = own_copy("pointer" if word == "Git LFS" else "page", few(), "data_batch_1.bin")
        with open(file, "wb") as out:
            out.write(content)
        for words in [("train", *train_words(path("out-pointer"), sets(data))), ("data", "verify", "--data", data),
                      ("data", "info", "--data", data)]:
            line = fails(DATA, run(*words), "data_batch_1.bin", word)
            expect("unpack" not in line, line)  # one remedy is enough


@check
def existing_data_is_used_or_refused_by_name():
    unpack = "unpack it with: tar -xf"
    cases = [
        (["cifar-10-binary.tar.gz"], "{}/cifar-10-binary.tar.gz", unpack),
        (["Training/ant/", "Testing/ant/"], "data.train='{}/Training' data.val='{}/Testing'"),
        (["Train/ant/", "Val/ant/"], "data.train='{}/Train' data.val='{}/Val'"),
        (["test/ant/"], "has test/ but no train/", "data.train"),
        (["dataset/train/ant/", "dataset/val/ant/"], "did you mean data.path={}/dataset"),
        (["x/dataset/Training/", "x/dataset/Validation/"], "data.train='{}/x/dataset/Training' data.val='{}/x/dataset/Validation'"),
        (["sets/cifar-10-batches-bin/data_batch_1.bin"], "did you mean data.path={}/sets"),
        (["ILSVRC2012_img_train.tar", "ILSVRC2012_img_val.tar"], "tar -xf", "-C '{}/train', and unpack each tar"),
        (["ILSVRC2012_img_val.tar"], "tar -xf", "-C '{}/val', and move each picture into the folder of its class"),
        (["MNIST/raw/train-images-idx3-ubyte.gz"], "data.path={}/MNIST/raw data.dataset=mnist"),
        (["data/train-00000-of-00001.parquet", "README.md"], "Parquet", "train/CLASS/"),
        (["a.jpg", "b.jpg"], "'a.jpg' is directly in it", "a folder of its own"),
        (["photos.zip"], "unpack it with: unzip"),
        (["imagenette2.tgz", "imagenette2/train/ant/", "imagenette2/val/ant/"], "did you mean data.path={}/imagenette2"),
        (["ILSVRC2012_img_val.tar", "train/n01494475/"], "mkdir -p '{}/val' && tar -xf '{}/ILSVRC2012_img_val.tar'"),
        (["notes.txt"], "{}: holds no data set, only 'notes.txt'"),
        (["readme.txt"], "{}: holds no data set, only 'readme.txt'"),
        ([".DS_Store"], "{}: is empty"), ([], "{}: is empty", "cifar-10-batches-bin/")]
    best = os.path.join(trained(), "best.bin")
    for i, (files, *words) in enumerate(cases):
        data = lay("lies-%d" % i, *files)
        before, words = what_lies_there(data), [word.replace("{}", data) for word in words]
        fails(DATA, train(path("out-lies"), {"data.path": data, "train.max_steps": 1}, "-q", expecting=DATA), data, *words,
              "or set data.dataset: synthetic")
        fails(DATA, run("eval", "--ckpt", best, "--data", data), data, "no synthetic-10")
        expect_equal(what_lies_there(data), before)
    # An archive that is named itself, and sets that are asked for by name.
    archive = os.path.join(path("lies-0"), "cifar-10-binary.tar.gz")
    fails(DATA, train(path("out-lies"), {"data.path": archive}, expecting=DATA), archive, unpack)
    for dataset, i, word in [("cifar10", 0, unpack), ("image_folder", 1, "data.train="), ("image_folder", 4, "data.path="),
                             ("mnist", 9, "data.path=")]:
        done = train(path("out-lies"), {"data.path": path("lies-%d" % i), "data.dataset": dataset}, expecting=DATA)
        expect("data.dataset: synthetic" not in fails(DATA, done, word), done.stderr)
        fails(DATA, run("data", "verify", "--data", path("lies-%d" % i), "--dataset", dataset), word)


@check
def the_synthetic_set_is_never_written_into_others_folders():
    others = lay("others", "photos/ant/a.jpg")
    before = what_lies_there(others)
    small = {**FEW, "train.max_steps": 1, "train.eval_batch_size": 250}
    done = train(path("beside-others"), {**small, "data.path": others, "data.dataset": "synthetic"})
    expect("in memory (%s contains other files" % others in done.stderr, done.stderr)
    expect_equal(what_lies_there(others), before)
    # Nor into the shipped folder, where it is another's.
    work = lay("work-with-tables", "data/a.csv")
    done = finish(start([PROGRAM, *train_words("run", {**small, "data.path": "data"})], cwd=work))
    fails(DATA, done, "data: holds no data set", "data.dataset: synthetic")
    expect_equal(os.listdir(os.path.join(work, "data")), ["a.csv"])


# ---- numbers

@check
def whole_numbers_beyond_64_bits():
    large = "99999999999999999999"
    yaml, as_json = path("large.yaml"), path("large.json")
    rest = '"train_batch_size": 4, "optimizer": {"type": "SGD", "params": {"lr": 0.1}}'
    for name in (yaml, as_json):
        with open(name, "w") as file:
            file.write('{%s, "gradient_clipping": %s}\n' % (rest, large))
    for words in [("--config", yaml), ("--config", as_json),
                  ("--config", DEFAULT, "--set", "gradient_clipping=" + large)]:
        done = succeeds("train", *words, "--print-config")
        expect("gradient_clipping: 1e+20" in done.stdout, done.stdout)
    for key, number, problem in [("gradient_clipping", "-" + large, "at least 0"), ("seed", large, "'%s'" % large),
                                 ("seed", "-" + large, "'-%s'" % large)]:
        done = run("train", "--config", DEFAULT, "--set", "%s=%s" % (key, number), "--print-config")
        fails(USAGE, done, key, problem)
    with open(as_json, "w") as file:
        file.write('{%s, "seed": %s}\n' % (rest, large))
    fails(USAGE, run("train", "--config", as_json, "--print-config"), "seed", large, "large.json:1:")


main()
