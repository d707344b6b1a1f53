"""predict: the answers of eval on the same images, from files of every format, folders, standard input and data sets."""
import csv
import io
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import *
from png import png

NAMES = "plane car bird cat deer dog frog horse ship truck".split()


@functools.lru_cache(None)
def trained():
    train(path("run"), {**FEW, "data.path": few(), "train.epochs": 2})
    return path("run")


@functools.lru_cache(None)
def evaluated():
    """Name, predicted class and probability of each test image, as eval writes them."""
    succeeds("eval", "--ckpt", trained(), "--predictions", path("p.csv"))
    with open(path("p.csv"), newline="") as file:
        return [(row[0], row[2], row[3]) for row in list(csv.reader(file))[1:]]


def pixels(i):
    """Red, green and blue of each pixel of test image i."""
    with open(os.path.join(few(), "cifar-10-batches-bin", "test_batch.bin"), "rb") as file:
        file.seek(RECORD * i + 1)
        planes = file.read(RECORD - 1)
    return bytes(planes[1024 * c + at] for at in range(1024) for c in range(3))


def table(*words, **options):
    done = succeeds("predict", "--ckpt", trained(), "--csv", *words, **options)
    return list(csv.reader(io.StringIO(done.stdout)))[1:]


def with_input(content, *words):
    return subprocess.run([PROGRAM, "predict", "--ckpt", trained(), *words, "-"], input=content, capture_output=True)


@functools.lru_cache(None)
def pictures():
    """A folder with the first test images as PNG and PPM files at several depths."""
    for i in range(40):
        folder = path("own pictures", "tiefer é" if i % 2 else "")
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "%02d bild ü.%s" % (i, "ppm" if i % 3 == 0 else "png")), "wb") as file:
            file.write(b"P6\n# by hand\n32 32\n255\n" + pixels(i) if i % 3 == 0 else png(32, 32, pixels(i)))
    return path("own pictures")


@check
def answers_are_those_of_eval():
    """The whole test set by its images' names: classes, and probabilities to the last digit."""
    found = [tuple(row[:3]) for row in table("--top", 1, *[name for name, _, _ in evaluated()])]
    expect_equal(len(found), 200)
    expect_equal(found, evaluated())


@check
def cores_share_batches():
    """Thirteen batches: the answers of all cores are those of one, in the same order."""
    words = ["--batch-size", 16, *[name for name, _, _ in evaluated()]]
    core = {min(os.sched_getaffinity(0))}
    expect_equal(table(*words), table(*words, preexec_fn=lambda: os.sched_setaffinity(0, core)))


@check
def a_folders_answers_are_those_of_eval():
    expected = {name.split(":")[2]: rest for name, *rest in evaluated()}
    rows = table("--batch-size", 50, pictures())
    expect_equal(len(rows), 40)
    expect_equal([row[0] for row in rows], sorted(row[0] for row in rows))
    for name, predicted, probability, *_ in rows:
        of = expected[str(int(os.path.basename(name)[:2]))]
        expect_equal([predicted, probability], of, name)
    one = table(rows[7][0])
    expect_equal(one[0][:2], rows[7][:2])
    expect(abs(float(one[0][2]) - float(rows[7][2])) < 1e-5, one, rows[7])


@check
def formats_of_the_output():
    name, predicted, probability = evaluated()[17]
    expect_equal(name, "cifar10:test:17")
    text = succeeds("predict", "--ckpt", trained(), name, "cifar10:train:3").stdout.splitlines()
    expect_equal(len(text), 2)
    expect_match(text[0], r"^cifar10:test:17: %s %.2f %%, \w+ \d+\.\d\d %%, \w+ \d+\.\d\d %%$" % (predicted, 100 * float(probability)))
    lines = [json.loads(line) for line in succeeds("predict", "--ckpt", trained(), "--json", "--top", 99, name, pictures()).stdout.splitlines()]
    expect_equal(len(lines), 41)
    first = lines[0]["predictions"]
    expect_equal(sorted(p["class"] for p in first), sorted(NAMES))
    expect(abs(sum(p["probability"] for p in first) - 1) < 1e-12, first)
    expect_equal([p["probability"] for p in first], sorted((p["probability"] for p in first), reverse=True))
    header = succeeds("predict", "--ckpt", trained(), "--csv", "--top", 2, name).stdout.splitlines()[0]
    expect_equal(header, "image,class_1,probability_1,class_2,probability_2")
    fails(USAGE, run("predict", "--ckpt", trained(), "--csv", "--json", name), "--json")
    sure = [float(row[2]) for row in table("--sort", "uncertain", pictures())]
    expect_equal(sure, sorted(sure))
    expect_equal(sorted(sure), sorted(float(row[2]) for row in table(pictures())))


