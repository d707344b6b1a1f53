"""Images that are held out choose the weights, and the test images judge these once: own pictures, data sets, sweeps."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import *
from png import png

LINEAR = os.path.join(CONFIGS, "linear.yaml")


def picture(file, level, number):
    """A picture of noise over a level of red, by which a network can tell its class."""
    os.makedirs(os.path.dirname(file), exist_ok=True)
    pixels = bytearray(random.Random(number).randbytes(3 * 12 * 12))
    for at in range(0, len(pixels), 3):
        pixels[at] = level
    with open(file, "wb") as out:
        out.write(png(12, 12, pixels))


def classes(*names, **counts):
    """A folder with a folder for each class."""
    folder = path(*names)
    for c, (label, count) in enumerate(counts.items()):
        for i in range(count):
            picture(os.path.join(folder, label, "p %d ä.png" % i), 60 + 100 * c, str((names, label, i)))
    return folder


def own(data, output, *words):
    """A fresh user's command, with pictures that a test needs no more of."""
    return run("--data", data, "--model", "linear", "--output", output, "--set", "data.size=8", "--set", "data.resize=8",
               "--ranks", "1", *words)


def evaluations(output, split):
    return [r for r in records(output, "eval") if r["split"] == split]


def evaluate(output, *words):
    return json.loads(succeeds("eval", "--ckpt", output, "--json", *words).stdout)


@functools.lru_cache(None)
def pets():
    data = classes("pets and more", cat=14, dog=26)
    picture(os.path.join(data, "loose.png"), 1, 1)
    for name in (".DS_Store", "Thumbs.db", "notes.txt", "cat/._p 0.png", "cat/Thumbs.db"):
        with open(os.path.join(data, name), "wb") as file:
            file.write(b"This is no picture.")
    return data


@check
def a_folder_of_classes_is_divided_by_the_seed():
    before, output = snapshot(pets()), path("own")
    done = own(pets(), output)
    expect_equal(done.returncode, DONE, done.stderr)
    expect("2 classes: cat 14, dog 26; 32 train, 8 validation (stratified, seed 42)\n" in done.stderr, done.stderr)
    expect("left out: 1 picture in no folder of a class, such as '%s/loose.png'; 1 file without" % pets() in done.stderr, done.stderr)
    expect("configs/finetune.yaml\n" in done.stderr and "warning: " not in done.stderr, done.stderr)
    expect_equal(snapshot(pets()), before, "pictures were written")
    figures = {r["step"]: r["accuracy"] for r in evaluations(output, "val")}
    expect(len(figures) > 5 and not evaluations(output, "test"), figures)
    end = records(output, "end")[-1]
    expect_equal(end["best"]["value"], max(figures.values()))
    expect("; these images chose the weights, so the figure is optimistic: data.test holds out" in done.stderr, done.stderr)
    expect("of the network on the 8 val images" in done.stdout, done.stdout)
    files = {name: digest for name, digest in snapshot(output).items() if name != ".lock"}
    expect("the run is finished" in own(pets(), output).stderr)
    expect_equal({name: digest for name, digest in snapshot(output).items() if name != ".lock"}, files)
    # The same images again, and the others.
    found = evaluate(output)
    expect_equal((found["split"], found["images"], found["accuracy"]), ("val", 8, end["best"]["value"]))
    expect_equal(evaluate(output, "--split", "train")["images"], 32)
    fails(USAGE, run("eval", "--ckpt", output, "--split", "test"), "no test images", "--data")
    expect_equal(evaluate(output, "--data", pets())["images"], 40)
    with open(os.path.join(output, "config.yaml")) as file:
        warm_up = re.search(r"warmup_num_steps: (\d+)", file.read())
    expect(0 < int(warm_up[1]) <= end["step"] / 10, warm_up, end)


@check
def a_third_part_judges_once():
    output = path("three")
    done = own(pets(), output, "--set", "data.test=25%", "-e", "4", "--set", "train.eval_interval=1")
    expect_equal(done.returncode, DONE, done.stderr)
    expect("2 classes: cat 14, dog 26; 22 train, 8 validation, 10 test (stratified, seed 42)\n" in done.stderr, done.stderr)
    test, = evaluations(output, "test")
    expect_equal(test["step"], records(output, "end")[-1]["best"]["step"])
    found = evaluate(output)
    expect_equal((found["split"], found["images"], found["loss"]), ("test", 10, test["loss"]))
    expect_equal(evaluate(output, "--split", "val")["images"], 8)


