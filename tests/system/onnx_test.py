"""export --format onnx: what is in the file, read by nothing but the format's description; what is refused; the files
that are kept. Where Python has onnxruntime, numpy and onnx, also its answers for the images of every model, and the
Python program beside the model's file.
"""
import csv
import io
import os
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import *
from png import deep_grey_png, png
from protobuf import message

# The fields of ONNX's messages (onnx.proto) that the program writes; others are an error.
FLOAT, UINT8 = 1, 2
DIMENSION = {1: ("value", "int"), 2: ("param", "text")}
TENSOR_TYPE = {1: ("elem_type", "int"), 2: ("shape", {1: ("dim", [DIMENSION])})}
PORT = {1: ("name", "text"), 2: ("type", {1: ("tensor", TENSOR_TYPE)}), 3: ("doc", "text")}
TENSOR = {1: ("dims", ["int"]), 2: ("type", "int"), 8: ("name", "text"), 9: ("data", "bytes")}
ATTRIBUTE = {1: ("name", "text"), 2: ("f", "float"), 3: ("i", "int"), 8: ("ints", ["int"]), 20: ("type", "int")}
NODE = {1: ("input", ["text"]), 2: ("output", ["text"]), 3: ("name", "text"), 4: ("op", "text"), 5: ("attribute", [ATTRIBUTE])}
GRAPH = {1: ("node", [NODE]), 2: ("name", "text"), 5: ("initializer", [TENSOR]), 11: ("input", [PORT]), 12: ("output", [PORT])}
MODEL = {1: ("ir_version", "int"), 2: ("producer", "text"), 3: ("version", "text"), 6: ("doc", "text"), 7: ("graph", GRAPH),
         8: ("opset", [{2: ("version", "int")}]), 14: ("metadata", [{1: ("key", "text"), 2: ("value", "text")}])}

SETTINGS = {**FEW, "train.epochs": 1, "train.max_steps": 6, "train.eval_batch_size": 50}
SMALL = {"dim": 24, "depth": 2, "heads": 2, "mlp_dim": 20}
TINY = {**SMALL, "dim_head": 8}
FFF = {"ffn": "fff", "fff_depth": 2}
MODELS = {"cnn": {}, "cnn_plain": {}, "linear": {}, "resnet9": {"width": 8}, "airbench": {"width": 8},
          "resnet18": {"width": 8}, "resnet34": {"width": 4, "stem": "imagenet"}, "resnet50": {"width": 4},
          "resnet101": {"width": 4, "zero_init_residual": True}, "resnet152": {"width": 4}, "vit": SMALL, "vit_tiny": TINY,
          "cct": {**SMALL, "convolutions": 2, "kernel": 5}}
REFUSED = {"cnn_moe": ({}, "mixture of experts"), "vit": ({**SMALL, **FFF}, "model.ffn: fff"),
           "vit_tiny": ({**TINY, **FFF}, "model.ffn: fff")}


@functools.lru_cache(None)
def trained(model, keys=(), **changed):
    """The folder of a run."""
    output = path("-".join([model, *map(str, keys), *changed]))
    sets = {**SETTINGS, "data.path": few(), "model.name": model, **{"model." + key: value for key, value in keys}}
    train(output, {**sets, **dotted(changed)})
    return output


def of(model, **changed):
    return trained(model, tuple(MODELS[model].items()), **changed)


def export(out, run_folder, *words):
    return run("export", "--ckpt", run_folder, "--out", out, *words)


def exported(name, run_folder, *words):
    """The file's messages."""
    done = export(path(name), run_folder, *words)
    expect_equal(done.returncode, DONE, done.stderr)
    return message(content_of(path(name)), MODEL)


def content_of(name):
    with open(name, "rb") as file:
        return file.read()


def write(name, content):
    with open(path(name), "wb") as file:
        file.write(content)
    return path(name)


def metadata(model):
    return {entry["key"]: entry["value"] for entry in model["metadata"]}


def shape_of(port):
    return [dim.get("param") or dim["value"] for dim in port["type"]["tensor"]["shape"]["dim"]]


# ---- the file

