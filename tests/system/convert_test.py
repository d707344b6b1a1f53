"""`data convert`: converts folders of pictures, file lists and CIFAR-10's binary files to one packed file, which is
trained on, and CIFAR-10's python archive to its binary files; faults are one line of error."""
import gzip
import io
import os
import signal
import struct
import sys
import tarfile
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import *
from png import chunk

CLASSES = ["crab", "gull"]
LINEAR = os.path.join(CONFIGS, "linear.yaml")
PICTURES = {"data.size": 16, "data.resize": 16, "train_batch_size": 8, "train_micro_batch_size_per_gpu": 4,
            "train.eval_batch_size": 8, "train.epochs": 8, "train.best.split": "test", "steps_per_print": 1,
            "data.augment": "[{random_resized_crop: {scale: [0.5, 1]}}]"}


def png(width, height, number):
    """A picture: one class is dark on the left, the other on the right; without a number all black."""
    def row(y):
        if number is None:
            return bytes(1 + 3 * width)
        pixels = bytes((200 if (x < width // 2) == bool(number % 2) else 40) + (number * 7 + y) % 40
                       for x in range(width) for _ in range(3))
        return b"\0" + pixels

    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(b"".join(map(row, range(height))))) + chunk(b"IEND", b""))


def write(at, content):
    os.makedirs(os.path.dirname(at), exist_ok=True)
    with open(at, "wb") as file:
        file.write(content)
    return at


def folder(name, train=24, val=8, seed=0):
    for split, count in [("train", train), ("val", val)]:
        for i in range(count):
            write(path(name, split, CLASSES[i % 2], "%03d.png" % i), png(20 + i % 5, 18, i + seed))
    return path(name)


def convert(*words, expecting=DONE):
    done = run("data", "convert", *words)
    expect_equal(done.returncode, expecting, done.stdout, done.stderr)
    return done


def settings(data, **changed):
    return {"data.path": data, **PICTURES, **dotted(changed)}


@functools.lru_cache(None)
def packed():
    """(folder of pictures, its packed file)"""
    source, out = folder("pictures"), path("packed", "a.ctpack")
    done = convert("--from", source, "--out", out)
    expect("24 pictures to train on, 8 to test on" in done.stdout, done.stdout)
    return source, out


@check
def a_third_split_is_not_packed_in_silence():
    source = folder("three", train=8, val=6)
    for i in range(4):
        write(path("three", "test", CLASSES[i % 2], "%03d.png" % i), png(20, 18, i + 50))
    done = convert("--from", source, "--out", path("three.ctpack"))
    expect("8 pictures to train on, 4 to test on" in done.stdout, done.stdout)
    expect("warning: " in done.stderr and "6 validation pictures are not packed" in done.stderr, done.stderr)
    info = succeeds("data", "info", "--data", source).stdout
    expect("8 images to train on, 6 to validate on, 4 to test on" in info, info)
    expect(re.search(r"0  crab +4 +3 +2\n", info), info)


@check
def a_packed_file_is_trained_as_own_pictures_are():
    chosen = [run("config", "show", *words).stdout for words in
              (["--data", packed()[1]], ["--data", packed()[0]], ["--set", "data.path=" + packed()[0]],
               ["--config", "finetune.yaml", "--set", "data.path=" + packed()[0]])]
    keys = [[line.split(":")[0] for line in text.splitlines() if "chosen for these pictures" in line] for text in chosen]
    expect(len(keys[0]) > 5 and all(found == keys[0] for found in keys), *chosen)


