"""Folders of pictures through the program: training, resuming and evaluating with random crops, damage named and counted."""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import *
from png import png

LINEAR = os.path.join(CONFIGS, "linear.yaml")
CLASSES = ["ant", "bee", "cow"]


def folders(name, train=24, val=8):
    """A data.path with the given number of pictures of each class, which differ in colour."""
    numbers = random.Random(5)
    for split, count in [("train", train), ("val", val)]:
        for c, label in enumerate(CLASSES):
            os.makedirs(path(name, split, label))
            for i in range(count):
                width, height = numbers.randrange(12, 40), numbers.randrange(12, 40)
                pixels = bytearray(b & 0x7f for b in numbers.randbytes(3 * width * height))
                for at in range(c, len(pixels), 3):
                    pixels[at] |= 0x80
                with open(path(name, split, label, "p%02d.png" % i), "wb") as file:
                    file.write(png(width, height, pixels))
    return path(name)


def settings(data, **changed):
    return {"data.path": data, "data.size": 10, "data.resize": 12, "train_batch_size": 12, "train.epochs": 4,
            "data.augment": "[{random_resized_crop: {scale: [0.3, 1]}}, {flip: {p: 0.5}}]", "train.eval_batch_size": 7,
            "train.save_interval": 5, "steps_per_print": 1, "scheduler": "{}", "optimizer.params.lr": 0.003, **dotted(changed)}


@functools.lru_cache(None)
def no_class():
    """A data.path whose train/ has pictures without a class."""
    data = folders("no-class", train=1, val=1)
    for label in CLASSES:
        os.rename(path(data, "train", label, "p00.png"), path(data, "train", label + ".png"))
        os.rmdir(path(data, "train", label))
    return data


def damage(file, content=None):
    """Truncates a file, or overwrites it."""
    if content is None:
        os.truncate(file, 60)
    else:
        with open(file, "wb") as out:
            out.write(content)


@functools.lru_cache(None)
def trained():
    """(data.path, folder of the run, what it printed)"""
    data = folders("whole")
    return data, path("run"), train(path("run"), settings(data), config=LINEAR)


@check
def they_are_found_learnt_and_evaluated():
    data, output, done = trained()
    expect("data: image_folder in %s" % data in done.stderr, done.stderr)
    last = records(output, "eval")[-1]
    expect_equal(last["images"], 24)
    expect(last["accuracy"] > 0.9, last)
    tensors, metadata = safetensors(os.path.join(output, "best.bin"))
    expect_equal(tensors["linear.weight"][1], [3, 300])
    expect_equal(json.loads(metadata["cifar_train.class_names"]), CLASSES)
    # Weights say how their pictures get their size; --data may name another copy, of which val/ is enough.
    elsewhere = path("elsewhere")
    shutil.copytree(os.path.join(data, "val"), os.path.join(elsewhere, "val"))
    for words in [[], ["--data", elsewhere]]:
        evaluated = json.loads(run("eval", "--ckpt", os.path.join(output, "best.bin"), "--json", *words).stdout)
        expect_equal((evaluated["accuracy"], evaluated["loss"]), (last["accuracy"], last["loss"]))
    os.rename(os.path.join(elsewhere, "val", "bee"), os.path.join(elsewhere, "val", "wasp"))
    fails(DATA, run("eval", "--ckpt", os.path.join(output, "best.bin"), "--data", elsewhere), "'cow'", "'bee'")


@check
def a_flip_before_the_crop_is_one_after_it():
    data, output, _ = trained()
    turned = path("flip-first")
    train(turned, settings(data, data__augment="[{flip: {p: 0.5}}, {random_resized_crop: {scale: [0.3, 1]}}]"),
          config=LINEAR)
    expect_same_result(turned, result(output))


@check
def any_ranks_and_workers_give_the_same():
    data, output, _ = trained()
    for ranks, workers, stage in [(1, 3, 0), (3, 1, 2)]:
        again = path("run-%d-%d" % (ranks, workers))
        train(again, settings(data, data__workers=workers, zero_optimization__stage=stage), ranks=Ranks(ranks), config=LINEAR)
        expect_same_result(again, result(output), ranks, workers)
    # It does matter where the crops lie.
    other = path("run-other")
    train(other, settings(data, data__augment="[{flip: {p: 0.5}}]"), config=LINEAR)
    expect(result(other)[0] != result(output)[0], "without random_resized_crop the same weights")


