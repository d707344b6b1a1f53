#!/usr/bin/env python3
"""Checkpoints and weights that somebody made on purpose, with right checksums: refused with their name and the exit code
of checkpoints, in bounded time and memory, and nothing is written outside the run.

Each file meets one of the verbs that read it, in turn; with CIFAR_TRAIN_FULL all of them."""
import copy
import math
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from hostile import *
from torch_files import *

HUGE, LARGEST = 1 << 63, (1 << 64) - 1
DEEP = "[" * 100000


# ---- a run with weights of a few hundred numbers, so that checksums are quick

SETTINGS = {"data.dataset": "image_folder", "data.size": 8, "data.resize": 8, "model.name": "linear", "train_batch_size": 2,
            "train_micro_batch_size_per_gpu": 2, "train.max_steps": 2, "train.epochs": 9, "train.eval_batch_size": 2,
            "optimizer.type": "Adam", "scheduler.params.warmup_num_steps": 2}


@functools.lru_cache(None)
def pictures():
    for split in ("train", "val"):
        for name, colour in (("cat", 40), ("dog", 200)):
            os.makedirs(path("pictures", split, name))
            for i in range(2):
                with open(path("pictures", split, name, "%d.ppm" % i), "wb") as file:
                    file.write(b"P6 8 8 255\n" + bytes([colour + i]) * 192)
    return path("pictures")


def settings():
    return {**SETTINGS, "data.path": pictures()}


@functools.lru_cache(None)
def original():
    train(path("original"), settings())
    return path("original")


def step_folder(run):
    return os.path.join(run, "ckpt", "step-00000002")


# ---- files with right checksums

SEAL = '{"__metadata__":{"header_crc32c":"'


def sealed_text(opening, text, start=b""):
    """`text` with its checksum in place of the digits after the opening."""
    blank = opening + "0" * 8 + text[len(opening) + 8:]
    return opening + "%08x" % crc32c(start + blank.encode(errors="surrogatepass")) + blank[len(opening) + 8:]


def whole(header, body, sealed=True):
    """A file of safetensors from its header, an object or a text."""
    text = header if isinstance(header, str) else json.dumps(header, separators=(",", ":"))
    raw = text.encode(errors="surrogatepass")
    if sealed and text.startswith(SEAL):
        raw = sealed_text(SEAL, text, struct.pack("<Q", len(raw))).encode()
    return struct.pack("<Q", len(raw)) + raw + body


class Weights:
    """The header and the elements of a file, to be changed."""

    def __init__(self, content):
        size, = struct.unpack("<Q", content[:8])
        self.header, self.body = json.loads(content[8:8 + size]), content[8 + size:]
        self.notes = self.header["__metadata__"]

    def names(self):
        return [name for name in self.header if name != "__metadata__"]

    def content(self):
        for name in self.names():
            try:
                begin, end = self.header[name]["data_offsets"]
                self.notes["crc32c." + name] = "%08x" % crc32c(self.body[begin:end])
            except (TypeError, KeyError, ValueError):
                pass
        self.header["__metadata__"] = {"header_crc32c": "00000000", **self.notes}
        return whole({"__metadata__": self.header.pop("__metadata__"), **self.header}, self.body)


def changed(content, change):
    weights = Weights(content)
    result = change(weights)
    return weights.content() if result is None else result


def in_entry(tensor, key, value):
    def change(weights):
        weights.header[tensor][key] = value
    return change


def in_notes(key, value):
    def change(weights):
        if value is None:
            weights.notes.pop(key)
        else:
            weights.notes[key] = value if isinstance(value, str) else json.dumps(value)
    return change


def renamed(tensor, name):
    def change(weights):
        weights.header[name] = weights.header.pop(tensor)
        weights.notes.pop("crc32c." + tensor)
    return change