@check
def a_packed_folder_trains_as_the_folder_does():
    source, out = packed()
    train(path("run-folder"), settings(source, data__dataset="image_folder"), config=LINEAR)
    done = train(path("run-packed"), settings(out), config=LINEAR)
    expect("data: packed pictures in " + out in done.stderr, done.stderr)
    expect_equal(result(path("run-packed")), result(path("run-folder")))
    # Either is evaluated on the other one's pictures.
    told = [run("eval", "--ckpt", path(name), "--json", *words).stdout for name, words in
            [("run-folder", ()), ("run-folder", ("--data", out)), ("run-packed", ("--data", source))]]
    expect_equal(told[1:], told[:1] * 2)
    expect_equal(json.loads(told[0])["images"], 8)
    expect(records(path("run-packed"), "eval")[-1]["accuracy"] > 0.9, records(path("run-packed"), "eval")[-1])
    # Stopped and continued by more ranks and another number of workers, and evaluated.
    parts = path("run-parts")
    train(parts, settings(out, train__max_steps=4), config=LINEAR, ranks=Ranks(2))
    train(parts, settings(out, data__workers=3), config=LINEAR)
    expect_same_result(parts, result(path("run-packed")))
    evaluated = json.loads(run("eval", "--ckpt", parts, "--json").stdout)
    expect_equal(evaluated["images"], 8)
    # Another folder's pictures do not continue it.
    other = path("other", "b.ctpack")
    convert("--from", folder("others", seed=1), "--out", other)
    words = train_words(parts, settings(other, train__epochs=9), config=LINEAR)
    fails(CHECKPOINT, run("train", *words), "different images", "data.path")


@check
def it_is_described_and_verified():
    _, out = packed()
    info = run("data", "info", "--data", out).stdout
    expect("packed pictures in %s\n24 images to train on, 8 to test on" % out in info, info)
    expect("gull" in info, info)
    verified = run("data", "verify", "--data", path("packed"))
    expect_equal((verified.returncode, verified.stdout.count("  ok\n")), (DONE, 1), verified.stdout, verified.stderr)
    expect("\na.ctpack " in verified.stdout, verified.stdout)
    estimate = run("estimate", "--config", LINEAR, "--set", "data.path=" + out)
    expect("data set: packed pictures" in estimate.stdout, estimate.stdout, estimate.stderr)


@check
def pictures_become_smaller_by_any_number_of_threads():
    source = folder("large", train=9, val=3)
    contents = []
    for threads in (1, 4):
        out = path("small-%d.ctpack" % threads)
        convert("--from", source, "--out", out, "--resize", 12, "--quality", 80, "--threads", threads)
        with open(out, "rb") as file:
            contents.append(file.read())
    expect_equal(hashlib.sha256(contents[0]).hexdigest(), hashlib.sha256(contents[1]).hexdigest())
    expect(contents[0].count(b"JFIF") == 12 and b"IHDR" not in contents[0], "not JPEG throughout")


@check
def damaged_pictures_are_named_and_left_out():
    source = folder("bad", train=10, val=4)
    cut = write(path("bad", "train", "crab", "004.png"), png(20, 18, 4)[:60])
    write(path("bad", "train", "gull", "005.png"), b"text, whatever its name says")
    empty = write(path("bad", "val", "gull", "001.png"), b"")
    out = path("bad.ctpack")
    fails(DATA, run("data", "convert", "--from", source, "--out", out), path("bad"), ".png")
    expect(not os.path.exists(out), "a refused one left its file")
    done = convert("--from", source, "--out", out, "--on-corrupt", "skip")
    expect("left out: %s: " % cut in done.stderr and "005.png: " in done.stderr, done.stderr)
    expect("left out: %s: empty" % empty in done.stderr, done.stderr)
    expect("8 pictures to train on, 3 to test on" in done.stdout and "3 damaged ones are left out" in done.stdout,
           done.stdout)
    fails(DATA, run("data", "convert", "--from", packed()[0], "--out", path("large.ctpack"), "--max-pixels", 100), "000.png",
          "max_pixels")


@check
def only_packed_files_are_replaced():
    source, _ = packed()
    out = path("once.ctpack")
    convert("--from", source, "--out", out)
    fails(USAGE, run("data", "convert", "--from", source, "--out", out), out, "--force")
    convert("--from", source, "--out", out, "--force")
    theirs = write(path("theirs.ctpack"), b"a diary")
    fails(USAGE, run("data", "convert", "--from", source, "--out", theirs, "--force"), theirs, "not a packed file")
    with open(theirs, "rb") as file:
        expect_equal(file.read(), b"a diary")
    os.makedirs(path("folder.ctpack"))
    fails(USAGE, run("data", "convert", "--from", source, "--out", path("folder.ctpack")), "folder.ctpack")
    os.remove(theirs)
    os.rmdir(path("folder.ctpack"))