@check
def folders_of_splits_keep_their_parts():
    data = path("divided")
    for split, count in ("train", 12), ("valid", 3), ("test", 4):
        classes("divided", split, ant=count, bee=count)
    done = own(data, path("divided-run"), "-e", "3")
    expect_equal(done.returncode, DONE, done.stderr)
    expect("2 classes: ant 12, bee 12; 24 train, 6 validation, 8 test\n" in done.stderr, done.stderr)
    expect_match(done.stderr, r"best: epoch \d, validation [\d.]+ %; test [\d.]+ %\n")
    expect_equal(len(evaluations(path("divided-run"), "test")), 1)
    expect_equal([evaluate(path("divided-run"), *words)["images"] for words in ([], ["--split", "val"])], [8, 6])
    # Without validation images of their own a share is held out; those that choose nothing are test images.
    no_val = path("no-val")
    for split in "train", "test":
        shutil.copytree(os.path.join(data, split), os.path.join(no_val, split))
    expect("19 train, 5 validation, 8 test (stratified, seed 42)" in own(no_val, path("no-val-run"), "--dry-run").stdout)
    last = ["--set", "train.best.split=last"]
    no_test = path("no-test")
    for split, name in ("train", "train"), ("valid", "val"):
        shutil.copytree(os.path.join(data, split), os.path.join(no_test, name))
    expect("24 train, 6 validation\n" in own(no_test, path("no-test-run"), "--dry-run").stdout)
    expect("19 train, 5 validation, 6 test (s" in own(no_test, path("no-test-run"), "--dry-run", *last).stdout)
    # Folders by their keys.
    keys = ["--set", "data.validation=" + os.path.join(data, "valid"), "--set", "data.test=" + os.path.join(data, "test")]
    done = own(pets(), path("keys"), "--dry-run", *keys)
    fails(DATA, done, "no folder for the class")
    done = own(os.path.join(data, "train"), path("keys"), "--dry-run", *keys)
    expect("24 train, 6 validation, 8 test\n" in done.stdout, done.stdout, done.stderr)


@check
def the_same_picture_in_two_parts_is_named():
    data = classes("twins", ant=10, bee=10)
    for name in "ant/copy.png", "bee/copy.png":
        shutil.copy(os.path.join(data, "ant", "p 0 ä.png"), os.path.join(data, name))
    words = ["--set", "data.validation=50%", "--dry-run"]
    for seed in range(20):  # some put the picture into both parts, and some do not
        done = own(data, path("twins-run"), *words, "--set", "seed=%d" % seed)
        expect_equal(done.returncode, DONE, done.stderr)
        if "also among the training pictures" in done.stderr:
            expect_match(done.stderr, r"warning: (1 validation picture is|2 validation pictures are) also among the training "
                                      r"pictures(:|, such as) '.*/(ant|bee)/(copy|p 0 ä).png' \('.*\.png'\); remove one")
            break
    else:
        raise AssertionError("no seed put the picture into both parts")
    once = os.path.join(data, "ant")
    both = path("both")
    os.makedirs(both)
    os.symlink(data, os.path.join(both, "train"))
    os.symlink(data, os.path.join(both, "val"))
    done = own(both, path("twins-run"), "--dry-run")
    expect("the validation images are the training images" in done.stderr, done.stderr)