@check
def a_run_that_stopped_continues_to_the_same_weights():
    data, output, _ = trained()
    again = path("resumed")
    train(again, settings(data, train__max_steps=7), config=LINEAR)
    train(again, settings(data), config=LINEAR)
    expect_equal(records(again, "end")[-1]["weights_sha256"], result(output)[0])


@check
def folders_by_names_of_their_own():
    data, output, _ = trained()
    apart = path("apart")
    train(apart, settings(path("nothing-here"), data__train=os.path.join(data, "train"), data__val=os.path.join(data, "val")),
          config=LINEAR)
    expect_same_result(apart, result(output))
    done = run("eval", "--ckpt", os.path.join(apart, "best.bin"), "--json")
    expect_equal(json.loads(done.stdout)["images"], 24, done.stderr)


@check
def a_run_is_no_class():
    data = os.path.join(folders("among"), "train")
    for output in os.path.join(data, "run"), os.path.join(data, "runs", "today"), data:
        done = train(output, settings(data), config=LINEAR, expecting=USAGE)
        expect_match(done.stderr, "error: output folder '.*' lies in '.*', whose folders are the classes: give another --output\n$")
        expect_equal(sorted(os.listdir(data)), CLASSES, output)
    split = os.path.join(os.path.dirname(data), "test")  # that the set has not
    fails(USAGE, train(split, settings(os.path.dirname(data)), config=LINEAR, expecting=USAGE), "lies in", split)
    for output in "run", "runs/today":  # of which nothing is there yet
        done = train(output, settings("."), config=LINEAR, expecting=USAGE, cwd=data)
        expect_match(done.stderr, "whose folders are the classes")
        expect_equal(sorted(os.listdir(data)), CLASSES, output)
    words = train_words(os.path.join(data, "runs"), settings(data), config=LINEAR)
    for several in (["sweep", *words, "--grid", "seed=1,2"], ["sweep", *words, "--grid", "seed=1,2", "--dry-run"],
                    ["compare", *words, "--ranks", 2]):
        fails(USAGE, run(*several), "lies in", "whose folders are the classes")
        expect_equal(sorted(os.listdir(data)), CLASSES, several)