@check
def a_killed_one_leaves_nothing_in_the_way():
    source = folder("large-ones", train=2, val=2)
    large = write(path("large-ones", "train", "crab", "large.png"), png(3000, 3000, None))
    for i in range(100):
        os.link(large, path("large-ones", "train", "crab", "large-%d.png" % i))
    out = path("killed", "k.ctpack")
    job = start([PROGRAM, "data", "convert", "--from", source, "--out", out])
    temporary, end = path("killed", ".tmp-k.ctpack"), time.monotonic() + 60
    while not os.path.exists(temporary):
        expect(job.poll() is None and time.monotonic() < end, "it ended before it could be killed")
    os.killpg(job.pid, signal.SIGSTOP)
    # Another one beside it is refused.
    second = run("data", "convert", "--from", packed()[0], "--out", path("killed", "l.ctpack"))
    os.killpg(job.pid, signal.SIGKILL)
    expect_equal(finish(job).returncode, -signal.SIGKILL)
    fails(USAGE, second, "another data convert")
    expect_equal(os.listdir(path("killed")), [".tmp-k.ctpack"])
    convert("--from", packed()[0], "--out", out)
    expect_equal(os.listdir(path("killed")), ["k.ctpack"])


@check
def damaged_packed_files_are_refused_by_name():
    _, out = packed()
    with open(out, "rb") as file:
        content = file.read()
    index = bytearray(content)
    index[100] ^= 1
    picture = bytearray(content)
    picture[-40] ^= 1
    for name, damaged, problem in [("cut", content[:len(content) // 2], "truncated"),
                                   ("index", bytes(index), "checksum")]:
        file = write(path("damaged", name, "p.ctpack"), damaged)
        for words in [("train", *train_words(path("out-" + name), settings(file), config=LINEAR)),
                      ("data", "info", "--data", file), ("data", "verify", "--data", os.path.dirname(file))]:
            fails(DATA, run(*words), file, problem, "data convert")
        expect(not os.path.exists(path("out-" + name)), "a refused run left a folder")
    # One picture, of those to test on: found when it is read, unless it may be left out.
    file = write(path("damaged", "picture", "p.ctpack"), bytes(picture))
    fails(DATA, run("data", "verify", "--data", file), file, "007.png", "checksum")
    fails(DATA, run("train", *train_words(path("out-picture"), settings(file), config=LINEAR)), file, "007.png")
    train(path("out-skip"), settings(file, data__on_corrupt="skip"), config=LINEAR)
    expect_equal(records(path("out-skip"), "eval")[-1]["images"], 7)
    # Paths.
    fails(DATA, run("data", "info", "--data", path("nothing.ctpack")), "nothing.ctpack")
    shutil.copy(out, path("damaged", "cut", "q.ctpack"))
    fails(DATA, run("train", *train_words(path("out-two"), settings(path("damaged", "cut")), config=LINEAR)), "several")


@check
def a_file_that_is_written_over_while_training():
    file = path("over", "o.ctpack")
    os.makedirs(path("over"))
    shutil.copy(packed()[1], file)
    output = path("out-over")
    job = start([PROGRAM, "train", *train_words(output, settings(file, train__epochs=10 ** 6), config=LINEAR)])
    end = time.monotonic() + 60
    while not (os.path.exists(os.path.join(output, "metrics.jsonl")) and records(output, "step")):
        expect(job.poll() is None and time.monotonic() < end, "it ended before its time")
    os.truncate(file, 1000)
    fails(DATA, finish(job), file)


# ---- other sources

@check
def file_lists_are_packed():
    source = folder("lists", train=12, val=4)
    for split, name in [("train", "training_file_list.txt"), ("val", "validation_file_list.txt")]:
        lines = ["%s %d\n" % (path("lists", split, c, file), label) for label, c in enumerate(CLASSES)
                 for file in sorted(os.listdir(path("lists", split, c)))]
        write(path("lists", name), "".join(lines).encode())
    write(path("lists", "labels.txt"), b"crab, 0\ngull, 1\n")
    write(path("lists", "label_count.txt"), b"2\n")
    out = path("lists.ctpack")
    done = convert("--from", source, "--out", out)
    expect("12 pictures to train on, 4 to test on" in done.stdout and "file lists" in done.stderr, done.stdout, done.stderr)
    os.rename(path("lists", "labels.txt"), path("lists", "none.txt"))
    fails(DATA, run("data", "convert", "--from", source, "--out", out, "--force"), "labels.txt")
    os.rename(path("lists", "none.txt"), path("lists", "labels.txt"))
    os.rename(path("lists", "training_file_list.txt"), path("lists", "none.txt"))
    fails(DATA, run("data", "convert", "--from", source, "--out", out, "--force"), "has no training_file_list.txt")
    os.rename(path("lists", "none.txt"), path("lists", "training_file_list.txt"))
    with open(path("lists", "training_file_list.txt"), "a") as file:
        file.write("/nowhere/x.png 1\n")
    fails(DATA, run("data", "convert", "--from", source, "--out", out, "--force"), "/nowhere/x.png")
    with open(path("lists", "training_file_list.txt"), "a") as file:
        file.write("x.png 2\n")
    fails(DATA, run("data", "convert", "--from", source, "--out", out, "--force"), "training_file_list.txt: line 14", "label 2")


@check
def binary_files_are_packed_and_keep_their_pixels():
    data = path("small")
    run("data", "synth", "--out", data, "--images", 100)
    out = path("synthetic.ctpack")
    done = convert("--from", data, "--out", out)
    expect("100 pictures to train on, 20 to test on" in done.stdout, done.stdout)
    # Where nothing is resized.
    train(path("run-small"), settings(out, data__size=32, data__resize=32, data__augment="[]", train__max_steps=2),
          config=LINEAR)
    train(path("run-binary"), {**settings(data, data__augment="[]", train__max_steps=2), "data.dataset": "synthetic"},
          config=LINEAR)
    large = train(path("run-large"), settings(out, data__size=64, data__resize=64, data__augment="[]", train__max_steps=1),
                  config=LINEAR)
    expect("train/0 is 32x32 and becomes 64x64: data.size=32 data.resize=32" in large.stderr, large.stderr)
    expect_equal([r["loss"] for r in records(path("run-small"), "step")],
                 [r["loss"] for r in records(path("run-binary"), "step")])


def pickled(labels, pixels):
    """A batch in the format of Python 2 and numpy: pickle protocol 2, opcode by opcode."""
    text = lambda value: b"U" + bytes([len(value)]) + value
    listed = lambda items: b"]q\4" + b"".join(b"(" + b"".join(items[i:i + 1000]) + b"e" for i in range(0, len(items), 1000))
    array = (b"cnumpy.core.multiarray\n_reconstruct\nq\7cnumpy\nndarray\nq\x08K\0\x85q\tU\1b\x87Rq\n(K\1M" +
             struct.pack("<H", len(labels)) + b"M\0\x0c\x86cnumpy\ndtype\nq\x0bU\2u1K\0K\1\x87Rq\x0c(K\3U\1|NNN" +
             b"J\xff\xff\xff\xff" * 2 + b"K\0tb\x89T" + struct.pack("<I", len(pixels)) + pixels + b"tb")
    names = [text(b"picture_s_%06d.png" % i) + b"r" + struct.pack("<I", 13 + i) for i in range(len(labels))]
    return (b"\x80\2}q\1(" + text(b"batch_label") + b"q\2" + text(b"training batch 1 of 5") + b"q\3" +
            text(b"labels") + b"q\4" + listed([b"K" + bytes([label]) for label in labels]) + text(b"data") + b"q\6" + array +
            text(b"filenames") + listed(names) + b"u.")


def named(names):
    text = lambda value: b"U" + bytes([len(value)]) + value
    return (b"\x80\2}q\1(" + text(b"num_cases_per_batch") + b"q\2M\x10'" + text(b"label_names") + b"q\3]q\4(" +
            b"".join(text(n) + b"q" + bytes([5 + i]) for i, n in enumerate(names)) + b"e" + text(b"num_vis") + b"q\x0fM\0\x0cu.")


def archive(at, files):
    with gzip.open(at, "wb", compresslevel=1) as packed_file, tarfile.open(fileobj=packed_file, mode="w") as tar:
        for name, content in files:
            member = tarfile.TarInfo("cifar-10-batches-py/" + name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return at


@check
def the_python_archive_becomes_the_binary_files():
    labels = [i * 7 % 10 for i in range(10000)]
    pixels = b"".join(bytes([i % 256]) * 1536 + bytes([1 + i // 256]) * 1536 for i in range(10000))
    batch = pickled(labels, pixels)
    others = {i: pickled([*labels[:-i], *[i] * i], pixels) for i in (1, 2, 4, 5, 6)}  # as files that are alike are refused
    names = b"airplane automobile bird cat deer dog frog horse ship truck".split()
    files = [("data_batch_4", others[4]), ("readme.html", b"<a>"), ("test_batch", others[6]), ("batches.meta", named(names)),
             *[("data_batch_%d" % i, others.get(i, batch)) for i in (3, 2, 5, 1)]]
    os.makedirs(path("python"))
    whole = archive(path("python", "cifar-10-python.tar.gz"), files)
    convert("--from", path("python"), "--out", path("python"))
    made = path("python", "cifar-10-batches-bin")
    expect_equal(len(os.listdir(made)), 7)
    with open(os.path.join(made, "data_batch_3.bin"), "rb") as file:
        content = file.read()
    expect_equal(len(content), 10000 * RECORD)
    for i in (0, 1, 4321, 9999):
        expect_equal(content[i * RECORD:(i + 1) * RECORD], bytes([labels[i]]) + pixels[3072 * i:3072 * i + 3072])
    verified = run("data", "verify", "--data", path("python"))
    expect_equal((verified.returncode, verified.stdout.count("  ok\n")), (DONE, 6), verified.stdout, verified.stderr)
    fails(USAGE, run("data", "convert", "--from", whole, "--out", path("python")), "exists already")
    shutil.rmtree(made)
    fails(USAGE, run("data", "convert", "--from", whole, "--out", path("python", "x.ctpack")), "give a folder")

    with open(whole, "rb") as file, subprocess.Popen(["cat"], stdin=file, stdout=subprocess.PIPE) as cat:
        end = cat.stdout.fileno()
        done = succeeds("data", "convert", "--from", "/dev/fd/%d" % end, "--out", path("piped"), pass_fds=[end])
    expect_equal(len(os.listdir(path("piped", "cifar-10-batches-bin"))), 7)

    os.truncate(whole, os.path.getsize(whole) // 2)
    fails(DATA, run("data", "convert", "--from", whole, "--out", path("python")), whole, "truncated")
    evil = batch[:200] + b"cos\nsystem\n(U\x0etouch /tmp/evilo" + batch[200:]
    for name, content, problem in [("cut", batch[:1000], "truncated"), ("evil", evil, "opcode 0x63 instead of"),
                                   ("zeros", bytes(1000), "instead of a pickle"), ("empty", b"", "truncated")]:
        bad = archive(path("python", name + ".tar.gz"), [("data_batch_1", content), ("test_batch", batch)])
        fails(DATA, run("data", "convert", "--from", bad, "--out", path("python")), bad, "data_batch_1", problem)
    few = archive(path("python", "few.tar.gz"), [("test_batch", batch)])
    fails(DATA, run("data", "convert", "--from", few, "--out", path("python")), few, "has no")
    expect(not os.path.exists(made), "a refused one left a folder")


@check
def unconvertible_sources_are_named():
    fails(DATA, run("data", "convert", "--from", path("nowhere"), "--out", path("n.ctpack")), path("nowhere"), "no such")
    os.makedirs(path("hollow"))
    fails(DATA, run("data", "convert", "--from", path("hollow"), "--out", path("n.ctpack")), path("hollow"), "train/")
    fails(USAGE, run("data", "convert", "--from", packed()[0], "--out", path("n.zip")), "n.zip", ".ctpack")
    fails(USAGE, run("data", "convert", "--from", packed()[1], "--out", path("n.ctpack")), "already packed")
    for words in [["--quality", 80], ["--quality", 0], ["--resize", -1], ["--threads", 0], ["--on-corrupt", "maybe"]]:
        fails(USAGE, run("data", "convert", "--from", packed()[0], "--out", path("n.ctpack"), *words), words[0])
    expect(not os.path.exists(path("n.ctpack")), "a refused one left its file")


main()