@check
def a_model_says_what_it_is():
    output = of("cnn")
    model = exported("cnn.onnx", output)
    told, graph = metadata(model), model["graph"]
    expect_equal((model["ir_version"], model["producer"], model["opset"]), (8, "cifar-train", [{"version": 17}]))
    expect(model["version"] in run("--version").stdout, model["version"])
    expect_in("cnn", model["doc"])
    expect_equal(graph["name"], "cnn")
    port, = graph["input"]
    expect_equal((port["name"], port["type"]["tensor"]["elem_type"], shape_of(port)), ("images", UINT8, ["batch", 32, 32, 3]))
    port, = graph["output"]
    expect_equal((port["name"], port["type"]["tensor"]["elem_type"], shape_of(port)), ("probabilities", FLOAT, ["batch", 10]))
    expect_equal([node["op"] for node in graph["node"]],
                 ["Transpose", "Cast", "Mul", "Add", "Conv", "Relu", "MaxPool", "Conv", "Relu", "MaxPool", "Flatten", "Gemm",
                  "Relu", "Gemm", "Relu", "Gemm", "Softmax"])
    expect_equal(graph["node"][4]["name"], "conv1/Conv")
    names = json.loads(told["class_names"])
    expect_equal((names[0], len(names)), ("plane", 10))
    expect_equal(json.loads(told["input_size"]), {"height": 32, "width": 32, "channels": 3})
    expect_equal(json.loads(told["resize"]),
                 {"shorter_side": 32, "filter": "bilinear, antialiased", "crop": 32, "mode": "RGB"})
    expect_equal(json.loads(told["model"])["name"], "cnn")
    expect_equal(told["run"], os.path.basename(output))
    expect_equal(told["weights_sha256"], weights_sha256(os.path.join(output, "best.bin")))


@check
def the_weights_are_those_of_the_safetensors_file():
    for model, changed in [("cnn", {}), ("resnet18", {"train__ema__decay": 0.9}), ("vit_tiny", {"bf16__enabled": "auto"}), ("cct", {})]:
        output = of(model, **changed)
        for words in [["--ema"], ["--no-ema"]] if changed.get("train__ema__decay") else [[]]:
            told = exported("w.onnx", output, *words)
            expect_equal(run("export", output, "--out", path("w.safetensors"), *words).returncode, DONE)
            expected = {name: tensor for name, tensor in safetensors(path("w.safetensors"))[0].items()
                        if not name.endswith("num_batches_tracked")}
            initializers = {tensor["name"]: tensor for tensor in told["graph"]["initializer"]}
            for name, (_, dims, data) in expected.items():
                tensor = initializers[name]
                expect_equal((tensor["type"], tensor.get("dims", [])), (FLOAT, dims), model, name)
                expect(tensor["data"] == data, "%s: other elements of %s" % (model, name))
            others = set(initializers) - set(expected)
            expect(all("/" in name for name in others), "parameters without a name", others)
            expect_equal(metadata(told)["weights_sha256"], weights_sha256(path("w.safetensors")), words)


@check
def every_node_is_named_and_reads_what_is_there():
    for model in MODELS:
        graph = exported("%s.onnx" % model, of(model))["graph"]
        there = {tensor["name"] for tensor in graph["initializer"]} | {"images"}
        names = set()
        for node in graph["node"]:
            expect(set(node["input"]) <= there, node)
            result, = node["output"]
            expect(result not in there and node["name"] not in names, "a name that is taken", node)
            expect_match(node["name"], r"^[\w.]+/[A-Z]\w+$")
            there.add(result)
            names.add(node["name"])
        expect_in("probabilities", there)


@check
def raw_models_and_views():
    output = of("cnn", train__eval_views="mirrored")
    model = exported("raw.onnx", output, "--raw", "--views", "plain")
    expect_equal([port["name"] for port in model["graph"]["output"]], ["logits"])
    expect_equal(model["graph"]["node"][-1]["op"], "Gemm")
    expect_equal(metadata(model)["views"], '"plain"')
    model = exported("views.onnx", output)
    expect_equal(metadata(model)["views"], '"mirrored"')
    expect_in("Concat", [node["op"] for node in model["graph"]["node"]])


# ---- formats and refusals

@check
def the_name_tells_the_format():
    output = of("cnn")
    for out, words in [("of any name", ["--format", "onnx"]), ("CAPITAL.ONNX", [])]:
        expect_equal(exported(out, output, *words)["graph"]["name"], "cnn")
    for out, words, culprit in [("m.safetensors", ["--format", "onnx"], "model.onnx"), ("m.onnx", ["--format", "safetensors"], "model.safetensors"),
                                ("m.pth", [], ".pth"), ("m.pth", ["--format", "onnx"], "model.onnx"), ("m", ["--raw"], "--raw"),
                                ("m.safetensors", ["--views", "plain"], "--views"), ("m", ["--format", "gguf"], "gguf")]:
        fails(USAGE, export(path(out), output, *words), culprit)
        expect(not os.path.exists(path(out)), "a refused file was written")


@check
def networks_that_onnx_cannot_describe_are_refused_by_name():
    for model, (keys, culprit) in REFUSED.items():
        fails(USAGE, export(path("never.onnx"), trained(model, tuple(keys.items()))), model, culprit, "safetensors")
    expect(not os.path.exists(path("never.onnx")) and not os.path.exists(path("never.onnx.py")), "a refused file was written")


# ---- other files

