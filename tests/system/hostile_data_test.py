#!/usr/bin/env python3
"""Data that somebody made on purpose, with right checksums: refused with the file's name and the exit code of data, in
bounded time and memory, and nothing is written.

Each file meets one of the verbs that read it, in turn; with CIFAR_TRAIN_FULL all of them."""
import gzip
import io
import os
import sys
import tarfile
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from hostile import *
from png import chunk, png

ARCHIVE = "cifar-10-python.tar.gz"
LINEAR = os.path.join(CONFIGS, "linear.yaml")
SETTINGS = {"data.size": 16, "data.resize": 16, "train_batch_size": 2, "train_micro_batch_size_per_gpu": 2, "train.max_steps": 2,
            "train.eval_batch_size": 2, "data.max_pixels": 1 << 20, "data.augment": "[]"}
PIXELS = 4 << 20  # bytes that a picture of data.max_pixels may need
U32, U64 = (1 << 32) - 1, (1 << 64) - 1


def put(content, *names):
    os.makedirs(os.path.dirname(path(*names)), exist_ok=True)
    return write(path(*names), content)


def try_data(name, cases, place, dataset, least, verbs=("train", "data verify", "data convert", "data info")):
    """cases: {what: what writes the files of a data set into a folder}. `place` is the file in it that each names."""
    trial = Trial()
    written = path("written")

    def words_of(verb, data):
        shutil.rmtree(written, ignore_errors=True)
        os.mkdir(written)
        if verb == "train":
            return train_words(os.path.join(written, "run"), {**SETTINGS, "data.path": data, "data.dataset": dataset}, config=LINEAR)
        if verb == "data convert":
            return ["data", "convert", "--from", data, "--out", os.path.join(written, "a.ctpack" if place != ARCHIVE else "")]
        return [*verb.split(), "--data", data]

    for i, (what, make) in enumerate(cases.items()):
        data = path(name, "%03d" % i)
        make(data)
        for verb in verbs if FULL else [verbs[i % len(verbs)]]:
            size = sum(os.lstat(os.path.join(at, file)).st_blocks * 512 for at, _, files in os.walk(data) for file in files)
            need = trial.need(verb, words_of(verb, path(name, "sound")))
            trial.refused(what, verb, words_of(verb, data), need, size + PIXELS, [place], {DATA})
            # Pictures are decoded when the run reads them; all else is refused before it begins.
            if set(os.listdir(written)) - ({"run"} if dataset == "image_folder" else set()):
                trial.wrong.append("%s: %s: left %s" % (verb, what, os.listdir(written)))
        shutil.rmtree(data)
    trial.end(least)


# ---- packed files

class Packed:
    """The header and the index of a packed file (src/data/packed/format.h), to be changed."""
    HEADER, ENTRY = struct.Struct("<8sIIQQIIQQQ"), struct.Struct("<QIIII")
    FIELDS = ["magic", "version", "header_crc", "file_bytes", "index_bytes", "index_crc", "classes", "train", "test", "text_bytes"]

    def __init__(self, content):
        self.header = dict(zip(self.FIELDS, self.HEADER.unpack(content[:64])))
        count, at = self.header["train"] + self.header["test"], 64
        self.entries = [list(self.ENTRY.unpack_from(content, at + 24 * i)) for i in range(count)]
        at += 24 * count
        self.ends = list(struct.unpack_from("<%dI" % self.header["classes"], content, at))
        at += 4 * self.header["classes"]
        self.text = content[at:at + self.header["text_bytes"]]
        self.pictures = content[at + self.header["text_bytes"]:]

    def content(self, **fields):
        index = b"".join(self.ENTRY.pack(*e) for e in self.entries) + struct.pack("<%dI" % len(self.ends), *self.ends) + self.text
        header = {**self.header, "index_crc": crc32c(index), "header_crc": 0, **fields}
        pack = lambda: self.HEADER.pack(*(header[f] for f in self.FIELDS))
        header["header_crc"] = crc32c(pack())
        return pack() + index + self.pictures