def elements(tensor, value):
    def change(weights):
        begin, end = weights.header[tensor]["data_offsets"]
        weights.body = weights.body[:begin] + struct.pack("<f", value) * ((end - begin) // 4) + weights.body[end:]
    return change


def body(edit):
    def change(weights):
        weights.body = edit(weights.body)
    return change


def header_text(edit):
    """Changes the text of the header, such as by a second key of a name."""
    def change(weights):
        text = json.dumps({"__metadata__": {"header_crc32c": "00000000", **weights.notes}, **weights.header},
                          separators=(",", ":"))
        return whole(edit(text), weights.body)
    return change


def weights_files():
    """{name: change of a file of weights}. All must be refused by every verb that reads weights."""
    cases = {}
    for tensor in ("linear.weight", "linear.bias"):
        for value in ("F64", "F16", "U8", "I64", "F8_E4M3", "", None, 7, ["F32"], "F32\0"):
            cases["%s of dtype %r" % (tensor, value)] = in_entry(tensor, "dtype", value)
        for value in ([], [2], [2, 191], [192, 2], [2, 193], [-2, -192], [HUGE, 2], [LARGEST], [1 << 32, 1 << 32], [HUGE - 1, 4],
                      [0], [1.5, 256], ["2", 192], [[2], 192], None, 384, {}, [1] * 400, [0, LARGEST], [None]):
            if (tensor, value) != ("linear.bias", [2]):  # which is its own
                cases["%s of shape %.40r" % (tensor, value)] = in_entry(tensor, "shape", value)
        for value in ([0, 0], [4, 8], [0, LARGEST], [LARGEST, 0], [HUGE, HUGE], [8, 0], [-8, 0], [0.0, 8.0], ["0", "8"], [0],
                      [0, 4, 8], None, 8, [0, 1 << 40], [LARGEST - 7, LARGEST]):
            cases["%s at %r" % (tensor, value)] = in_entry(tensor, "data_offsets", value)
        for name in ("../" + tensor, "/etc/passwd", "", "x" * 100000, "a\nb", "\x1b[2J", "conv1.weight", "module.module." + tensor,
                     "é" * 100, "linear..weight", "__metadata", "C:\\w"):
            cases["%s named %.20r" % (tensor, name)] = renamed(tensor, name)
        for value in (math.nan, math.inf, -math.inf):
            cases["%s of %r" % (tensor, value)] = elements(tensor, value)
        cases["%s twice" % tensor] = header_text(lambda text, t=tensor: text[:-1] + ',"%s":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}' % t)
        cases["a key of %s twice" % tensor] = header_text(lambda text, t=tensor: text.replace('"%s":{' % t, '"%s":{"dtype":"U8",' % t))
    for key, values in {
            "cifar_train.model": (None, "", "{", "[]", "7", DEEP, {"name": "no such"}, {"name": 7}, {},
                                  {"name": "vit", "hidden_size": 1 << 20}, {"name": "vit", "hidden_size": HUGE},
                                  {"name": "vit", "patch_size": 0}, {"name": "../linear"}),
            "cifar_train.normalize": (None, "", "[]", {"mean": [0.5]}, {"mean": [], "std": []}, {"mean": [0.5] * 3, "std": [1] * 2}, {"mean": "x", "std": "y"},
                                      {"mean": [1e400] * 3, "std": [1] * 3}, {"mean": [0.5] * 3, "std": [0] * 3},
                                      {"mean": [0.5] * 100000, "std": [1] * 100000}, {"mean": [[1]] * 3, "std": [1] * 3}),
            "cifar_train.class_names": (None, "", "{}", "[]", ["cat"], ["a", "b", "c"], [1, 2], ["x"] * 100000, DEEP, "[\"a\",\"b\""),
            "cifar_train.sample": ("[]", [3, 8], [0, 8, 8], [3, -8, 8], [3, 5000, 8], [3, HUGE, 8], [3, 1e300, 8], ["3", 8, 8]),
            "cifar_train.pictures": ("[]", {"size": 0, "resize": 8}, {"size": 8}, {"size": 1e300, "resize": 1e300},
                                     {"size": 8, "resize": 1 << 40}, {"size": "8", "resize": 8}),
            "cifar_train.eval_batch_size": (None, "", "0", "-1", "x", str(HUGE)),
            "cifar_train.step": (None, "", "x", str(LARGEST), "9" * 100)}.items():
        for value in values:
            cases["%s %.40s" % (key, "missing" if value is None else value)] = in_notes(key, value)
    cases.update({
        "bytes behind": body(lambda b: b + b"x"),
        "cut by one": body(lambda b: b[:-1]),
        "no elements": body(lambda b: b""),
        "a header that is too deep": header_text(lambda text: text[:-1] + ',"a":%s}' % ("[" * 40 + "]" * 40)),
        "a header that is very deep": header_text(lambda text: text[:-1] + ',"a":' + DEEP),
        "a huge header": header_text(lambda text: text + " " * (8 << 20) + "x"),
        "a header of names": header_text(lambda text: text[:-1] + "".join(',"%d":{}' % i for i in range(100000)) + "}"),
        "a note that is no text": header_text(lambda text: text.replace('"format":"pt"', '"format":7')),
        "notes that are a list": lambda w: whole('{"__metadata__":[]}', b""),
        "no notes": lambda w: whole({n: w.header[n] for n in w.names()}, w.body),
        "nothing in it": lambda w: whole("{}", b""),
        "a list": lambda w: whole("[]", b""),
        "a wrong seal": lambda w: whole({"__metadata__": {"header_crc32c": "00000000", **w.notes}}, w.body, sealed=False),
        "half a character": lambda w: whole('{"\udc80":1}', b""),
        "an empty file": lambda w: b"",
        "seven bytes": lambda w: bytes(7),
        **{"a header of %d bytes" % n: (lambda w, n=n: struct.pack("<Q", n) + b"{}") for n in
           (0, 1, 3, 100_000_000, 100_000_001, 1 << 32, HUGE, LARGEST)}})
    return cases


def torch_files():
    """{name: what writes a file of torch.save()}."""
    def saved(**tensors):
        own = {"linear.weight": Tensor("F32", [2, 192], bytes(1536)), "linear.bias": Tensor("F32", [2], bytes(8)), **tensors}
        return lambda file: torch_save(file, own)

    def cut(part):
        def make(file):
            content = read(saved()(file))
            write(file, content[:int(len(content) * part)])
        return make

    def patched(old, new):
        def make(file):
            content = read(saved()(file))
            expect_in(old, content)
            write(file, content.replace(old, new))
        return make

    weight = lambda *args, **more: saved(**{"linear.weight": Tensor(*args, **more)})

    def longer(size):
        """The list of files says that the first storage has so many bytes, and a tensor begins far behind the file's end."""
        def make(file):
            content = read(weight("F32", [2, 192], bytes(1536), first=1 << 27)(file))
            at = content.rindex(b"archive/data/0") - 46
            expect_equal(content[at:at + 4], b"PK\1\2")
            entry = content[at:at + 20] + b"\xff" * 8 + content[at + 28:at + 30] + struct.pack("<H", 20) + content[at + 32:at + 60]
            write(file, content[:at] + entry + struct.pack("<HHQQ", 1, 16, size, size) + content[at + 60:])
        return make

    return {
        "a tensor before its storage": weight("F32", [2, 192], bytes(1536), first=-1),
        "a tensor behind its storage": weight("F32", [2, 192], bytes(1536), first=1),
        "a tensor far behind": weight("F32", [2, 192], bytes(1536), first=(1 << 63) - 1),
        "a storage that goes on behind the file": longer(1 << 31),
        "a storage of nearly 2^64 bytes": longer((1 << 64) - 64),
        "a tensor of 2^62 elements": weight("F32", [1 << 31, 1 << 31], bytes(1536)),
        "a tensor of a negative shape": weight("F32", [-2, -192], bytes(1536)),
        "strides of 0": weight("F32", [2, 192], bytes(1536), strides=(0, 0)),
        "strides of one": weight("F32", [2, 192], bytes(1536), strides=(1,)),
        "negative strides": weight("F32", [2, 192], bytes(1536), strides=(-192, -1)),
        "a shape of 65 dimensions": weight("F32", [1] * 65, bytes(4)),
        "elements of a kind that does not exist": weight("EvilStorage", [2, 192], bytes(1536)),
        "no elements": weight("F32", [2, 192], b""),
        "code that runs": lambda file: torch_save(file, {"w": Called("os", "system", "touch hostile")}),
        "code of a class": lambda file: torch_archive(file, b"\x80\x02cbuiltins\neval\nX\1\0\0\0a\x85R."),
        "a new object": lambda file: torch_archive(file, b"\x80\x02cos\nsystem\n)\x81."),
        "a pickle of lists": lambda file: torch_archive(file, b"\x80\x02" + b"]\x94" * 2000000 + b"."),
        "a pickle of marks": lambda file: torch_archive(file, b"\x80\x02" + b"(" * 4000000 + b"."),
        "a deep pickle": lambda file: torch_archive(file, b"\x80\x02" + b"]" * 200000 + b"a" * 199999 + b"."),
        "a list in itself": lambda file: torch_archive(file, b"\x80\x02]q\0h\0a."),
        "an empty pickle": lambda file: torch_archive(file, b""),
        "a pickle that never ends": lambda file: torch_archive(file, b"\x80\x02}"),
        "no pickle": lambda file: torch_archive(file, b"", without=("data.pkl",)),
        "compressed": lambda file: torch_save(file, {"w": Tensor("F32", [2], bytes(8))}, compression=zipfile.ZIP_DEFLATED),
        "a big-endian machine's": lambda file: torch_save(file, {"w": Tensor("F32", [2], bytes(8))}, byteorder=b"big"),
        "names that climb": patched(b"archive/data/0", b"archive/../../0"),
        "names that are absolute": patched(b"archive/data/0", b"/rchive/data/0"),
        "no folder": patched(b"archive/data.pkl", b"archive_data.pkl"),
        "a directory elsewhere": patched(b"PK\5\6", b"PK\5\5"),
        "an entry elsewhere": patched(b"PK\1\2", b"PK\3\4"),
        "a NaN": weight("F32", [2, 192], struct.pack("<f", math.nan) * 384),
        "halves that do not fit": weight("F64", [2, 192], struct.pack("<d", 1e300) * 384),
        **{"cut at %d %%" % (10 * i): cut(i / 10) for i in range(1, 10)}}


# ---- checkpoints: files that agree with each other, but not with the truth

class Folder:
    """The files of a checkpoint, to be changed; the manifest lists what is there."""

    def __init__(self, run=None):
        at = step_folder(run or original())
        self.files = {name: read(at, name) for name in os.listdir(at)}
        self.manifest = json.loads(self.files.pop("manifest.json"))
        self.state = json.loads(self.files["state.json"])
        self.after = lambda folder: None  # of what is no plain file
        self.text = None                  # of the manifest, where it is not sealed from `manifest`
        self.lists = True                 # lengths and checksums as the files have them

    def write(self, folder):
        os.makedirs(folder)
        if "state.json" in self.files and isinstance(self.state, (dict, list)):
            self.files["state.json"] = json.dumps(self.state).encode()
        for name, content in self.files.items():
            write(os.path.join(folder, name), content)
        parts = self.manifest.get("files", []) if self.lists else []
        for part in parts if isinstance(parts, list) else []:
            if isinstance(part, dict) and part.get("name") in self.files:
                content = self.files[part["name"]]
                part.update(bytes=len(content), crc32c="%08x" % crc32c(content))
        text = json.dumps({**self.manifest, "manifest_crc32c": "00000000"})
        ordered = json.dumps({"manifest_crc32c": "00000000", **{k: v for k, v in self.manifest.items() if k != "manifest_crc32c"}},
                             separators=(",", ":"))
        text = self.text if self.text is not None else ordered
        opening = '{"manifest_crc32c":"'
        write(os.path.join(folder, "manifest.json"), sealed_text(opening, text) if text.startswith(opening) else text)
        self.after(folder)


def manifests():
    cases = {}

    def case(name, **keys):
        def change(folder):
            for key, value in keys.items():
                if value is None:
                    folder.manifest.pop(key)
                else:
                    folder.manifest[key] = value
        cases[name] = change

    def with_part(label, **keys):
        def change(folder):
            folder.lists = False
            part = copy.copy(folder.manifest["files"][0])
            folder.manifest["files"].append({k: v for k, v in {**part, **keys}.items() if v is not None})
        cases[label] = change

    def wrong_part(name, of, **keys):
        def change(folder):
            folder.lists = False
            next(p for p in folder.manifest["files"] if p["name"] == of).update(keys)
        cases[name] = change

    for value in (None, 2, 1 << 40, LARGEST, -1, "1", 1.5, [], {}):
        case("version %r" % value, version=value)
    for value in (None, 3, LARGEST, -1, "2", 2.5, []):
        case("step %r" % value, step=value)
    for key in ("run", "model"):
        for value in (None, 7, "other", [], "../x"):
            case("%s %r" % (key, value), **{key: value})
    for value in (None, {}, [], "x", [7], [{}], [[]]):
        case("files %r" % value, files=value)
    for value in (None, 7, [7], {}):
        case("not_finite %r" % value, not_finite=value)
    for name in ("../weights.safetensors", "/etc/passwd", "", ".", "..", "manifest.json", "weights.safetensors", "optim-01-of-02.safetensors",
                 "optim-00-of-00.safetensors", "optim-01-of-01.safetensors", "optim-0-of-1.safetensors", "optim-00-of-999999.safetensors",
                 "state.json\0", "WEIGHTS.safetensors", "x" * 100000, None, 7):
        with_part("a file named %.40r" % name, name=name)
    for of in ("weights.safetensors", "state.json", "optim-00-of-01.safetensors"):
        for keys in ({"bytes": 0}, {"bytes": 1}, {"bytes": LARGEST}, {"bytes": -1}, {"bytes": "1"}, {"crc32c": "00000000"}, {"crc32c": ""},
                     {"crc32c": "xyz"}, {"crc32c": 7}, {"crc32c": "0" * 9}):
            wrong_part("%s with %r" % (of, keys), of, **keys)
        cases["without " + of] = lambda folder, of=of: folder.files.pop(of) and None
        cases["not listing " + of] = lambda folder, of=of: setattr(folder, "manifest", {
            **folder.manifest, "files": [p for p in folder.manifest["files"] if p["name"] != of]})

        def linked(folder, of=of):
            def after(at):
                os.rename(os.path.join(at, of), os.path.join(at, "..", "elsewhere"))
                os.symlink("../elsewhere", os.path.join(at, of))
            folder.after = after
        cases[of + " as a link"] = linked

        for kind, make in (("folder", os.mkdir), ("pipe", os.mkfifo)):
            def replaced(folder, of=of, make=make):
                def after(at):
                    os.remove(os.path.join(at, of))
                    make(os.path.join(at, of))
                folder.after = after
            cases["%s as a %s" % (of, kind)] = replaced

        def sparse(folder, of=of):
            next(p for p in folder.manifest["files"] if p["name"] == of).update(bytes=1 << 40)
            folder.lists = False
            folder.after = lambda at: os.truncate(os.path.join(at, of), 1 << 40)
        cases[of + " of a terabyte"] = sparse
    for name, text in {"an empty manifest": "", "no manifest": "{", "a deep manifest": '{"manifest_crc32c":"00000000","a":' + DEEP,
                       "a manifest twice": '{"manifest_crc32c":"00000000","version":1,"version":1}'}.items():
        cases[name] = lambda folder, text=text: setattr(folder, "text", text)
    return cases


def states():
    cases = {}
    for key in ("step", "epoch", "batch", "samples", "applied", "skipped", "bad_streak", "best_step", "patience_used", "running_images"):
        for value in (None, "1", 1e300, LARGEST, 1.5, [], True):
            cases["%s %r" % (key, value)] = (key, value)
    for key in ("step", "epoch", "batch", "samples", "applied"):
        for value in (-1, HUGE - 1):
            cases["%s %r" % (key, value)] = (key, value)
    for key, value in (("applied", 0), ("skipped", -3), ("skipped", 1), ("bad_streak", -1),
                       ("epoch_images", -1), ("epoch_images", 1 << 40), ("best_step", 1000), ("loss_scale", 0), ("loss_scale", -1)):
        cases["%s %r" % (key, value)] = (key, value)
    for key in ("loss_scale", "running_loss", "epoch_loss", "best_value", "patience_value"):
        for value in (None, "1", []):
            cases["%s %r" % (key, value)] = (key, value)
    for value in (None, 7, "", "{", "x: &a [*a]", "model: {name: no such}", "model: {name: cnn}\n", "[" * 100000, "\x1b[2J", "seed: 43\n"):
        cases["config %.20r" % value] = ("config", value)
    for key, values in {"ranks": (None, 0, -1, 1e300, "1", 7, 1 << 40), "dataset": (None, 7, "other"), "plans": (None, 7), "device": (None, 7),
                        "data_crc32c": (None, -1, 1 << 32, 1e300, "x", 7), "test_data_crc32c": (None, 7)}.items():
        for value in values:
            cases["%s %r" % (key, value)] = (key, value)

    def change(key, value):
        def of(folder):
            if value is None:
                folder.state.pop(key)
            else:
                folder.state[key] = value
        return of
    found = {name: change(*case) for name, case in cases.items()}
    for name, text in {"a deep state": DEEP, "an empty state": "", "a list": "[]", "a NaN": '{"step": NaN}', "a key twice": '{"step":1,"step":1}'}.items():
        def raw(folder, text=text):
            folder.state = None
            folder.files["state.json"] = text.encode()
        found[name] = raw
    return found


def shards():
    """Changes of the optimizer's file."""
    def of(change):
        def in_folder(folder):
            folder.files["optim-00-of-01.safetensors"] = changed(folder.files["optim-00-of-01.safetensors"], change)
        return in_folder

    def weights(change):
        def in_folder(folder):
            folder.files["weights.safetensors"] = changed(folder.files["weights.safetensors"], change)
        return in_folder

    first = Weights(Folder().files["optim-00-of-01.safetensors"]).names()[0]
    marks = [key for key in Weights(Folder().files["weights.safetensors"]).notes if "run" in key.rsplit(".", 1)[-1]]
    cases = {"no first moment": of(renamed(first, "another")), "a moment that is too short": of(in_entry(first, "shape", [1])),
             "a moment of halves": of(in_entry(first, "dtype", "F16")), "no moments": of(lambda w: whole("{}", b""))}
    for text in ("0:1 of %d" % (HUGE - 1), "1:2 of 2", "0:2 of 2x", "-1:1 of 2", "0:2 of 1", "%d:%d of %d" % (HUGE - 3, HUGE - 1, HUGE - 1), "x"):
        cases["rows %s" % text] = of(in_notes("rows." + first, text))
    for value in (math.nan, math.inf):
        cases["a moment of %r" % value] = of(elements(first, value))
        cases["a weight of %r" % value] = weights(elements("linear.weight", value))
    for key in marks:
        cases["weights of another run by " + key] = weights(in_notes(key, "another"))
    cases["weights of another network"] = weights(renamed("linear.weight", "conv1.weight"))
    return cases


# ---- what is tried

SHOWING = ["ckpt inspect", "ckpt diff"]  # also weights that no network of the program could take
DIFFERENT = 1  # of ckpt diff


def tried(verbs, showing, i):
    """Of those that must refuse a file and those that may show it: all, or for case i one of each."""
    return [*verbs, *showing] if FULL else [some[i % len(some)] for some in (verbs, showing) if some]


def from_weights(output, file, option="--init"):
    return train_words(output, settings(), option, file, "--reset")


def try_weights(cases, suffix, make, verbs, least):
    trial = Trial()
    out = path("out-" + suffix)
    words_of = {
        "eval": lambda file: ["eval", "--ckpt", file],
        "predict": lambda file: ["predict", "--ckpt", file, os.path.join(pictures(), "val", "cat", "0.ppm")],
        "export": lambda file: ["export", "--ckpt", file, "--out", out + ".safetensors"],
        "ckpt inspect": lambda file: ["ckpt", "inspect", file],
        "ckpt diff": lambda file: ["ckpt", "diff", file, sound],
        "--init": lambda file: from_weights(out, file),
        "--pretrained": lambda file: from_weights(out, file, "--pretrained")}
    sound = os.path.join(original(), "last.bin")
    for i, (name, case) in enumerate(cases.items()):
        file = path("hostile" + suffix)
        make(case, file)
        for verb in tried(verbs(name), SHOWING if suffix == ".bin" else [], i):
            words = words_of[verb](file)
            need = trial.need(verb, words_of[verb](sound))
            codes = {CHECKPOINT}
            if re.search(r"nan|inf|NaN", name):
                codes.add(DIVERGED)
            if "class_names" in name:  # fewer or more than the data have: it may be the data that are wrong
                codes.add(DATA)
            reads = [DONE, DIFFERENT] if verb in SHOWING else []
            trial.refused(name, verb, words, need, os.path.getsize(file), ["hostile" + suffix, "linear."], codes, reads)
    trial.end(least)


@check
def weights_made_on_purpose():
    original()
    content = read(original(), "last.bin")

    def verbs(name):
        if name.startswith("cifar_train.") or name == "no notes":
            return ["eval", "predict"]  # the others take files without notes, as other programs write them
        # Which keeps all names and shapes, and only warns of numbers that are none.
        export = [] if re.search(r" named | of -?(nan|inf)$| of shape \[192, 2\]$", name) else ["export"]
        return ["eval", "predict", "--init", *export]
    try_weights(weights_files(), ".bin", lambda change, file: write(file, changed(content, change)), verbs, 150)


@check
def files_of_torch_save_made_on_purpose():
    original()
    try_weights(torch_files(), ".pth", lambda make, file: make(file), lambda name: ["--pretrained", "--init"], 35)


def try_checkpoints(cases, least, verbs):
    trial = Trial()
    for i, (name, change) in enumerate(cases.items()):
        run_folder = path("run")
        shutil.rmtree(run_folder, ignore_errors=True)
        os.makedirs(os.path.join(run_folder, "ckpt"))
        for kept in ("config.yaml", "metrics.jsonl", "metrics.csv", "last.bin"):
            shutil.copy(os.path.join(original(), kept), run_folder)
        folder = Folder()
        change(folder)
        at = step_folder(run_folder)
        folder.write(at)
        words_of = {"--resume": train_words(run_folder, settings(), "--resume", "must"),
                    "--resume PATH": train_words(path("elsewhere"), settings(), "--resume", at),
                    "eval": ["eval", "--ckpt", at], "export": ["export", "--ckpt", at, "--out", path("out.safetensors")],
                    "ckpt verify": ["ckpt", "verify", at], "ckpt ls": ["ckpt", "ls", run_folder],
                    "ckpt inspect": ["ckpt", "inspect", at], "ckpt diff": ["ckpt", "diff", at, step_folder(original())]}
        sound = {verb: [w.replace(at, step_folder(original())) for w in words] for verb, words in words_of.items()}
        sound["--resume"] = sound["--resume PATH"]
        for verb in tried(verbs, [*SHOWING, "ckpt ls"], i):
            need = trial.need(verb, sound[verb])
            shutil.rmtree(path("elsewhere"), ignore_errors=True)
            trial.refused(name, verb, words_of[verb], need, 1 << 20, ["run/ckpt", "state.json", "step-00000002", "different images"],
                          {CHECKPOINT}, [] if verb in verbs else [DONE, DIFFERENT])
    trial.end(least)


@check
def manifests_made_on_purpose():
    try_checkpoints(manifests(), 90, ["--resume", "eval", "--resume PATH", "ckpt verify", "export"])


@check
def states_made_on_purpose():
    try_checkpoints(states(), 100, ["--resume", "--resume PATH"])


@check
def a_header_that_is_longer_than_any_of_a_run():
    trial, file = Trial(), path("long.bin")
    header = b'{"a":[' + b"1," * 10000000 + b"1]}"
    write(file, struct.pack("<Q", len(header)) + header)
    for words in (["ckpt", "inspect", file], ["eval", "--ckpt", file], from_weights(path("out"), file)):
        need = trial.need(words[0], [word.replace(file, os.path.join(original(), "last.bin")) for word in words])
        trial.refused("a long header", words[0], words, need, len(header), ["20000009 bytes, more than the 1000000"], {CHECKPOINT})
    trial.end(3)


@check
def a_record_that_is_longer_than_any_of_a_run():
    """A resume drops it, as it does all that is no record, without reading its numbers into memory."""
    trial, sound, hostile = Trial(), path("sound-records"), path("hostile-records")
    for folder in sound, hostile:
        shutil.copytree(original(), folder)
    records = os.path.join(hostile, "metrics.jsonl")
    before = read(records)
    write(records, before + b'{"event":"step","step":0,"x":[' + b"1," * 10000000 + b"1]}\n")
    size = os.path.getsize(records)
    for words in (["report", hostile, "--text"], train_words(hostile, {**settings(), "train.max_steps": 3})):
        need = trial.need(words[0], [word.replace(hostile, sound) for word in words])
        code, text, memory, _ = trial.start(words)
        expect_equal(code, DONE, text)
        expect(memory < need + MEMORY + size, words, "%d MiB" % (memory >> 20))
    expect(len(read(records)) < 2 * len(before), "the line is still there")


@check
def ckpt_verify_finds_what_a_resume_refuses():
    for key, value in (("running_images", -4), ("samples", 1 << 53), ("ranks", 7), ("step", 1), ("config", "model: {name: no such}")):
        folder = Folder()
        folder.state[key] = value
        at = path("verified", "step-00000002")
        shutil.rmtree(at, ignore_errors=True)
        folder.write(at)
        fails(CHECKPOINT, run("ckpt", "verify", at), "state.json")
    def with_nan(weights):
        begin = weights.header[weights.names()[0]]["data_offsets"][0]
        weights.body = weights.body[:begin] + struct.pack("<f", float("nan")) + weights.body[begin + 4:]
    folder, at = Folder(), path("not-finite", "step-00000002")
    folder.files["weights.safetensors"] = changed(folder.files["weights.safetensors"], with_nan)
    folder.write(at)
    fails(CHECKPOINT, run("ckpt", "verify", at), "not finite (nan), against its manifest")
    train(path("two-shards"), {**settings(), "train_micro_batch_size_per_gpu": 1}, ranks=Ranks(2))
    halved, shard = Folder(path("two-shards")), "optim-01-of-02.safetensors"
    halved.files[shard] = changed(halved.files[shard], with_nan)
    halved.write(path("not-finite-moment", "step-00000002"))
    fails(CHECKPOINT, run("ckpt", "verify", path("not-finite-moment", "step-00000002")), shard + "'", "not finite (nan)")
    whole = path("whole-but-for-one")
    shutil.copytree(original(), whole)
    older = sorted(os.listdir(os.path.join(whole, "ckpt")))[0]
    shutil.rmtree(step_folder(whole))
    folder.write(step_folder(whole))
    good("ckpt", "prune", whole, "--keep", "1")
    expect_in(older, os.listdir(os.path.join(whole, "ckpt")))
    fell_back = run(*train_words(whole, settings()))
    expect_equal(fell_back.returncode, DONE, fell_back.stderr)
    expect_in("against its manifest", fell_back.stderr)
    os.makedirs(path("run-with-link", "ckpt"))
    os.symlink("nowhere", path("run-with-link", "ckpt", "step-00000002"))
    fails(CHECKPOINT, run("ckpt", "verify", path("run-with-link")), "step-00000002")


@check
def shards_made_on_purpose():
    original()
    try_checkpoints(shards(), 10, ["--resume", "--resume PATH"])


main()