@check
def folders_that_cannot_be_divided_are_refused_with_the_remedy():
    alone, none, mixed, damaged = classes("alone", cat=5), path("none"), path("mixed"), classes("damaged", cat=5, dog=5)
    os.makedirs(none)
    picture(os.path.join(mixed, "a.png"), 1, 1)
    fails(DATA, own(alone, path("out")), "only one folder, 'cat'", "two classes or more")
    fails(DATA, own(none, path("out")), none, "is empty")
    fails(DATA, own(mixed, path("out")), "'a.png' is directly in it", "a folder of its own")
    with open(os.path.join(damaged, "cat", "p 1 ä.png"), "r+b") as file:
        file.truncate(60)
    fails(DATA, own(damaged, path("out-damaged")), "p 1 ä.png", "data.on_corrupt")
    split = classes("half", cat=5, dog=5)
    os.makedirs(os.path.join(split, "test"))
    fails(DATA, own(split, path("out")), "has test/ but no train/", "move the folders of the classes into")
    for words, culprits in [(["data.validation=39"], ["class 'cat'", "at most 38"]), (["data.validation=99%"], ["class 'cat'"]),
                            (["data.validation=0/5"], ["data.validation must be a fold"]),
                            (["data.validation=0.2"], ["a share such as 20%", "a fold such as 1/5", "did you mean 20%?"]),
                            (["data.test=90%"], ["data.validation 20% beside data.test 90%"]),
                            (["data.validation=120%"], ["less than 100 %"]), (["data.validation=-3"], ["0 to 4294967295 images"]),
                            (["data.validation=9223372036854775807"], ["0 to 4294967295 images"]),
                            (["data.validation=41/41"], ["41/41 is one of more folds than the 40 images", "at most 40"])]:
        fails(USAGE, own(pets(), path("out"), "--dry-run", *[w for word in words for w in ("--set", word)]), *culprits)
    fails(DATA, own(pets(), path("out"), "--dry-run", "--set", "data.validation=nowhere"), "nowhere")
    few_settings = {"data.path": few(), "data.on_corrupt": "skip"}
    fails(USAGE, train(path("out"), {**few_settings, "data.test": "10%"}, expecting=USAGE), "has test images of its own")
    fails(USAGE, train(path("out"), {**few_settings, "train.best.split": "val"}, expecting=USAGE), "needs validation images")
    expect(not os.path.exists(path("out", "ckpt")))


# ---- sets of images

HELD = {**FEW, "train.best.split": "val", "data.validation": "20%", "train.epochs": 3, "train.max_steps": 25,
        "train.eval_interval": 4, "train.save_interval": 6}


def held(**changed):
    return {**HELD, "data.path": few(), **dotted(changed)}


@check
def best_weights_are_those_of_the_best_validation():
    early = 0
    for seed in range(10):
        output = path("seed-%d" % seed)
        done = train(output, held(seed=seed, optimizer__params__lr=0.01, scheduler__params__warmup_max_lr=0.01))
        figures = {r["step"]: r["accuracy"] for r in evaluations(output, "val")}
        end, (test,) = records(output, "end")[-1], evaluations(output, "test")
        expect_equal(end["best"]["value"], max(figures.values()), figures)
        step = max(s for s, f in figures.items() if f == max(figures.values()))
        metadata = safetensors(os.path.join(output, "best.bin"))[1]
        expect_equal((end["best"]["step"], test["step"], int(metadata["cifar_train.step"])), (step, step, step))
        expect("validation %.2f %%; test %.2f %%\n" % (100 * figures[step], 100 * test["accuracy"]) in done.stderr, done.stderr)
        for split, record in ("test", test), ("val", next(r for r in evaluations(output, "val") if r["step"] == step)):
            expect_equal(evaluate(output, "--split", split)["loss"], record["loss"])
        early += step < 25
    expect(early > 0, "every run was best at its end: this shows nothing")
    # The finished run again judges, and changes nothing.
    before = {name: digest for name, digest in snapshot(output).items() if name != ".lock"}
    again = train(output, held(seed=seed, optimizer__params__lr=0.01, scheduler__params__warmup_max_lr=0.01))
    expect_equal({name: digest for name, digest in snapshot(output).items() if name != ".lock"}, before)
    expect("step %d: test accuracy %.2f %%" % (test["step"], 100 * test["accuracy"]) in again.stderr, again.stderr)