@functools.lru_cache(None)
def sound_folder():
    for split in ("train", "val"):
        for label, name in enumerate(("crab", "gull")):
            for i in range(2):
                put(png(16, 16, bytes([90 * i + 30 * label + (split == "val")]) * 768), "folder", "sound", split, name, "%d.png" % i)
    return path("folder", "sound")


@check
def packed_files_made_on_purpose():
    sound_folder()
    os.makedirs(path("packed", "sound"))
    succeeds("data", "convert", "--from", sound_folder(), "--out", path("packed", "sound", "p.ctpack"))
    content = read(path("packed", "sound", "p.ctpack"))
    cases = {}

    def case(what, make):
        cases[what] = lambda data: (os.makedirs(data), write(os.path.join(data, "p.ctpack"), make(Packed(content))))

    for field, values in {"version": (0, 2, U32), "file_bytes": (0, 64, U64, len(content) - 1, len(content) + 1),
                          "index_bytes": (0, 1, U64, U64 - 63, len(content)), "classes": (0, 1, 3, U32),
                          "train": (0, 3, 5, U32, U64, 1 << 63), "test": (0, 3, 5, U32, U64, 1 << 63, U64 - 3),
                          "text_bytes": (0, 1, U32, U64, 1 << 62)}.items():
        for value in values:
            case("%s %d" % (field, value), lambda p, f=field, v=value: p.content(**{f: v}))
    for at, label, values in ((0, "offset", (0, 64, U64, 1 << 63, len(content), U64 - 10)), (1, "length", (0, U32, len(content))),
                              (2, "checksum", (0,)), (3, "label", (2, U32, 1 << 31)), (4, "name's end", (0, U32, 1 << 31))):
        for value in values:
            for i in (0, 7):
                def entry(p, i=i, at=at, value=value):
                    p.entries[i][at] = value
                    return p.content()
                if at == 2:  # is met when the picture is read
                    continue
                case("%s of picture %d is %d" % (label, i, value), entry)
    for ends in ([0, 8], [8, 4], [4, U32], [U32, 8], [4, 4]):
        case("class names end at %r" % ends, lambda p, e=ends: (setattr(p, "ends", e), p.content())[1])
    for text in (b"\x1b[2", b"\xff" * 4, b"a\nbc", b"\0" * 4, b"\xc0\x80ab", b"\xed\xa0\x80a"):
        case("a class named %r" % text, lambda p, t=text: (setattr(p, "text", t + p.text[4:]), p.content())[1])
    for part in (0, 1, 7, 8, 63, 64, 100):
        case("%d bytes" % part, lambda p, n=part: content[:n])
    case("a terabyte", lambda p: content)
    terabyte = cases.pop("a terabyte")
    cases["a terabyte"] = lambda data: (terabyte(data), os.truncate(os.path.join(data, "p.ctpack"), 1 << 40))
    try_data("packed", cases, "p.ctpack", "auto", 60, ("train", "data verify", "data info"))


# ---- pictures

def picture(width, height, kind=2, depth=8, body=b"", more=b"", interlaced=0):
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, interlaced)) + more +
            chunk(b"IDAT", zlib.compress(body)) + chunk(b"IEND", b""))


def jpeg_frame(width, height, components=3, marker=0xc0):
    frame = struct.pack(">BHHB", 8, height, width, components) + b"".join(bytes([i, 0x11, 0]) for i in range(components))
    return b"\xff\xd8\xff" + bytes([marker]) + struct.pack(">H", 2 + len(frame)) + frame + b"\xff\xda\0\x08\1\0\0\0?\0" + b"\xff\xd9"