@check
def a_temperature_changes_probabilities_only():
    plain, warm = table("--top", 10, pictures()), table("--top", 10, "--temperature", 2, pictures())
    for a, b in zip(plain, warm):
        expect_equal(a[:2], b[:2])
        weights = [float(p) ** 0.5 for p in a[2::2]]
        for weight, p in zip(weights, b[2::2]):
            expect(abs(weight / sum(weights) - float(p)) < 1e-9, a, b)
    for wrong in 0, "nan", "inf":
        fails(USAGE, run("predict", "--ckpt", trained(), "--temperature", wrong, pictures()), "--temperature")


@check
def standard_input_holds_a_picture():
    expected = table(os.path.join(pictures(), "02 bild ü.png"))[0]
    for content in (png(32, 32, pixels(2)), b"P6 32 32 255\n" + pixels(2)):
        done = with_input(content, "--csv")
        expect_equal(done.returncode, DONE, done.stderr)
        expect_equal(done.stdout.decode().splitlines()[1].split(","), ["-", *expected[1:]])
    for content, culprit in ((b"no picture", b"not a JPEG, PNG, WebP or PPM"), (b"", b"empty"), (b"P6 32 32 255\n123", b"truncated"),
                             (png(32, 32, pixels(2))[:500], b"truncated"), (b"\x89PNG\r\n\x1a\n" + b"x" * 99, b"'-': "),
                             (b"P6 99999 99999 255\n", b"max_pixels"), (b"P6 0 1 255\n0", b"header")):
        done = with_input(content)
        expect_equal([done.returncode, done.stdout], [DATA, b""], content[:20], done.stderr)
        errors = [line for line in done.stderr.splitlines() if line.startswith(b"error: ")]
        expect(len(errors) == 1 and culprit in errors[0], done.stderr)
    fails(USAGE, run("predict", "--ckpt", trained(), "-", "-"), "give - once")