@check
def foreign_files_are_kept():
    output, own = of("cnn"), b"somebody's own\n"
    fails(USAGE, export(write("theirs.onnx", own), output), "theirs.onnx", "not written by this program")
    write("torch.onnx", b"\x08\x07\x12\x07pytorch")
    fails(USAGE, export(path("torch.onnx"), output), "torch.onnx", "not written by this program")
    write("sample.onnx.py", own)
    fails(USAGE, export(path("sample.onnx"), output), "sample.onnx.py", "not written by this program")
    expect(not os.path.exists(path("sample.onnx")), "half of an export")
    for name in ("theirs.onnx", "sample.onnx.py"):
        expect_equal(content_of(path(name)), own)
    exported("own.onnx", output)
    exported("own.onnx", output, "--raw")  # replaces both of its files
    with open(path("own.onnx.py"), "a") as sample:
        sample.write("# edited\n")
    fails(USAGE, export(path("own.onnx"), output), "own.onnx.py", "not written by this program as a file of this kind")
    for ending in (".onx", ".h5", ".txt", ".PT"):
        fails(USAGE, export(path("m" + ending), output), "m" + ending, "model.safetensors or model.onnx")
        expect(not os.path.exists(path("m" + ending)), ending)
    os.makedirs(path("folder.onnx"))
    fails(USAGE, export(path("folder.onnx"), output), "folder.onnx", "names no file")
    fails(USAGE, export(path("no-such-folder", "m.onnx"), output), "no-such-folder")
    fails(USAGE, run("export", "--ckpt", output, "--out", os.path.join(output, "best.bin"), "--format", "onnx"), "best.bin")


@check
def pipes_devices_and_full_disks():
    output = of("cnn")
    exported("whole.onnx", output)
    pipe, received = path("pipe.onnx"), []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: received.append(content_of(pipe)))
    reader.start()
    done = export(pipe, output)
    reader.join()
    expect_equal((done.returncode, done.stdout), (DONE, ""), done.stderr)
    expect(received[0] == content_of(path("whole.onnx")), "another model in a pipe")
    expect(not os.path.exists(pipe + ".py"), "a program beside a pipe")
    done = subprocess.run([PROGRAM, "export", output, "--format", "onnx", "--out", "/dev/stdout"], capture_output=True)
    expect(done.stdout == received[0], "a sentence is mixed with the model")
    fails(IO, export("/dev/full", output, "--format", "onnx"), "/dev/full", "No space left")


@check
def damaged_and_foreign_weights():
    output = of("resnet9")
    whole = content_of(os.path.join(output, "best.bin"))
    places = random.Random(3)
    for at in [0, 9, len(whole) - 1, *(places.randrange(len(whole)) for _ in range(40))]:
        file = write("damaged.bin", whole)
        flip(file, at)
        fails(CHECKPOINT, export(path("never.onnx"), file), "damaged.bin")
        fails(CHECKPOINT, export(path("never.onnx"), write("cut.bin", whole[:at])), "cut.bin")
    tensors, told = safetensors(os.path.join(output, "best.bin"))
    foreign = write_safetensors(path("foreign.safetensors"), tensors)
    fails(CHECKPOINT, export(path("never.onnx"), foreign), "foreign.safetensors", "not written by cifar-train")
    # This program's metadata, as others keep it, and other tensors.
    told = {key: value for key, value in told.items() if "crc32c" not in key}
    name = next(name for name in tensors if name.endswith("weight"))
    dtype, dims, data = tensors[name]
    for changed, culprit in [({name: None}, name), ({name: (dtype, [*dims, 1], data)}, name), ({"more": (dtype, dims, data)}, "more")]:
        kept = {key: value for key, value in {**tensors, **changed}.items() if value}
        fails(CHECKPOINT, export(path("never.onnx"), write_safetensors(path("other.safetensors"), kept, told)), culprit)
    for key in ("cifar_train.sample", "cifar_train.class_names", "cifar_train.model", "cifar_train.normalize"):
        less = {other: value for other, value in told.items() if other != key}
        fails(CHECKPOINT, export(path("never.onnx"), write_safetensors(path("other.safetensors"), tensors, less)), "other.safetensors")
    expect(not os.path.exists(path("never.onnx")) and not os.path.exists(path("never.onnx.py")), "a refused file was written")


# ---- pictures, whose classes have any name

@functools.lru_cache(None)
def of_pictures():
    """The run of a network on pictures of 40 x 30 pixels, and some of these."""
    numbers = random.Random(1)
    files = []
    for name in NAMES:
        folder = path("pictures", name)
        os.makedirs(folder)
        for i in range(8):
            files.append(os.path.join(folder, "%d.png" % i))
            with open(files[-1], "wb") as file:
                file.write(png(40 + i, 30 + 2 * i, numbers.randbytes(3 * (40 + i) * (30 + 2 * i))))
    train(path("of pictures"), {"data.path": path("pictures"), "data.size": 20, "data.resize": 24, "data.validation": 0,
                                "model.name": "resnet9", "model.width": 4, "train_batch_size": 4,
                                "train_micro_batch_size_per_gpu": 4, "train.max_steps": 4})
    return path("of pictures"), files[::5]