@check
def ranks_stages_and_stops_change_no_bit():
    settings = held(train__ema__decay=0.5, model__name="linear", optimizer__params__lr=0.03,
                    scheduler__params__warmup_max_lr=0.03, train__best__metric="loss")
    train(path("one"), settings)
    expected = result(path("one"))
    test, = evaluations(path("one"), "test")
    expect(test["step"] < 25 and test["weights"] == "ema", "the end is the best: this shows nothing", test)
    for ranks, stage in [(2, 0), (4, 1), (2, 2), (4, 3)]:
        output = path("ranks-%d-%d" % (ranks, stage))
        train(output, {**settings, "train.max_steps": 9, "zero_optimization.stage": stage}, ranks=Ranks(1))
        os.remove(os.path.join(output, "last.bin"))
        train(output, {**settings, "zero_optimization.stage": stage}, ranks=Ranks(ranks))
        expect_equal(records(output, "end")[-1]["weights_sha256"], expected[0], ranks, stage)
        expect_equal({k: v for k, v in evaluations(output, "test")[-1].items() if k != "time"},
                     {k: v for k, v in test.items() if k != "time"}, ranks, stage)
    # Other images that are held out are another run.
    fails(CHECKPOINT, train(path("one"), {**settings, "data.validation": "10%", "train.max_steps": 30}, expecting=CHECKPOINT),
                 "data.validation")


@check
def weights_of_the_last_step_say_so():
    settings = {**FEW, "data.path": few(), "train.epochs": 8, "model.name": "linear", "optimizer.params.lr": 0.03,
                "scheduler.params.warmup_max_lr": 0.03}
    done = train(path("last"), settings)
    figures = [r["accuracy"] for r in evaluations(path("last"), "test")]
    expect(figures[-1] < max(figures), "the last is the best: this shows nothing", figures)
    best = 1 + figures.index(max(figures))
    expect("best.bin holds the last weights, %.2f %%: nothing is held out; epoch %d had %.2f %% of the test images\n"
           % (100 * figures[-1], best, 100 * figures[best - 1]) in done.stderr, done.stderr)


@check
def default_yaml_holds_out_and_a_deepspeed_file_over_it_does_not():
    shown = succeeds("config", "show").stdout
    expect("validation: 10%" in shown and "split: val" in shown, shown)
    with open(path("ds.json"), "w") as file:
        json.dump({"train_batch_size": 4, "optimizer": {"type": "Adam", "params": {"lr": 0.001}}}, file)
    shown = succeeds("config", "show", "--deepspeed_config", path("ds.json")).stdout
    expect("validation: 0" in shown and "split: last" in shown, shown)


@check
def folds_are_cross_validated():
    output = path("folds")
    settings = {**held(), "train.max_steps": 8}
    sets = [w for key, value in settings.items() if key != "data.validation" for w in ("--set", "%s=%s" % (key, value))]
    done = succeeds("sweep", "--config", DEFAULT, *sets, "--folds", 4, "--output", output, "--ranks", "1")
    accuracies = [100 * records(os.path.join(output, "fold=%dof4,seed=42" % k), "end")[-1]["best"]["value"] for k in (1, 2, 3, 4)]
    mean = sum(accuracies) / 4
    deviation = (sum((a - mean) ** 2 for a in accuracies) / 3) ** 0.5
    row = done.stdout.splitlines()[2]
    expect("| 4 of 4 | %.2f ± %.2f" % (mean, deviation) in row, done.stdout)
    expect("validation %" in done.stdout and "test %" in done.stdout, done.stdout)
    fails(USAGE, run("sweep", "--config", DEFAULT, *sets, "--folds", 4, "--grid", "data.validation=1,2", "--output", path("f")),
          "given twice", "--folds")
    fails(USAGE, run("sweep", "--config", DEFAULT, *sets, "--folds", 33, "--set", "data.limit=32", "--output", path("f")),
          "more folds than the 32 images")
    expect(not os.path.exists(path("f")), "something was written")


@check
def settings_are_compared_by_validation():
    output = path("compared")
    sets = [w for key, value in {**held(), "train.max_steps": 8}.items() for w in ("--set", "%s=%s" % (key, value))]
    done = succeeds("sweep", "--config", DEFAULT, *sets, "--grid", "scheduler.params.warmup_max_lr=0.02,0.0001", "--output", output,
                    "--ranks", "1")
    expect("the best by its validation images: scheduler.params.warmup_max_lr=0.02, " in done.stderr, done.stderr)
    with open(os.path.join(output, "results.txt")) as file:
        text = file.read()
    expect_equal([float(rate) for rate in re.findall(r"\blr: (\S+)", text)], [0.02, 0.0001], "the rate that is trained with")


