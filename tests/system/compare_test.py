"""compare: one network trained in several ways; its table, its page, a failure, a stop and a second call."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import *

WAYS = ["1 CPU rank", "2 CPU ranks, 1 process", "2 CPU ranks, 2 processes", "2 CPU ranks, ZeRO 1",
        "2 CPU ranks, ZeRO 2", "2 CPU ranks, ZeRO 3"]
FOLDERS = ["cpu", "processes", "threads", "zero-1", "zero-2", "zero-3"]


def words(output, *more, steps=6, device="cpu", **changed):
    config, name, _, _, *rest = train_words(output, {**FEW, "data.path": few(), **dotted(changed)})
    length = [] if steps is None else ["--steps", str(steps)]
    return [PROGRAM, "compare", config, name, "--output", output, "--device", device, *length, *rest, *more]


def compare(output, *more, expecting=DONE, env=None, **changed):
    done = finish(start(words(output, *more, **changed), env=env))
    expect_equal(done.returncode, expecting, done.stdout, done.stderr)
    return done


@functools.lru_cache(None)
def compared():
    return compare(path("all"), "--html", path("all.html"))


@check
def every_way_has_a_line_and_the_same_weights():
    lines = compared().stdout.splitlines()
    expect_equal(lines[0].split(), ["seconds", "images/s", "MB/rank", "MB/proc", "MB/step", "accuracy"])
    expect_equal([line[:len(WAYS[2])].rstrip() for line in lines[1:7]], WAYS)
    for line in lines[1:7]:
        expect_match(line, r"  +[\d.]+  +\d+  +[\d.]+  +[\d.]+  +[\d.]+  +[\d.]+ %$")
        expect(len(line) <= 80, line)
    hashes = {records(path("all", folder), "end")[0]["weights_sha256"] for folder in FOLDERS}
    expect_equal(len(hashes), 1)
    expect_equal(lines[7:], ["the same weights by all 6 on CPUs: " + hashes.pop()])
    expect_in("1 GPU: left out, because the device is cpu", compared().stderr)


@check
def the_ways_are_what_they_say():
    for folder in FOLDERS:
        begun = records(path("all", folder), "start")[0]
        expect_equal((begun["ranks"], begun["zero_stage"], begun["train_batch_size"], begun["micro_batch_size"]),
                     (1 if folder == "cpu" else 2, int(folder[-1]) if folder.startswith("zero") else 0, 32, 4))
    used = {folder: records(path("all", folder), "end")[0]["peak_bytes"]["process"] for folder in FOLDERS}
    expect(used["threads"] > 0.8 * used["cpu"], "a process of two ranks needs no less than one of one", used)
    moved = {folder: records(path("all", folder), "end")[0]["traffic"]["bytes"] for folder in FOLDERS}
    expect(moved["cpu"] == 0 < moved["processes"] < moved["zero-3"], moved)


@check
def the_page_has_every_way():
    with open(path("all.html"), encoding="utf-8") as file:
        page = file.read()
    for number, way in enumerate(WAYS, 1):
        expect_in("%d: %s" % (number, way), page)
    expect_in("Memory, traffic and weights", page)


@check
def a_second_call_trains_nothing_again():
    before = {folder: os.stat(path("all", folder, "best.bin")).st_mtime_ns for folder in FOLDERS}
    done = compare(path("all"))
    expect_equal(done.stdout, compared().stdout)
    expect_in("goes on with the comparison that is there", done.stderr)
    expect_equal({folder: os.stat(path("all", folder, "best.bin")).st_mtime_ns for folder in FOLDERS}, before)


@check
def a_comparison_of_other_settings_is_refused():
    compared()
    before = snapshot(path("all"))
    for more, changed, said in [(["--ranks", "4"], {}, "--ranks: 2 there, 4 now"),
                                ([], {"steps": 12}, "train.max_steps: 6 there, 12 now"),
                                (["--lr", "0.01"], {}, "optimizer.params.lr: "), ([], {"seed": 5}, "seed: "),
                                ([], {"data__path": few(64, 8)}, "data.path: "),
                                (["--init", path("all", "cpu", "best.bin")], {}, "initial weights: by the seed there")]:
        done = compare(path("all"), *more, expecting=USAGE, **changed)
        fails(USAGE, done, path("all"), said, "another --output")
        expect_equal(done.stdout, "")
    expect_equal(snapshot(path("all")), before)
    shutil.copytree(path("all"), path("damaged"))
    flip(path("damaged", "comparison.json"), 60)
    fails(USAGE, compare(path("damaged"), expecting=USAGE), "comparison.json", "another --output")


@check
def other_folders_are_refused():
    train(path("run"), {**FEW, "data.path": few(), "train.max_steps": 2})
    before = snapshot(path("run"))
    fails(USAGE, compare(path("run"), expecting=USAGE), path("run"), "holds a run", "another --output")
    expect_equal(snapshot(path("run")), before)
    os.makedirs(path("other", "cpu"))
    fails(USAGE, compare(path("other"), expecting=USAGE), path("other"), "other files and no comparison")


@check
def what_is_given_is_obeyed_or_refused():
    compare(path("as-said"), "--ranks", "1", steps=None, train__max_steps=3)
    expect_equal(records(path("as-said", "cpu"), "end")[0]["step"], 3)
    compare(path("epochs"), "--ranks", "1", steps=None, train__epochs=1)
    expect_equal(records(path("epochs", "cpu"), "end")[0]["step"], 12)
    compare(path("epochs-by-flag"), "--ranks", "1", "-e", "1", steps=None)
    expect_equal(records(path("epochs-by-flag", "cpu"), "end")[0]["step"], 12)
    compare(path("more-than-epochs"), "--ranks", "1", steps=30, train__epochs=1)
    expect_equal(records(path("more-than-epochs", "cpu"), "end")[0]["step"], 30)
    no_gpu = {"CUDA_VISIBLE_DEVICES": ""}
    for more, changed, said in [([], {"train__max_steps": 3}, "--steps and --set train.max_steps=3 are both given"),
                                ([], {"zero_optimization__stage": 2}, "compare trains with every stage"),
                                ([], {"device": "cuda"}, "cuda"), ([], {"data__path": "nope"}, "nope"),
                                (["--lr", "fast"], {}, "fast")]:
        done = compare(path("never"), *more, env=no_gpu, expecting=DATA if "data__path" in changed else USAGE, **changed)
        fails(done.returncode, done, said)
        expect_not_in("MB/rank", done.stderr)
        expect(not os.path.exists(path("never")), said)


@check
def a_way_that_fails_does_not_keep_the_others():
    compared()
    shutil.copytree(path("all"), path("one-fails"))
    shutil.rmtree(path("one-fails", "zero-2"))
    os.makedirs(path("one-fails", "zero-2"))
    with open(path("one-fails", "zero-2", "config.yaml"), "w") as file:
        file.write("a user's\n")
    done = compare(path("one-fails"), expecting=USAGE)
    expect_in("2 CPU ranks, ZeRO 3", done.stdout)
    expect_in("the same weights by all 5 on CPUs", done.stdout)
    expect_match(done.stderr.splitlines()[-1], "^error: 2 CPU ranks, ZeRO 2: .*log.txt")
    with open(path("one-fails", "zero-2", "config.yaml")) as file:
        expect_equal(file.read(), "a user's\n")


@check
def a_way_without_steps_to_go_has_no_figures_of_them():
    compared()
    shutil.copytree(path("all"), path("no-end"))
    file = path("no-end", "threads", "metrics.jsonl")
    with open(file) as lines:
        kept = [line for line in lines if '"event":"end"' not in line]
    with open(file, "w") as lines:
        lines.writelines(kept)
    done = compare(path("no-end"), "--html", path("no-end.html"))
    expect_match(done.stdout, r"2 CPU ranks, 1 process +- +- +- +[\d.]+ +- +[\d.]+ %\n")
    expect_in("-: not measured, because the way was interrupted", done.stdout + done.stderr)
    expect_in("the same weights by all 6 on CPUs", done.stdout)
    end = records(path("no-end", "threads"), "end")[0]
    expect_equal([end["samples_per_sec"], end["traffic"]["bytes"]], [None, None])


@check
def a_stopped_comparison_goes_on():
    process = start(words(path("stopped"), steps=150, train__epochs=100))
    wait_until(lambda: os.path.exists(path("stopped", "threads", "metrics.jsonl")), process)
    process.send_signal(signal.SIGTERM)
    done = finish(process)
    expect_equal(done.returncode, STOPPED, done.stderr)
    expect_in("run the same command again", done.stderr)
    expect_in("the same weights by all 6", compare(path("stopped"), steps=150, train__epochs=100).stdout)


@check
def words_that_do_not_fit():
    for more, said in [(["--set", "output=x"], "compare puts the folders of its runs"), (["--ranks", "0"], "--ranks"),
                       (["--ranks", "3"], "--ranks 3 does not divide the batch of 32 images")]:
        expect_in(said, compare(path("refused"), *more, expecting=USAGE).stderr)
    with open(path("a.html"), "w") as file:
        file.write("a user's\n")
    expect_in("a.html", compare(path("refused"), "--html", path("a.html"), expecting=USAGE).stderr)
    expect_in("compare.html", compare(path("refused"), "--html", path("a.csv"), expecting=USAGE).stderr)
    expect(not os.path.exists(path("refused")))


main()