@check
def pictures_made_on_purpose():
    bomb = zlib.compress(bytes(100 << 20), 9)
    contents = {
        **{"a png of %d x %d" % size: picture(*size) for size in
           [(0, 16), (16, 0), (1 << 31, 1), (1, 1 << 31), ((1 << 31) - 1, (1 << 31) - 1), (1 << 16, 1 << 16), (1025, 1024), (U32, U32)]},
        "a png of a palette that is missing": picture(16, 16, kind=3, body=bytes(17 * 16)),
        "a png of 3 bits": picture(16, 16, depth=3, body=bytes(17 * 16)),
        "a png of kind 5": picture(16, 16, kind=5, body=bytes(17 * 16)),
        "a png without pixels": picture(16, 16),
        "a png with half of its pixels": picture(16, 16, body=bytes(49 * 8)),
        "an interlaced png of 2^20 rows": picture(1, (1 << 20) + 1, interlaced=1),
        "a png whose profile is a bomb": picture(1 << 20, 2, more=chunk(b"iCCP", b"x\0\0" + bomb)),
        "a png whose text is a bomb": picture(1 << 20, 2, more=chunk(b"zTXt", b"x\0\0" + bomb) * 20),
        "a png whose pixels are a bomb": picture(1 << 20, 2, body=bytes(50 << 20)),
        "a png of a chunk of 2 GiB": b"\x89PNG\r\n\x1a\n" + struct.pack(">I", (1 << 31) - 1) + b"IHDR" + bytes(100),
        **{"a jpeg of %d x %d" % size: jpeg_frame(*size) for size in [(65535, 65535), (0, 16), (16, 0), (65500, 17)]},
        "a progressive jpeg without scans": jpeg_frame(16, 16, marker=0xc2),
        "an arithmetic jpeg": jpeg_frame(16, 16, marker=0xc9),
        "a jpeg of 255 components": jpeg_frame(16, 16, components=255),
        "a jpeg of markers": b"\xff\xd8" + b"\xff\xe0\0\2" * 200000,
        "a jpeg of comments": b"\xff\xd8" + (b"\xff\xfe\xff\xff" + bytes(65533)) * 20,
        **{"a ppm of %s" % size.decode(): b"P6 " + size + b" 255\n" for size in
           (b"0 16", b"99999999999999999999 1", b"4294967297 1", b"1048577 1", b"16 -16")},
        "an empty file": b"", "one byte": b"\xff", "zeros": bytes(4096)}
    cases = {}
    for what, content in contents.items():
        def make(data, content=content):
            shutil.copytree(sound_folder(), data)
            write(os.path.join(data, "train", "gull", "0.png"), content)
        cases[what] = make

    def replaced(data, by):
        shutil.copytree(sound_folder(), data)
        at = os.path.join(data, "train", "gull", "0.png")
        os.remove(at)
        by(at)
    for what, by in {"a pipe": os.mkfifo, "a link to nothing": lambda at: os.symlink("nowhere", at),
                     "a link to itself": lambda at: os.symlink("0.png", at),
                     "a device": lambda at: os.symlink("/dev/zero", at),
                     "a terabyte": lambda at: (write(at, png(16, 16, bytes(768))[:30]), os.truncate(at, 1 << 40))}.items():
        cases[what] = lambda data, by=by: replaced(data, by)
    sound_folder()
    try_data("folder", cases, "0.png", "image_folder", 40, ("train", "data verify", "data convert"))


@check
def a_picture_of_one_long_row():
    """Resized as long as its shorter side asks, it would have more pixels in a row than an int counts."""
    data = path("long", "data")
    shutil.copytree(sound_folder(), data)
    write(os.path.join(data, "train", "gull", "0.png"), b"P6 9000000 1 255\n" + bytes(30))
    settings = {**SETTINGS, "data.path": data, "data.resize": 256, "data.max_pixels": 100000000}
    fails(DATA, run(*train_words(path("long", "run"), settings, config=LINEAR)), "0.png", "9000000")
    skipping = run(*train_words(path("long", "skips"), {**settings, "data.on_corrupt": "skip"}, config=LINEAR))
    expect_equal(skipping.returncode, DONE, skipping.stderr)


# ---- MNIST