@check
def larger_pictures_are_resized_and_cropped():
    """A picture of blocks, 64 x 96: its centre has the answer of the middle's blocks."""
    small = pixels(5)
    wide = bytearray()
    for y in range(64):
        row = b"".join(small[3 * (32 * (y // 2) + x):3 * (32 * (y // 2) + x) + 3] * 2 for x in range(32))
        wide += b"\0" * 48 + row + b"\0" * 48
    for name, width, content in (("big.png", 96, bytes(wide)), ("small.png", 32, small)):
        with open(path(name), "wb") as file:
            file.write(png(width, len(content) // 3 // width, content))
    (_, big, big_p, *_), (_, little, little_p, *_) = table(path("big.png"), path("small.png"))
    expect_equal(big, little)
    expect(abs(float(big_p) - float(little_p)) < 0.2, big_p, little_p)


@check
def what_is_left_out_is_named():
    folder = path("mixed")
    os.makedirs(os.path.join(folder, "deep"))
    files = {"a.png": png(32, 32, pixels(0)), "b é.ppm": b"P5 32 32 255\n" + bytes(1024), "notes.txt": b"text", ".DS_Store": b"x",
             "._a.png": b"x", "Thumbs.db": b"x", "bad.jpg": b"no picture", "empty.png": b"", "deep/cut.png": png(32, 32, pixels(1))[:300]}
    for name, content in files.items():
        with open(os.path.join(folder, name), "wb") as file:
            file.write(content)
    os.symlink("..", os.path.join(folder, "deep", "loop"))
    os.symlink("nothing", os.path.join(folder, "gone.png"))
    os.mkfifo(os.path.join(folder, "pipe.png"))
    done = succeeds("predict", "--ckpt", trained(), "--csv", folder)
    expect_equal([line.split(",")[0] for line in done.stdout.splitlines()[1:]], [os.path.join(folder, n) for n in ("a.png", "b é.ppm")])
    left_out = next(line for line in done.stderr.splitlines() if "left out" in line)
    expect(left_out.startswith("10 files are left out: "), left_out)
    for word in ("notes.txt", ".DS_Store", "._a.png", "Thumbs.db", "bad.jpg' (not a JPEG", "empty.png' (empty)", "cut.png' (truncated",
                 "loop' (a link to a folder)", "gone.png' (a link to nothing)", "pipe.png' (not a file)"):
        expect(word in left_out, word, left_out)
    for name in ("a.png", "b é.ppm"):
        os.remove(os.path.join(folder, name))
    fails(DATA, run("predict", "--ckpt", trained(), folder), folder, "no picture in it can be read")


@check
def mistakes_are_named():
    good = os.path.join(pictures(), "02 bild ü.png")
    with open(path("text.jpg"), "w") as file:
        file.write("no picture")
    os.makedirs(path("no pictures"))
    for code, words, culprits in (
            (DATA, [good, path("text.jpg")], ["text.jpg", "not a JPEG, PNG, WebP or PPM file"]),
            (DATA, [path("nowhere.png")], ["nowhere.png", "no such file"]),
            (DATA, [path("no pictures")], ["no pictures", "no picture in it"]),
            (USAGE, ["cifar10:test:200"], ["cifar10:test:200", "the last one is 199"]),
            (USAGE, ["cifar11:test:2"], ["cifar11", "neither a file nor a data set", "cifar10, cifar100"]),
            (DATA, ["cifar10:val:2"], ["cifar10:val:2", "no such file"]),
            (DATA, ["cifar10:test:99999999999999999999"], ["no such file"]),
            (DATA, ["mnist:test:2", "--data", few()], ["mnist"]),
            (DATA, ["cifar10:test:2", "--data", path("no pictures")], ["no pictures"]),
            (USAGE, [], ["IMAGE"]),
            (USAGE, [good, "--sort", "size"], ["--sort"]),
            (USAGE, [good, "--top", "0"], ["--top"])):
        fails(code, run("predict", "--ckpt", trained(), *words), *culprits)
    fails(USAGE, run("predict", good), "--ckpt")
    done = run("predict", "--ckpt", trained(), path("text.jpg"), good, path("nowhere.png"), "--csv")
    fails(DATA, done, "2 of 3 given images cannot be read", "nowhere.png")
    expect_in(good, done.stdout.splitlines()[1])
    expect_in("text.jpg", done.stderr)
    if os.getuid() != 0:
        os.chmod(path("text.jpg"), 0)
        fails(DATA, run("predict", "--ckpt", trained(), path("text.jpg")), "text.jpg", "ermission")


def edited(name, change):
    """A copy of the weights with other metadata."""
    with open(os.path.join(trained(), "best.bin"), "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        header, data = json.loads(file.read(size)), file.read()
    header["__metadata__"] = {key: value for key, value in header["__metadata__"].items() if "crc32c" not in key}
    change(header["__metadata__"])
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path(name), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)
    return path(name)


@check
def weights_must_say_classes_and_size():
    good = os.path.join(pictures(), "02 bild ü.png")
    succeeds("predict", "--ckpt", edited("same.bin", lambda metadata: None), good)
    for name, change in (("no-names.bin", lambda m: m.pop("cifar_train.class_names")), ("no-sample.bin", lambda m: m.pop("cifar_train.sample")),
                         ("no-class.bin", lambda m: m.update({"cifar_train.class_names": "[]"})),
                         ("huge.bin", lambda m: m.update({"cifar_train.sample": "[3,32,99999999]"})),
                         ("words.bin", lambda m: m.update({"cifar_train.sample": "[3,\"a\",1]"}))):
        for verb in (["predict", good], ["eval"]):
            if verb[0] == "eval" and name == "no-sample.bin":
                continue  # eval takes the size of its images
            fails(CHECKPOINT, run(verb[0], "--ckpt", edited(name, change), *verb[1:]), name)
    odd = edited("odd.bin", lambda m: m.update({"cifar_train.sample": "[3,32,16]"}))
    fails(CHECKPOINT, run("predict", "--ckpt", odd, good), "odd.bin", "3x32x16")


@check
def pictures_of_formats():
    """The same picture by Pillow in every format that has no loss, and nearly the same in the others."""
    try:
        from PIL import Image
    except ImportError:
        raise Skip("this Python has no Pillow")
    image = Image.frombytes("RGB", (32, 32), pixels(2))
    expected = table(os.path.join(pictures(), "02 bild ü.png"))[0]
    exact = {"x.png": {}, "x.ppm": {}, "x.webp": {"lossless": True}}
    for name, options in {**exact, "x.jpg": {"quality": 100, "subsampling": 0}, "y.webp": {"quality": 100}}.items():
        image.save(path(name), **options)
        done = run("predict", "--ckpt", trained(), "--csv", path(name))
        if name.endswith(".webp") and "built without libwebp" in done.stderr:
            continue
        expect_equal(done.returncode, DONE, done.stderr)
        row = done.stdout.splitlines()[1].split(",")
        if name in exact:
            expect_equal(row[1:], expected[1:], name)
        else:
            expect(abs(float(row[2]) - float(expected[2])) < 0.2 or row[1] != expected[1], row, expected)


@check
def answers_that_are_not_finite_are_none():
    """Finite weights, whose products overflow."""
    tensors, metadata = safetensors(os.path.join(trained(), "best.bin"))
    name = next(name for name in tensors if name.endswith("fc3.weight"))
    dtype, shape, data = tensors[name]
    tensors[name] = (dtype, shape, struct.pack("<f", 3e38) * (len(data) // 4))
    plain = {key: value for key, value in metadata.items() if "crc32c" not in key}
    large = write_safetensors(path("large.bin"), tensors, plain)
    for words in ([], ["--json"], ["--csv"], ["--sort", "uncertain"]):
        fails(DIVERGED, run("predict", "--ckpt", large, "--data", few(), "cifar10:test:3", *words), large, "not finite")


main()