@check
def damaged_pictures_are_named_or_counted():
    data = folders("damaged", train=4, val=4)
    train_picture, val_picture = os.path.join(data, "train", "bee", "p01.png"), os.path.join(data, "val", "ant", "p02.png")
    damage(train_picture)
    failed = train(path("damaged-run"), settings(data), expecting=DATA, config=LINEAR)
    fails(DATA, failed, train_picture, "truncated", "data.on_corrupt")
    damage(val_picture, b"This is text.")
    empty, broken = os.path.join(data, "val", "cow", "p98.png"), os.path.join(data, "val", "cow", "p99.png")
    damage(empty, b"")
    os.symlink("nothing", broken)
    results = []
    for ranks in (1, 2):
        output = path("skip-%d" % ranks)
        done = train(output, settings(data, data__on_corrupt="skip", train_micro_batch_size_per_gpu=2), ranks=Ranks(ranks),
                     config=LINEAR)
        last = records(output, "eval")[-1]
        expect_equal((last["images"], last["left_out"]), (11, 3))
        expect("3 damaged test images are left out" in done.stderr, done.stderr)
        expect_equal(records(output, "end")[-1]["replaced_samples"], 4)  # once an epoch
        results.append(result(output))
    expect_equal(*results)
    done = run("eval", "--ckpt", os.path.join(path("skip-1"), "best.bin"))
    expect("3 damaged test images are left out" in done.stderr, done.stderr)
    for picture in empty, broken:
        os.unlink(picture)
    shutil.copy(os.path.join(data, "val", "cow", "p01.png"), empty)
    shutil.copy(empty, broken)
    done = run("eval", "--ckpt", os.path.join(path("skip-1"), "best.bin"))
    expect("1 damaged test image is left out" in done.stderr, done.stderr)
    fails(DATA, run("eval", "--ckpt", os.path.join(path("skip-1"), "best.bin"), "--on-corrupt", "error"), val_picture,
          "not a JPEG, PNG, WebP or PPM", "--on-corrupt skip")
    told = os.path.join(path("skip-1"), "told.yaml")
    damage(told, b"data: {on_corrupt: error}\n")
    fails(DATA, run("eval", "--ckpt", os.path.join(path("skip-1"), "best.bin"), "--config", told), val_picture)
    first = run("eval", "--ckpt", os.path.join(path("skip-1"), "best.bin"), "--max-images", 2)
    expect("left out" not in first.stderr, first.stderr)
    expect_equal(re.findall(r"Accuracy of +(\w+) : no images", first.stdout), ["bee", "cow"], first.stdout)
    os.unlink(broken)
    damage(empty, b"")
    os.symlink("nothing", broken)

    verified = run("data", "verify", "--data", data)
    fails(DATA, verified, train_picture, "3 more files")
    line = fails(DATA, run("data", "verify", "--data", no_class()), "no folders")
    expect_equal(line.count(no_class()), 1, line)
    line = fails(DATA, train(path("refused"), settings(train_picture, data__dataset="image_folder"), expecting=DATA, config=LINEAR),
                 "not a folder", "train/ and val/")
    expect("//" not in line, line)
    for word in ["train/bee/p01.png", "truncated", "val/ant/p02.png", "not a JPEG, PNG, WebP or PPM", "val/cow/p98.png", "empty",
                 "val/cow/p99.png", "a link to nothing"]:
        expect(word in verified.stdout, verified.stdout)
    expect_equal(verified.stdout.count(".png"), 4, verified.stdout)
    expect_equal(re.findall(r"(?m)^(train|val) .*  (.*)$", verified.stdout), [("train", "1 damaged"), ("val", "3 damaged")])
    for picture in train_picture, val_picture, empty, broken:
        os.unlink(picture)
    train_empty = os.path.join(data, "train", "cow", "p98.png")
    damage(train_empty, b"")  # what cannot be a picture has its place taken as well
    done = train(path("skip-empty"), settings(data, data__on_corrupt="skip"), config=LINEAR)
    expect_equal(records(path("skip-empty"), "end")[-1]["replaced_samples"], 4)
    os.unlink(train_empty)
    whole = run("data", "verify", "--data", data)
    expect_equal(whole.returncode, DONE, whole.stdout, whole.stderr)
    expect_equal(re.findall(r"(?m)^(train|val) .*  (.*)$", whole.stdout), [("train", "ok"), ("val", "ok")])
    told = run("data", "info", "--data", data)
    expect_equal(told.returncode, DONE, told.stderr)
    expect("11 images to train on, 11 to test on, 224x224, 3 channels, 3 classes" in told.stdout, told.stdout)


@check
def names_of_classes_keep_the_columns_and_the_direction():
    data = folders("names", train=2, val=1)
    for split in ("train", "val"):
        os.rename(path(data, split, "ant"), path(data, split, "a class whose name has more than sixteen letters"))
        os.rename(path(data, split, "bee"), path(data, split, "\u202egnp.exe\u2066"))
    told = succeeds("data", "info", "--data", data).stdout
    rows = re.findall(r"(?m)^(?:class|    \d)  .*$", told)
    expect_equal([len(row) for row in rows], 4 * [len(rows[0])], told)
    expect_in("  \\xe2\\x80\\xaegnp.exe\\xe2\\x81\\xa6  ", told)