@check
def files_of_mnist_made_on_purpose():
    def idx(magic, *sizes, body):
        return struct.pack(">I%dI" % len(sizes), magic, *sizes) + body
    sound = {"train-images-idx3-ubyte": idx(0x803, 4, 28, 28, body=bytes(range(256)) * 12 + bytes(64)),
             "train-labels-idx1-ubyte": idx(0x801, 4, body=bytes(range(4))),
             "t10k-images-idx3-ubyte": idx(0x803, 2, 28, 28, body=bytes(1568)), "t10k-labels-idx1-ubyte": idx(0x801, 2, body=bytes(2))}
    hostile = {"images": [("%s %r" % (what, sizes), idx(magic, *sizes, body=bytes(3136))) for what, magic, *sizes in [
        ("images", 0x803, 0, 28, 28), ("images", 0x803, 5, 28, 28), ("images", 0x803, U32, 28, 28), ("images", 0x803, 4, U32, U32),
        ("images", 0x803, 4, 0, 28), ("images", 0x803, 1 << 31, 1 << 31, 4), ("images", 0x803, 4, 14, 56), ("images", 0x803, 3, 28, 28),
        ("another kind", 0x80d, 4, 28, 28), ("labels as images", 0x801, 3136), ("words", 0x3080000, 4, 28, 28)]],
        "labels": [("labels %r" % (sizes,), idx(0x801, *sizes, body=body)) for sizes, body in [
            ((0,), b""), ((4,), b"\0\1\2\x0a"), ((4,), b"\xff" * 4), ((U32,), bytes(4)), ((4,), bytes(3)), ((4,), bytes(5)), ((1 << 31,), bytes(4))]]}
    for kind in hostile:
        hostile[kind] += [("%d bytes of %s" % (n, kind), bytes(n)) for n in (0, 3, 8, 16)]

    def folder(data, files):
        os.makedirs(os.path.join(data, "mnist"))
        for name, content in files.items():
            write(os.path.join(data, "mnist", name), content)
    folder(path("mnist", "sound"), sound)
    cases = {}
    for kind, files in hostile.items():
        name = next(n for n in sound if n.startswith("train-" + kind))
        for what, content in files:
            cases[what] = lambda data, name=name, content=content: folder(data, {**sound, name: content})
    try_data("mnist", cases, "train-", "mnist", 20, ("train", "data verify", "data convert"))


# ---- CIFAR-10: its binary files and its python archive

@check
def files_of_cifar_made_on_purpose():
    names = ["data_batch_%d.bin" % i for i in range(1, 6)] + ["test_batch.bin"]

    def folder(data, **files):
        os.makedirs(data)
        for i, name in enumerate(names):
            if not os.path.exists(path("cifar", "whole", name)):
                put((bytes([i]) + bytes([i + 1]) * 3072) * 10000, "cifar", "whole", name)
            os.link(path("cifar", "whole", name), os.path.join(data, name))
        for name, make in files.items():
            os.remove(os.path.join(data, name + ".bin"))
            make(os.path.join(data, name + ".bin"))

    def content(what):
        return lambda at: write(at, what)

    whole = 10000 * RECORD
    hostile = {"empty": content(b""), "a byte": content(b"\0"), "a byte less": content(bytes(whole - 1)),
               "a byte more": content(bytes(whole + 1)), "label 10": content(b"\x0a" + bytes(whole - 1)),
               "label 255": content(b"\xff" + bytes(whole - 1)), "a page": content(b"<!DOCTYPE html><html></html>" * 300),
               "a pipe": os.mkfifo, "a folder": os.mkdir, "a link to itself": lambda at: os.symlink("data_batch_2.bin", at),
               "a device": lambda at: os.symlink("/dev/zero", at), "a terabyte": lambda at: (write(at, b""), os.truncate(at, 1 << 40))}
    folder(path("cifar", "sound"))
    cases = {what: (lambda data, make=make: folder(data, data_batch_2=make)) for what, make in hostile.items()}
    try_data("cifar", cases, "data_batch_2.bin", "cifar10", 12, ("train", "data verify", "data convert"))


