"""eval explains its figure: scores by class, confusions, calibration, temperature; as text, JSON and tables.

Every figure is computed again here from the table of predictions, and by scikit-learn where Python has it.
"""
import csv
import math
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import *

NAMES = "plane car bird cat deer dog frog horse ship truck".split()


def settings(**changed):
    return {**FEW, "data.path": few(), "train.epochs": 2, "data.validation": 80, **dotted(changed)}


@functools.lru_cache(None)
def trained():
    expect_equal(train(path("run"), settings()).returncode, DONE)
    return path("run")


def rows(name):
    with open(name, newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


@functools.lru_cache(None)
def evaluated():
    """The JSON record, the table of predictions and that of confusions of one evaluation."""
    done = succeeds("eval", "--ckpt", trained(), "--json", "--temperature", "--confusion", path("c.csv"),
                    "--predictions", path("p.csv"))
    return json.loads(done.stdout), rows(path("p.csv")), rows(path("c.csv"))


@check
def each_table_needs_its_own_file():
    os.symlink("both.csv", path("link.csv"))
    os.symlink(".", path("self"))
    for other in "./both.csv", "link.csv", "self/both.csv", "self/link.csv":
        done = run("eval", "--ckpt", trained(), "--confusion", path(other), "--predictions", path("both.csv"))
        expect_equal((done.returncode, os.path.exists(path("both.csv"))), (USAGE, False), done.stderr)
        expect_match(done.stderr, "^error: --confusion and --predictions both name .*: give each its own file\n$")


def near(found, expected, *what):
    expect(abs(found - expected) <= 1e-9, found, expected, *what)


def quotient(part, whole):
    return part / whole if whole else 0


@check
def scores_are_those_of_the_predictions():
    record, (header, *predictions), (top, *counts) = evaluated()
    expect_equal(header, "image,label,predicted,probability,label_probability".split(","))
    expect_equal(len(predictions), record["images"])
    expect_equal([p[0] for p in predictions], ["cifar10:test:%d" % i for i in range(200)])
    pairs = [(p[1], p[2]) for p in predictions]
    expect_equal(top, ["label \\ predicted", *NAMES])
    for label, row in zip(NAMES, counts):
        expect_equal(row, [label, *[str(pairs.count((label, c))) for c in NAMES]])
    expect_equal(len(record["classes"]), 10)
    occurring = []
    for name, found in zip(NAMES, record["classes"]):
        right = pairs.count((name, name))
        support, predicted = sum(p[0] == name for p in pairs), sum(p[1] == name for p in pairs)
        expect_equal([found["name"], found["support"]], [name, support])
        near(found["precision"], quotient(right, predicted), name)
        near(found["recall"], quotient(right, support), name)
        near(found["f1"], quotient(2 * right, predicted + support), name)
        occurring += [found] if support + predicted else []
    for key in ("precision", "recall", "f1"):
        near(record["mean"][key], sum(c[key] for c in occurring) / len(occurring), key)
        near(record["weighted_mean"][key], sum(c[key] * c["support"] for c in occurring) / len(pairs), key)
    near(record["weighted_mean"]["recall"], record["accuracy"])
    mistakes = sorted({p for p in pairs if p[0] != p[1]}, key=lambda p: (-pairs.count(p), NAMES.index(p[0]), NAMES.index(p[1])))
    expect_equal([(c["label"], c["predicted"], c["images"]) for c in record["confusions"]],
                 [(*p, pairs.count(p)) for p in mistakes[:5]])


@check
def the_calibration_error_is_that_of_the_predictions():
    record, (_, *predictions), _ = evaluated()
    bins = {}
    for _, label, predicted, probability, of_label in predictions:
        expect(0 < float(of_label) <= float(probability) <= 1, probability, of_label)
        expect(label != predicted or probability == of_label)
        bins.setdefault(math.ceil(float(probability) * 15), []).append((float(probability), label == predicted))
    distance = sum(abs(sum(right for _, right in b) - sum(p for p, _ in b)) for b in bins.values())
    near(record["ece"], distance / len(predictions))
    loss = sum(-math.log(float(p[4])) for p in predictions) / len(predictions)
    expect(abs(record["loss"] / loss - 1) < 1e-6, record["loss"], loss)  # an image's loss is f32


@check
def scikit_learn_agrees():
    try:
        from sklearn.metrics import confusion_matrix, precision_recall_fscore_support
    except ImportError:
        raise Skip("this Python has no scikit-learn")
    record, (_, *predictions), (_, *counts) = evaluated()
    labels, answers = [p[1] for p in predictions], [p[2] for p in predictions]
    expect_equal(confusion_matrix(labels, answers, labels=NAMES).tolist(), [list(map(int, row[1:])) for row in counts])
    scores = precision_recall_fscore_support(labels, answers, labels=NAMES, zero_division=0)
    for key, values in zip(("precision", "recall", "f1", "support"), scores):
        for found, value in zip(record["classes"], values):
            near(found[key], value, found["name"], key)
    for mean, name in (("macro", "mean"), ("weighted", "weighted_mean")):
        for key, value in zip(("precision", "recall", "f1"), precision_recall_fscore_support(labels, answers, average=mean, zero_division=0)):
            near(record[name][key], value, name, key)


@check
def the_text_follows_the_tutorials_lines():
    record, _, _ = evaluated()
    lines = succeeds("eval", "--ckpt", trained(), "-q").stdout.splitlines()
    at = next(i for i, line in enumerate(lines) if "precision" in line)
    expect_equal([line.split(" : ")[0] for line in lines[4:at]], ["Accuracy of %5s" % name for name in NAMES])
    for line, of in zip(lines[at + 1:at + 11], record["classes"]):
        expect_equal(line.split(), [of["name"], *["%.2f" % (100 * of[k]) for k in ("precision", "recall", "f1")], str(of["support"])])
    expect(lines[at + 11].strip().startswith("mean "), lines[at + 11])
    expect(lines[at + 12].startswith("weighted mean "), lines[at + 12])
    first = record["confusions"][0]
    expect_match(lines[at + 13], r"^%s taken for %s: %d of \d+ images, " % (first["label"], first["predicted"], first["images"]))
    expect_equal(lines[-1], "Calibration error (ECE, 15 bins): %.2f %%" % (100 * record["ece"]))


@check
def the_temperature_is_the_best_on_validation_images():
    """On other temperatures the loss of the validation images is larger."""
    record, _, _ = evaluated()
    fitted = record["temperature"]
    expect_equal(fitted["images"], 80)
    own = json.loads(succeeds("eval", "--ckpt", trained(), "--json", "--temperature", "--split", "val").stdout)
    expect_equal(own["temperature"]["value"], fitted["value"])
    expect(own["temperature"]["loss"] < own["loss"], own)
    done = succeeds("eval", "--ckpt", trained(), "-q", "--temperature")
    expect_match(done.stdout.splitlines()[-1], r"^Temperature %.4g, fitted on 80 validation images: loss \d" % fitted["value"])
    train(path("no-val"), settings(data__validation=0))
    fails(USAGE, run("eval", "--ckpt", path("no-val"), "--temperature"), "--temperature", "held none out", "train with data.validation")


@check
def tables_replace_only_tables():
    before = rows(path("p.csv")) if evaluated() else None
    succeeds("eval", "--ckpt", trained(), "--predictions", path("p.csv"), "--confusion", path("c.csv"))
    expect_equal(rows(path("p.csv")), before)
    with open(path("mine.csv"), "w") as file:
        file.write("a,b\n1,2\n")
    for option in ("--predictions", "--confusion"):
        fails(USAGE, run("eval", "--ckpt", trained(), option, path("mine.csv")), option, "mine.csv", "not written by this program")
        for no_file in path(), "-":
            fails(USAGE, run("eval", "--ckpt", trained(), option, no_file), option, "names no file")
        fails(USAGE, run("eval", "--ckpt", trained(), option, path("none", "x.csv")), option, "there is no folder")
    fails(USAGE, run("eval", "--ckpt", trained(), "--confusion", path("p.csv")), "p.csv", "not written by this program")
    expect_equal(rows(path("mine.csv")), [["a", "b"], ["1", "2"]])
    done = succeeds("eval", "--ckpt", trained(), "--json", "--predictions", "/dev/stderr")
    expect("cifar10:test:199," in done.stderr, done.stderr[-500:])


@check
def many_classes_fold_to_the_worst():
    """A packed set of 30 classes, whose names need quotes in a table."""
    from png import png
    names = ['c%02d, "%s"' % (i, "é" * (i % 3)) for i in range(30)]
    for split, count in (("train", 2), ("val", 1)):
        for i, name in enumerate(names):
            os.makedirs(path("many", split, name))
            for k in range(count):
                with open(path("many", split, name, "%d.png" % k), "wb") as file:
                    file.write(png(8, 8, bytes([8 * i, k, 99]) * 64))
    sets = {"data.path": path("many"), "data.dataset": "image_folder", "data.size": 32, "data.resize": 32, "train.epochs": 1,
            "train_batch_size": 4, "train_micro_batch_size_per_gpu": 4, "train.eval_batch_size": 30}
    expect_equal(train(path("of-many"), sets).returncode, DONE)
    done = succeeds("eval", "--ckpt", path("of-many"), "-q", "--confusion", path("many.csv"), "--predictions", path("many-p.csv"))
    lines = done.stdout.splitlines()
    at = next(i for i, line in enumerate(lines) if "worst" in line and "F1" in line)
    expect_equal(lines[at], "The 20 worst of 30 classes by F1:")
    worst = [float(line.split()[-2]) for line in lines[at + 2:at + 22]]
    expect_equal(worst, sorted(worst))
    expect(lines[at + 22].strip().startswith("mean "), lines[at + 22])
    expect_equal([row[0] for row in rows(path("many.csv"))[1:]], names)
    expect_equal(rows(path("many.csv"))[0][1:], names)
    predictions = rows(path("many-p.csv"))[1:]
    expect_equal([p[0] for p in predictions], [path("many", "val", name, "0.png") for name in names])


main()