@check
def files_that_are_not_pictures_are_named_with_their_kind():
    data = folders("no-pictures", train=4, val=1)
    picture = os.path.join(data, "val", "cow", "p00.png")
    box = b"\0\0\0\x0c"
    for content, *words in [(b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n", "Git LFS, not the file itself", "git lfs pull"),
                            (b"<!DOCTYPE html><html></html>", "a web page", "download the file itself"),
                            (box + b"ftypavif....", "an AVIF file: convert it to JPEG or PNG"),
                            (box + b"jP  \r\n\x87\n....", "a JPEG 2000 file: convert it to JPEG or PNG")]:
        damage(picture, content)
        for command in [("data", "verify", "--data", data), ("data", "convert", "--from", data, "--out", path("no.ctpack")),
                        ("train", *train_words(path("no-pictures-run"), settings(data, train__epochs=1), "--reset", config=LINEAR))]:
            fails(DATA, run(*command), picture, *words)
    damage(path("pointer.ctpack"), b"version https://git-lfs.github.com/spec/v1\n")
    for command in ("verify", "info"):
        fails(DATA, run("data", command, "--data", path("pointer.ctpack")), "pointer.ctpack", "git lfs pull")


@check
def a_class_may_have_no_pictures_to_test_on():
    data, output = folders("lacking", train=4, val=2), path("lacking-run")
    shutil.rmtree(os.path.join(data, "val", "bee"))
    os.mkdir(os.path.join(data, "val", "bee"))
    told = "no images of the class 'bee' to test on"
    done = train(output, settings(data), config=LINEAR)
    expect(told in done.stderr, done.stderr)
    expect(re.search(r"Accuracy of +bee : no images", done.stdout), done.stdout)
    expect_equal(records(output, "eval")[-1]["images"], 4)
    os.rmdir(os.path.join(data, "val", "bee"))  # what is no folder at all has no pictures either
    done = run("eval", "--ckpt", os.path.join(output, "best.bin"), "--json")
    expect_equal(json.loads(done.stdout)["images"], 4, done.stderr)
    expect(told in done.stderr, done.stderr)
    for words in [("data", "verify", "--data", data), ("data", "info", "--data", data),
                  train_words(path("lacking-dry"), settings(data), "--dry-run", config=LINEAR)]:
        done = succeeds(*words)
        expect(told in done.stdout, done.stdout)
    done = succeeds("data", "convert", "--from", data, "--out", path("lacking.ctpack"))
    expect(told in done.stderr, done.stderr)
    done = train(path("lacking-packed"), settings(path("lacking.ctpack")), config=LINEAR)
    expect(told in done.stderr, done.stderr)
    # val/ alone, elsewhere: the classes are those of the weights.
    os.makedirs(path("lacking-alone"))
    os.rename(os.path.join(data, "val"), path("lacking-alone", "val"))
    done = succeeds("eval", "--ckpt", os.path.join(output, "best.bin"), "--data", path("lacking-alone"), "--json")
    expect_equal(json.loads(done.stdout)["accuracy"], records(output, "eval")[-1]["accuracy"])


@check
def the_same_images_to_train_and_to_test_on_are_warned_of():
    data, _, done = trained()
    warning = "warning: the test images are the training images"
    expect(warning not in done.stderr, done.stderr)
    copy, links = path("copied-split"), path("linked-split")
    for place in copy, links:
        os.mkdir(place)
        os.symlink(os.path.join(data, "train"), os.path.join(place, "train"))
    shutil.copytree(os.path.join(data, "train"), os.path.join(copy, "val"))
    os.symlink(os.path.join(data, "train"), os.path.join(links, "val"))
    once = os.path.join(data, "train")
    for changed in ({"data__path": copy}, {"data__path": links}, {"data__train": once, "data__val": once}):
        done = run(*train_words(path("same-dry"), settings(data, **changed), "--dry-run", config=LINEAR))
        expect(warning in done.stderr, changed, done.stderr)
    done = train(path("same-run"), settings(data, data__train=once, data__val=once, train__epochs=1), config=LINEAR)
    expect(warning in done.stderr, done.stderr)
    for words in ("data", "info", "--data", links), ("data", "convert", "--from", links, "--out", path("same.ctpack")):
        done = run(*words)
        expect(warning in done.stderr, words, done.stderr)
    done = run("data", "verify", "--data", links)
    expect(warning in done.stdout, done.stdout, done.stderr)
    # Not as classes of each other either.
    inside = path("inside")
    shutil.copytree(data, inside)
    for changed in ({"data__train": inside, "data__val": os.path.join(inside, "val")},
                    {"data__val": inside, "data__train": os.path.join(inside, "train")}):
        fails(DATA, train(path("inside-run"), settings(data, **changed), config=LINEAR, expecting=DATA), inside, "data.train")


@check
def evaluation_names_what_fits():
    data, output, _ = trained()
    best = os.path.join(output, "best.bin")
    wanted = records(output, "eval")[-1]
    for part, split in ((os.path.join(data, "val"), "test"), (os.path.join(data, "train"), "train")):  # the part itself
        done = succeeds("eval", "--ckpt", best, "--data", part, "--split", split, "--json")
        expect(split == "train" or json.loads(done.stdout)["loss"] == wanted["loss"], done.stdout)
    other = path("other-classes")
    shutil.copytree(data, other)
    for split in "train", "val":
        os.rename(os.path.join(other, split, "bee"), os.path.join(other, split, "wasp"))
    fewer = path("fewer-classes")
    shutil.copytree(data, fewer)
    for split in "train", "val":
        shutil.rmtree(os.path.join(fewer, split, "bee"))
    for place, problem in (other, "class 1 is 'cow', but that of"), (fewer, "2 classes, but"), (path("nowhere-at-all"), "no such folder"):
        line = fails(DATA, run("eval", "--ckpt", best, "--data", place), place, problem)
        expect("--data" not in line, line)
        expect(place not in (other, fewer) or "that it was trained on, 'ant' to 'cow'" in line, line)
    # One split alone, whatever its classes are called, and parts by other names.
    for name in "Ant", "ape":
        alone = path("alone-" + name)
        shutil.copytree(os.path.join(data, "val"), alone)
        for c in CLASSES:
            os.rename(os.path.join(alone, c), os.path.join(alone, name + c))
        line = fails(DATA, run("eval", "--ckpt", best, "--data", alone), "class 0 is '%sant', but that of" % name)
        expect("that it was trained on, 'ant' to 'cow'" in line, line)
    parts, empty, other_set = path("parts"), path("no-parts"), path("cifar-100-parts")
    shutil.copytree(data, parts)
    os.rename(os.path.join(parts, "val"), os.path.join(parts, "test"))
    os.makedirs(empty)
    os.makedirs(os.path.join(other_set, "cifar-100-binary"))
    for place, split, problem in [(parts, "test", None), (empty, "test", "is empty"), (path("parts", "test"), "test", None),
                                  (other_set, "test", "holds no folder of pictures"), (parts, "train", None)]:
        done = run("eval", "--ckpt", best, "--data", place, "--split", split)
        if problem is None:
            expect_equal(done.returncode, DONE, done.stderr)
        else:
            line = fails(DATA, done, place, problem)
            expect("data.train" not in line and "data.val" not in line, line)
    # Where the run had its images, the option is what helps.
    copy, moved = path("moved-run"), path("moved-data")
    shutil.copytree(data, moved)
    train(copy, settings(moved, train__epochs=1), config=LINEAR)
    shutil.rmtree(os.path.join(moved, "val"))
    fails(DATA, run("eval", "--ckpt", os.path.join(copy, "best.bin")), moved, "--data DIR")


@check
def hidden_files_and_folders_are_left_out_and_counted():
    data, output = folders("hidden", train=4, val=2), path("hidden-run")
    train(path("unhidden-run"), settings(data), config=LINEAR)
    os.makedirs(os.path.join(data, "train", ".ipynb_checkpoints"))
    os.makedirs(os.path.join(data, "train", "bee", "@eaDir"))
    os.makedirs(os.path.join(data, "train", "__MACOSX"))
    for file in ("train/ant/._p00.png", "train/ant/.DS_Store", "train/ant/Thumbs.db", "train/bee/@eaDir/p00.png", "train/Thumbs.db", "val/._p01.png",
                 "val/cow/._p01.png"):
        damage(os.path.join(data, file), b"This is no picture.")
    done = train(output, settings(data), config=LINEAR)
    expect_same_result(output, result(path("unhidden-run")))
    in_train, in_val = [re.findall("(\\d) hidden names?, such as '%s/" % os.path.join(data, split),
                                   done.stderr) for split in ("train", "val")]
    expect_equal((in_train, in_val), (["7"], ["2"]), done.stderr)
    done = run("data", "verify", "--data", data)
    expect_equal(done.returncode, DONE, done.stdout, done.stderr)
    expect("7 hidden names" in done.stdout, done.stdout)
    # A packed file's shadow is no second one.
    expect_equal(run("data", "convert", "--from", data, "--out", path("hidden-packed", "a.ctpack")).returncode, DONE)
    damage(path("hidden-packed", "._a.ctpack"), b"\0")
    expect_equal(run("data", "verify", "--data", path("hidden-packed")).returncode, DONE)


@check
def other_layouts_are_recognised():
    python = path("python")
    os.makedirs(os.path.join(python, "cifar-10-batches-py"))
    damage(os.path.join(python, "cifar-10-batches-py", "data_batch_1"), b"")
    lists = path("lists")
    os.makedirs(lists)
    os.makedirs(os.path.join(lists, "train"))  # where the pictures lie
    for name, line in (("training_file_list", "train/a.png 0"), ("validation_file_list", "train/a.png 0"), ("labels", "a, 0")):
        damage(os.path.join(lists, name + ".txt"), line.encode() + b"\n")
    for place, *words in [(python, "python archive", "data convert"),
                          (lists, "file lists", "data convert")]:
        before = sorted(os.listdir(place))
        fails(DATA, train(path("told-run"), {"data.path": place}, expecting=DATA), place, "data.dataset: synthetic", *words)
        expect_equal(sorted(os.listdir(place)), before)


@check
def replaced_images_are_counted_across_a_stop():
    data = folders("counted", train=8, val=2)  # an epoch is two steps
    damage(os.path.join(data, "train", "bee", "p01.png"))
    output = path("counted-run")
    skip = settings(data, data__on_corrupt="skip", train__epochs=100000, train__save_interval=1000,
                    train__eval_interval=100000)
    job = start(Ranks(2).words(*train_words(output, {**skip, "train_micro_batch_size_per_gpu": 6}, config=LINEAR)))
    wait_for_step(output, job, at_least=10)
    job.send_signal(signal.SIGUSR1)
    expect_equal(finish(job).returncode, STOPPED)
    end = records(output, "end")[-1]
    expect_equal(end["reason"], "stopped")
    epochs = end["step"] // 2
    expect(end["replaced_samples"] in (epochs, epochs + end["step"] % 2), end)
    train(output, {**skip, "train_micro_batch_size_per_gpu": 6, "train.max_steps": 2 * epochs + 4}, config=LINEAR)
    expect_equal(records(output, "end")[-1]["replaced_samples"], epochs + 2)


@check
def a_run_that_met_damage_goes_on_without_it():
    data = folders("met", train=8, val=2)
    damage(os.path.join(data, "train", "bee", "p01.png"))
    output, whole = path("met-run"), path("met-skip")
    fails(DATA, train(output, settings(data), expecting=DATA, config=LINEAR), "p01.png", "set data.on_corrupt to skip")
    expect(checkpoints(output) != [], "nothing was saved")
    train(output, settings(data, data__on_corrupt="skip"), config=LINEAR)
    train(whole, settings(data, data__on_corrupt="skip"), config=LINEAR)
    expect_same_result(output, result(whole))
    # Pictures of another size are other images.
    damage(os.path.join(data, "train", "bee", "p02.png"))
    fails(CHECKPOINT, train(output, settings(data, data__on_corrupt="skip", train__epochs=5), expecting=CHECKPOINT, config=LINEAR),
          "trained on different images", "restore files")


@check
def a_picture_that_ends_an_evaluation_loses_no_step():
    data = folders("late", train=8, val=4)
    damage(os.path.join(data, "val", "bee", "p02.png"))
    whole = path("late-skip")
    train(whole, settings(data, data__on_corrupt="skip", train__ema__decay=0.9), config=LINEAR)
    for ranks in (1, 3):
        output = path("late-%d" % ranks)
        sets = settings(data, train__save_interval=1000, train__ema__decay=0.9)
        fails(DATA, train(output, sets, ranks=Ranks(ranks), expecting=DATA, config=LINEAR), "p02.png", "data.on_corrupt")
        expect_equal(checkpoints(output)[-1], records(whole, "eval")[0]["step"], ranks)
        train(output, {**sets, "data.on_corrupt": "skip"}, config=LINEAR)
        expect_same_result(output, result(whole))


@check
def a_run_is_evaluated_on_the_same_pictures():
    data, output = folders("judged", train=8, val=2), path("judged-run")
    train(output, settings(data), config=LINEAR)
    held = os.path.join(data, "val", "bee", sorted(os.listdir(os.path.join(data, "val", "bee")))[0])
    with open(held, "rb") as file:
        whole = file.read()

    def rewrite(content):
        with open(held, "wb") as file:
            file.write(content)

    for change in (lambda: os.remove(held), lambda: rewrite(whole + b" ")):
        change()
        fails(CHECKPOINT, train(output, settings(data, train__epochs=5), expecting=CHECKPOINT, config=LINEAR),
              "evaluated on different images", "restore files")
    rewrite(whole)
    train(output, settings(data, train__epochs=5), config=LINEAR)


@check
def unsuitable_settings_are_refused_by_name():
    data, _, _ = trained()

    def refused(code, changed, *words):
        fails(code, train(path("refused"), settings(data, **changed), expecting=code, config=LINEAR), *words)

    refused(USAGE, {"data__resize": 9}, "data.resize", "9 and 10")
    for steps in ("[random_crop, random_resized_crop]", "[random_resized_crop, flip, random_resized_crop]"):
        refused(USAGE, {"data__augment": steps}, "random_resized_crop", "no steps but flips before it")
    refused(USAGE, {"data__augment": "[{random_resized_crop: {scale: [1, 0.5]}}]"}, "scale", "in ascending order")
    refused(USAGE, {"data__augment": "[{random_resized_crop: {padding: 4}}]"}, "scale or ratio")
    refused(DATA, {"data__max_pixels": 100}, "p", ".png", "data.max_pixels, 100")
    fails(DATA, run("data", "verify", "--data", data, "--max-pixels", 100), "data.max_pixels, 100", "--max-pixels")
    refused(DATA, {"data__train": path("no", "such")}, path("no", "such"))
    os.makedirs(path("no-val"))
    refused(DATA, {"data__train": os.path.join(data, "train"), "data__path": path("no-val")}, "data.val: not given", path("no-val", "val"))
    refused(DATA, {"data__path": path("nowhere"), "data__dataset": "image_folder"}, "nowhere", "train/CLASS")
    one = path("one-other")
    shutil.copytree(data, one)
    shutil.rmtree(os.path.join(one, "val", "cow"))
    os.rename(os.path.join(one, "val", "bee"), os.path.join(one, "val", "Bee"))
    refused(DATA, {"data__path": one}, os.path.join(one, "val"), "'bee' and 1 more", "one for 'Bee'")
    empty = path("empty-class")
    shutil.copytree(data, empty)
    os.makedirs(os.path.join(empty, "train", "dog"))
    refused(DATA, {"data__path": empty}, os.path.join(empty, "train", "dog"), "no pictures")
    shutil.rmtree(os.path.join(empty, "train", "dog"))
    os.makedirs(os.path.join(empty, "val", "dog"))
    refused(DATA, {"data__path": empty}, os.path.join(empty, "train"), "'dog'")


@check
def a_picture_that_vanishes_while_training_is_named():
    data = folders("vanishing", train=8, val=2)
    long = settings(data, train__epochs=100000, train__save_interval=1000, train__eval_interval=100000)
    job = start(Ranks(1).words(*train_words(path("vanishing-run"), long, config=LINEAR)))
    wait_for_step(path("vanishing-run"), job, at_least=10)
    os.unlink(os.path.join(data, "train", "cow", "p03.png"))
    fails(DATA, finish(job), "cow/p03.png", "no longer exists")


main()