@check
def archives_made_on_purpose():
    """`data convert` reads a pickle of its own kind alone, and writes nothing that an archive names."""
    def archive(data, members, change=lambda tar: tar):
        """A member's content may be a number of zeros, which are not held in this process: its memory would count."""
        os.makedirs(data)
        with gzip.open(os.path.join(data, ARCHIVE), "wb", compresslevel=1) as file:
            buffer = io.BytesIO()
            with tarfile.open(fileobj=buffer, mode="w") as tar:
                for name, content, *more in members:
                    member = tarfile.TarInfo(name)
                    member.size = content if isinstance(content, int) else len(content)
                    for key, value in dict(*more).items():
                        setattr(member, key, value)
                    tar.addfile(member, io.BytesIO(content) if isinstance(content, bytes) else None)
                    if isinstance(content, int):
                        file.write(buffer.getvalue())
                        for _ in range(content >> 20):
                            file.write(bytes(1 << 20))
                        return
            file.write(change(buffer.getvalue()))
    batch = "cifar-10-batches-py/data_batch_1"
    pickles = {"empty": b"", "code": b"\x80\2cos\nsystem\n(U\7touch x\x85R.", "code by another name": b"\x80\4\x8c\2os\x8c\6system\x93.",
               "deep": b"\x80\2" + b"(" * 4000000, "lists": b"\x80\2" + b"]" * 4000000, "a text of 4 GiB": b"\x80\2}q\1(U\4dataT\xff\xff\xff\xffx",
               "a negative text": b"\x80\2}q\1(U\4dataT\xff\xff\xff\x80x", "protocol 5": b"\x80\5\x95" + b"\xff" * 8,
               "labels alone": b"\x80\2}q\1(U\6labels]q\2(K\1eu.", "a dictionary": b"\x80\2}q\1."}
    cases = {"a pickle: " + what: (lambda data, c=content: archive(data, [(batch, c)])) for what, content in pickles.items()}
    for what, members in {
            "climbs": [("../../escaped", b"x" * 100)], "absolute": [("/tmp/cifar-train-escaped", b"x")], "no member": [],
            "a link": [(batch, b"", {"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"})],
            "a hard link": [(batch, b"", {"type": tarfile.LNKTYPE, "linkname": "/etc/passwd"})],
            "a device": [(batch, b"", {"type": tarfile.CHRTYPE})], "a pipe": [(batch, b"", {"type": tarfile.FIFOTYPE})],
            "names of 100,000 letters": [("cifar-10-batches-py/" + "x" * 100000, b"x")],
            "twice": [(batch, pickles["a dictionary"])] * 2}.items():
        cases["an archive: " + what] = lambda data, m=members: archive(data, m)
    cases["a bomb"] = lambda data: archive(data, [(batch, 1 << 30)])
    cases["a bomb of members"] = lambda data: archive(data, [("cifar-10-batches-py/%d" % i, b"") for i in range(20000)])
    for n in (0, 1, 10, 512):
        cases["%d bytes" % n] = lambda data, n=n: (os.makedirs(data), write(os.path.join(data, ARCHIVE), gzip.compress(bytes(2000))[:n]))
    cases["zeros"] = lambda data: archive(data, [], change=lambda tar: bytes(1 << 20))
    cases["no gzip"] = lambda data: (os.makedirs(data), write(os.path.join(data, ARCHIVE), bytes(10240)))
    for field, at in (("size", 124), ("checksum", 148), ("kind", 156), ("magic", 257)):
        def damaged(data, at=at):
            archive(data, [(batch, b"x" * 600)], change=lambda tar: tar[:at] + b"\xff" * 8 + tar[at + 8:])
        cases["an archive whose %s is damaged" % field] = damaged
    archive(path("archive", "sound"), [(batch, b"")])  # memory of a refusal
    try_data("archive", cases, ARCHIVE, "cifar10", 25, ("data convert",))
    expect(not os.path.exists("/tmp/cifar-train-escaped") and not os.path.exists(path("escaped")), "something was written")


main()