NAMES = ['it\'s "quoted"', "back\\slash", "größe 日本"]


@check
def class_names_and_the_resize_rule():
    output, _ = of_pictures()
    told = metadata(exported("pictures.onnx", output))
    expect_equal(sorted(json.loads(told["class_names"])), sorted(NAMES))
    expect_equal(json.loads(told["resize"]),
                 {"shorter_side": 24, "filter": "bilinear, antialiased", "crop": 20, "mode": "RGB"})
    expect_equal(told["run"], "of pictures")


# ---- onnxruntime

def need_onnxruntime():
    try:
        import numpy
        import onnxruntime
    except ImportError as error:
        raise Skip("%s has no onnxruntime and numpy: %s" % (sys.executable, error))
    return numpy, onnxruntime


def predicted(output, images, *words):
    """{image: {class: probability}}"""
    done = succeeds("predict", output, *images, "--csv", "-q", "--top", 10, "--dtype", "fp32", *words)
    rows = list(csv.reader(io.StringIO(done.stdout)))[1:]
    return {row[0]: {name: float(p) for name, p in zip(row[1::2], row[2::2])} for row in rows}


def session_of(name):
    _, onnxruntime = need_onnxruntime()
    session = onnxruntime.InferenceSession(path(name), providers=["CPUExecutionProvider"])
    return session, json.loads(session.get_modelmeta().custom_metadata_map["class_names"])


def largest_difference(name, output, *words):
    """Of probabilities, in batches of 1 and of 20."""
    numpy, _ = need_onnxruntime()
    exported(name, output, *words)
    session, names = session_of(name)
    count = 20
    file = os.path.join(few(), "cifar-10-batches-bin", "test_batch.bin")
    planar = numpy.fromfile(file, numpy.uint8, count * RECORD).reshape(count, RECORD)[:, 1:].reshape(count, 3, 32, 32)
    images = numpy.ascontiguousarray(planar.transpose(0, 2, 3, 1))
    answers = predicted(output, ["cifar10:test:%d" % i for i in range(count)], *words)
    expected = numpy.array([[answer[one] for one in names] for answer in answers.values()])
    whole = session.run(None, {"images": images})[0]
    first = session.run(None, {"images": images[:1]})[0]
    return max(abs(whole - expected).max(), abs(first - expected[:1]).max())


@check
def onnxruntime_answers_as_predict_does():
    need_onnxruntime()
    cases = [(model, of(model), []) for model in MODELS]
    cases += [("shifted", of("airbench", train__eval_views="shifted"), [])]
    averaged = of("resnet18", train__ema__decay=0.9)
    cases += [("ema", averaged, ["--ema"]), ("no-ema", averaged, ["--no-ema"])]
    for name, output, words in cases:
        difference = largest_difference(name + ".onnx", output, *words)
        print("      %-10s %.1e" % (name, difference))
        expect(difference <= 1e-5, name, difference)


@check
def the_checker_of_onnx_accepts_it():
    try:
        import onnx
    except ImportError as error:
        raise Skip("%s has no onnx: %s" % (sys.executable, error))
    for model in MODELS:
        exported("%s.onnx" % model, of(model))
        onnx.checker.check_model(path("%s.onnx" % model), full_check=True)


TALL = [(37, 91), (40, 400), (30, 200), (100, 300)]


@check
def the_python_program_beside_it_runs():
    need_onnxruntime()
    output, files = of_pictures()
    exported("asked.onnx", output)
    noise = random.Random(2).randbytes
    files = [*files, write("deep.png", deep_grey_png(40, 30, noise(2 * 40 * 30))),
             *(write("%dx%d.png" % (w, h), png(w, h, noise(3 * w * h))) for w, h in TALL)]  # some Pillows resize them otherwise
    answers = predicted(output, files)
    done = subprocess.run([sys.executable, path("asked.onnx.py"), *files], capture_output=True, text=True)
    if "No module named 'PIL'" in done.stderr:
        raise Skip("%s has no Pillow" % sys.executable)
    expect_equal(done.returncode, 0, done.stderr)
    for line, (image, answer) in zip(done.stdout.splitlines(), answers.items(), strict=True):
        best = max(answer, key=answer.get)
        expect(line.startswith("%s: %s " % (image, best)), line, answer)
        expect_equal(line[len("%s: %s " % (image, best)):].split(",")[0], "%.4f" % answer[best], line, answer)


main()