# ---- CIFAR-100 and Fashion-MNIST

def cifar_100():
    """Both forms of one small set. Returns their data.paths."""
    numbers = random.Random(3)
    binary, python = path("binary", "cifar-100-binary"), path("python", "cifar-100-python")
    os.makedirs(binary), os.makedirs(python)
    names = {"fine": ["fine %d" % i for i in range(100)], "coarse": ["coarse %d" % i for i in range(20)]}
    for kind, lines in names.items():
        with open(os.path.join(binary, kind + "_label_names.txt"), "w") as file:
            file.write("\n".join(lines) + "\n")
    for split, count in ("train", 200), ("test", 100):
        rows = [(i % 20, i % 100, numbers.randbytes(3072)) for i in range(count)]
        with open(os.path.join(binary, split + ".bin"), "wb") as file:
            file.write(b"".join(bytes([coarse, fine]) + pixels for coarse, fine, pixels in rows))
        with open(os.path.join(python, split), "wb") as file:
            file.write(batch_100(split, rows))
    with open(os.path.join(python, "meta"), "wb") as file:
        file.write(pickled({"fine_label_names": names["fine"], "coarse_label_names": names["coarse"]}))
    return os.path.dirname(binary), os.path.dirname(python)


def text_opcode(text):
    return b"U" + bytes([len(text)]) + text.encode()


def number_opcode(n):
    return b"K" + bytes([n]) if n < 256 else b"M" + struct.pack("<H", n)


def list_opcodes(items):
    return b"](" + b"".join(text_opcode(i) if isinstance(i, str) else number_opcode(i) for i in items) + b"e"


def pickled(entries):
    """A dict as Python 2 wrote it; values that are bytes are opcodes already."""
    body = b"".join(text_opcode(key) + (value if isinstance(value, bytes) else list_opcodes(value)) for key, value in entries.items())
    return b"\x80\x02}(" + body + b"u."


def batch_100(split, rows):
    pixels = b"".join(row[2] for row in rows)
    array = (b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\0\x85" + text_opcode("b") + b"\x87R(K\1" +
             number_opcode(len(rows)) + number_opcode(3072) + b"\x86cnumpy\ndtype\n" + text_opcode("u1") + b"K\0K\1\x87R(K\3" +
             text_opcode("|") + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb\x89T" + struct.pack("<I", len(pixels)) + pixels + b"tb")
    return pickled({"filenames": ["x"] * len(rows), "batch_label": text_opcode("batch"), "fine_labels": [r[1] for r in rows],
                    "coarse_labels": [r[0] for r in rows], "data": array})


@check
def cifar_100_is_read_in_both_forms():
    binary, python = cifar_100()
    settings = {"train_batch_size": 20, "train.epochs": 1}
    done = train(path("fine"), {**settings, "data.path": binary}, config=LINEAR)
    expect("data: CIFAR-100 in " in done.stderr and "100 classes of 2 images; 200 train, 100 test" in done.stderr, done.stderr)
    train(path("fine-python"), {**settings, "data.path": python}, config=LINEAR)
    expect_same_result(path("fine-python"), result(path("fine")))
    for name, data in ("coarse", binary), ("coarse-python", os.path.join(python, "cifar-100-python")):
        train(path(name), {**settings, "data.path": data, "data.labels": "coarse", "data.dataset": "cifar100"}, config=LINEAR)
    expect_same_result(path("coarse-python"), result(path("coarse")))
    tensors, metadata = safetensors(path("coarse", "best.bin"))
    expect_equal(tensors["linear.weight"][1][0], 20)
    expect_equal(evaluate(path("coarse"))["loss"], records(path("coarse"), "eval")[-1]["loss"])
    succeeds("data", "verify", "--data", binary), succeeds("data", "info", "--data", python)
    with open(os.path.join(binary, "cifar-100-binary", "test.bin"), "r+b") as file:
        file.truncate(1000)
    line = fails(DATA, run("data", "verify", "--data", binary), "test.bin", "truncated", "unpack cifar-100-binary")
    expect_equal(line.count("unpack cifar-100-binary"), 1)
    fails(DATA, train(path("cut"), {**settings, "data.path": binary}, config=LINEAR, expecting=DATA), "test.bin", "truncated")


main()
