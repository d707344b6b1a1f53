"""report draws runs: as a page, in the terminal, as a table and as a picture, also of runs that go on or are damaged."""
import concurrent.futures
import csv
import html.parser
import io
import math
import os
import sys
import xml.etree.ElementTree

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import *

# All that the program writes into a page: whatever else is found there came from a run's folder.
ELEMENTS = set("""html head meta title style body a header h1 h2 h3 nav ul li main section p div table caption thead tbody
tr th td figure figcaption details summary svg desc text line polyline circle rect path g span strong bdi wbr""".split())
ATTRIBUTES = set("""lang charset name content http-equiv class href id aria-label aria-labelledby aria-hidden role
tabindex scope title width height viewbox preserveaspectratio overflow x y x1 x2 y1 y2 cx cy r d dx points stroke-dasharray
transform style fill-opacity""".split())
VOID = {"meta"}


class Page(html.parser.HTMLParser):
    """A page, of which every element and attribute must be the program's own and every element closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.links, self.words, self.rows, self.labels = [], [], [], [], [], []
        self.broken = False
        self.feed(text)
        self.close()
        expect_equal(self.open, [])
        expect_equal(len(set(self.ids)), len(self.ids), "ids are unique")
        expect(set(self.links) <= set(self.ids), self.links, self.ids)

    def handle_starttag(self, tag, attributes):
        self.check(tag, attributes)
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append((dict(attributes).get("class", ""), []))
        self.broken = False

    def handle_startendtag(self, tag, attributes):
        self.check(tag, attributes)
        self.broken = tag == "wbr"  # the text goes on

    def check(self, tag, attributes):
        expect(tag in ELEMENTS, "<%s>" % tag)
        for name, value in attributes:
            expect(name in ATTRIBUTES, "<%s %s=%r>" % (tag, name, value))
            expect(name != "href" or value.startswith("#"), value)
            known = (r"(width: (calc\(100% - )?\d+px\)?|fill: var\(--ground\)|text-anchor: \w+|--[a-z]+: [-\d.]+(px)?"
                     r"|--sheet: url\(data:image/png;base64,[\w+/=]+\)|; )*")
            expect(name != "style" or re.fullmatch(known, value), value)
            if name == "id":
                self.ids.append(value)
            if name == "aria-label":
                self.labels.append(value)
            if name == "href":
                self.links.append(value[1:])

    def handle_endtag(self, tag):
        expect_equal(tag, self.open.pop())

    def handle_data(self, text):
        if self.open and self.open[-1] == "style":
            expect("://" not in text and "<" not in text, text)
            return
        cells = self.rows[-1][1] if self.open and self.open[-1] in ("td", "th") and text.strip() else []
        for texts in (self.words, cells):
            texts[-1:] = [texts[-1] + text] if self.broken and texts else [*texts[-1:], text]

    def handle_decl(self, text):
        expect_equal(text, "DOCTYPE html")

    def handle_comment(self, text):
        raise AssertionError("a comment: " + text)

    handle_pi = unknown_decl = handle_comment

    def text(self):
        return " ".join(" ".join(self.words).split())

    def row(self, head):
        """The cells of the row that begins so, and its class."""
        found = [(cells, mark) for mark, cells in self.rows if cells and cells[0] == head]
        expect(found, "no row %r" % head, self.rows)
        return found[0]


def page_of(*words):
    done = succeeds("report", *words)
    with open(done.stdout.strip(), encoding="utf-8") as file:
        return Page(file.read()), done


@functools.lru_cache(None)
def trained():
    train(path("run"), {**FEW, "data.path": few(), "train.epochs": 3, "data.validation": 80, "train.best.split": "val"})
    return path("run")


START, END = {"event": "start"}, {"event": "end", "step": 8, "reason": "finished"}


def made_up(folder, lines, config="seed: 1\n"):
    """A folder with these records, and with a configuration unless that is None."""
    os.makedirs(folder)
    with open(os.path.join(folder, "metrics.jsonl"), "wb") as file:
        for line in lines:
            file.write(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n")
    if config is not None:
        with open(os.path.join(folder, "config.yaml"), "w") as file:
            file.write("%s# as cifar-train wrote it, CRC32C %08x\n" % (config, crc32c(config.encode())))
    return folder


def changed(name, change):
    """A copy of a finished run, changed by a function of its folder; its page and warning."""
    folder = path(name)
    shutil.copytree(trained(), folder)
    change(folder)
    return page_of(folder)


def rewritten(name, old, new):
    """A function that replaces a text in a file of a run's folder."""
    def rewrite(folder):
        with open(os.path.join(folder, name)) as file:
            text = file.read()
        expect(re.search(old, text), name, old)
        with open(os.path.join(folder, name), "w") as file:
            file.write(re.sub(old, new, text, count=1))
    return rewrite


def step(number, **fields):
    return {"event": "step", "step": number, "epoch": 1, "loss": 2 / number, "lr": 0.1, "grad_norm": 1.0,
            "samples_per_sec": 100.0, "wait_fraction": 0.1, **fields}


# ---- the page

@check
def a_page_shows_a_run():
    page, done = page_of(trained())
    expect_equal(done.stdout, path("run", "report.html") + "\n")
    expect_equal(done.stderr, "")
    expect(page.ids[:2] != [] and {"results", "summary", "curves", "configuration", "machine"} <= set(page.ids), page.ids)
    end, evals = records(trained(), "end")[-1], records(trained(), "eval")
    expect_equal(page.row("weights_sha256")[0][1], end["weights_sha256"])
    best = [e for e in evals if e["split"] == "val" and e["step"] == end["best"]["step"]][-1]
    expect(page.row("best.bin")[0][1].startswith(
        "%.2f %% of the validation images, top 5 %.2f %%, loss " % (100 * best["accuracy"], 100 * best["top5"])),
           page.row("best.bin"))
    expect_equal(page.row("state")[0][1], "finished")
    expect_equal(page.row("train.epochs"), (["train.epochs", "3", "--set train.epochs=3"], "given"))
    expect_equal(page.row("data.sampler"), (["data.sampler", "uniform", "default"], ""))
    expect_match(page.row("train.log_format")[0][2], r"^default\.yaml:\d+$")
    expect_equal(page.row("train.log_format")[1], "")
    expect_match(page.text(), r"Read from /\S+/default\.yaml")
    expect_equal(page.row("host")[0][1], records(trained(), "start")[-1]["host"])
    finite = [cells[0] for _, cells in page.rows if cells[-1] == "all tensors are finite"]
    expect_equal(finite, [str(number) for number in checkpoints(trained())])


@check
def a_report_replaces_a_report_and_no_other_file():
    page_of(trained())
    page_of(trained())
    for name in ("mine.html", "mine.csv", "mine.svg", "mine"):
        with open(path(name), "w") as file:
            file.write("<html>mine</html>")
        for words in ([], ["--csv"] if name in ("mine.csv", "mine") else ["--svg"] if name == "mine.svg" else []):
            bad(USAGE, "was not written by this program", "report", trained(), *words, "--out", path(name))
        with open(path(name)) as file:
            expect_equal(file.read(), "<html>mine</html>")
    bad(USAGE, "there is no folder", "report", trained(), "--out", path("nowhere", "a.html"))
    bad(USAGE, "best.bin' is no folder", "report", trained(), "--out", os.path.join(trained(), "best.bin", "a.html"))
    bad(USAGE, "--out '' names no file", "report", trained(), "--out", "")
    for form in [], ["--csv"], ["--svg"]:
        bad(USAGE, "--out - names no file: give /dev/stdout", "report", trained(), *form, "--out", "-")
    bad(USAGE, "was not written", "report", trained(), "--csv", "--out", os.path.join(trained(), "metrics.csv"))


@check
def the_ending_of_out_names_the_form():
    for name, beginning, words in (("form.csv", "run,event,", []), ("form.SVG", "<?xml", []), ("form.htm", "<!DOCTYPE", []),
                                   ("form", "<!DOCTYPE", []), ("form.txt", "run,event,", ["--csv"])):
        good("report", trained(), *words, "--out", path(name))
        with open(path(name)) as file:
            expect(file.read().startswith(beginning), name)
    for name, words, said in (("a.svg", ["--csv"], "contradicts --csv"), ("a.html", ["--svg"], "contradicts --svg"),
                              ("a.png", [], "give a name such as report.html")):
        bad(USAGE, said, "report", trained(), *words, "--out", path(name))
        expect(not os.path.exists(path(name)), name)


@check
def what_is_no_run_is_refused():
    os.makedirs(path("empty"))
    bad(USAGE, "there is no such folder", "report", path("nothing"))
    bad(USAGE, "holds no run", "report", path("empty"))
    bad(USAGE, "is no folder", "report", os.path.join(trained(), "best.bin"))
    bad(USAGE, "holds no run", "report", path("empty"), path("nothing"))
    bad(USAGE, "RUN is required", "report")
    made_up(path("binary"), [os.urandom(5000)])
    bad(USAGE, "holds no run", "report", path("binary"))
    page, done = page_of(trained(), path("empty"), "--out", path("with-empty.html"))
    expect_equal(done.stderr, "warning: the report is incomplete: '%s' holds no run: give the folder of a run (its --output), "
                 "with its metrics.jsonl, or of several\n" % path("empty"))
    expect_in("holds no run", page.text())


@check
def a_run_that_goes_on_is_drawn_without_its_incomplete_line():
    folder = made_up(path("going-on"), [{"event": "start", "step": 0}, step(10), step(20), b'{"event":"step","st'])
    page, done = page_of(folder)
    expect_match(done.stderr, "^warning: .*metrics.jsonl: its last line is no record, or was cut\n$")
    expect_in("was killed, or failed: the newest record is of", page.row("state")[0][1])
    expect_equal(page.row("optimizer steps")[0][1], "20")
    with open(os.path.join(folder, ".lock"), "w") as file:
        file.write("pid 1 on host elsewhere, pids of b/c\n")
    page, done = page_of(folder)
    expect_equal(done.stderr, "")
    expect_in("goes on, or was interrupted: the newest record is of", page.row("state")[0][1])


@check
def a_run_whose_lock_is_held_goes_on():
    folder = path("held")
    job = start([PROGRAM, *train_words(folder, {**FEW, "data.path": few(), "train.epochs": 1000000})])
    wait_for_step(folder, job, at_least=20)
    expect_match(page_of(folder)[0].row("state")[0][1], "^goes on: the newest record is of")
    job.kill()
    finish(job)
    page, _ = page_of(folder)
    expect_match(page.row("state")[0][1], "^was killed, or failed: the newest record is of")
    expect_equal(len(page.row("plane")[0]), 2)  # the recall of the class, whose name best.bin has
    with open(os.path.join(folder, "log.txt"), "w") as file:
        file.write("warning: a\nerror: diverged: 3 steps\n")
    expect_equal(page_of(folder)[0].row("state")[0][1], "failed: diverged: 3 steps")


@check
def a_run_that_diverged_says_so():
    done = train(path("diverged"), {**FEW, "data.path": few(), "scheduler": "{}", "optimizer.type": "SGD",
                                    "optimizer.params": "{lr: 1e38}", "gradient_clipping": 0}, expecting=DIVERGED)
    why = re.search("error: (diverged: .*?);", done.stderr)[1]
    page, done = page_of(path("diverged"))
    expect_equal((page.row("state")[0][1], done.stderr), (why, ""))


@check
def what_contradicts_itself_is_named():
    with open(os.path.join(trained(), "metrics.jsonl")) as file:
        first_lines = file.readline() + file.readline()
    last = checkpoints(trained())[-1]
    cases = [
        (rewritten("config.yaml", "epochs: 3", "epochs: 4"), "config.yaml: it was changed since the run wrote it"),
        (lambda folder: os.truncate(os.path.join(folder, "metrics.jsonl"), 0), "metrics.jsonl: there is no record in it"),
        (lambda folder: os.truncate(os.path.join(folder, "metrics.jsonl"), len(first_lines)),
         "metrics.jsonl: its end is missing"),
        (rewritten("metrics.jsonl", r'\{"event":"start".*\n', ""), "metrics.jsonl: its start is missing"),
        (lambda folder: shutil.rmtree(os.path.join(folder, "ckpt")), "ckpt: the checkpoint of step %d, of which" % last),
        (lambda folder: shutil.rmtree(os.path.join(folder, "ckpt", "step-%08d" % last)),
         "ckpt: the checkpoint of step %d, of which" % last),
        (lambda folder: os.remove(os.path.join(folder, "evaluation.json")), "evaluation.json: there is none"),
        (lambda folder: in_place_of(os.path.join(folder, "evaluation.json"), lambda at: os.symlink("nowhere", at)),
         "evaluation.json: there is none"),
        (rewritten("evaluation.json", r'"accuracy":[\d.]+', '"accuracy":0.99'), 'evaluation.json: "accuracy" contradicts'),
        (rewritten("evaluation.json", r'"recall":[\d.]+', '"recall":0.99'), 'evaluation.json: "classes" contradicts'),
        (rewritten("evaluation.json", r'"images":\d+', '"images":7'), 'evaluation.json: "images" contradicts'),
        (rewritten("evaluation.json", r'"loss":\d', '"loss":7'), "evaluation.json: its figures are not those of metrics.jsonl"),
        (rewritten("metrics.jsonl", r'("split":"test".*"accuracy":)[0-9.]+', r'\1null'), "evaluation.json: its figures are not"),
        (rewritten("metrics.jsonl", r'("split":"test".*"images":)', r'\g<1>1'), "evaluation.json: its figures are not"),
        (rewritten("metrics.jsonl", r'("split":"test".*"accuracy":)', r'\g<1>7'), "metrics.jsonl: 1 line is no record"),
        (rewritten("evaluation.json", r'("right":.*?"probability":)[\d.]+', r"\g<1>-3"), 'evaluation.json: "right" is damaged'),
        (rewritten("evaluation.json", r'("wrong":.*?"probability":)[\d.]+', r"\g<1>null"), 'evaluation.json: "wrong" is damaged'),
        (rewritten("evaluation.json", r'("right":.*?"label":)(\d)', lambda m: m[1] + str((int(m[2]) + 1) % 10)),
         'evaluation.json: "right" is damaged'),
        (rewritten("evaluation.json", "evaluation 1", "evaluation 2"), "evaluation.json: a newer version of cifar-train"),
        (lambda folder: rewritten("metrics.jsonl", '"version":"[^"]+"', '"version":"77.7"')(folder) or
         rewritten("metrics.jsonl", '{"event":"epoch"', '[{"event":"epoch"')(folder),
         r"metrics.jsonl: 1 line is no record that cifar-train \S+ knows: cifar-train 77.7 wrote them"),
        (doubled, r"metrics.jsonl: \d+ records repeat steps or go back: it has lines twice"),
        (another_config, "config.yaml: is of another run: seed is 8, in metrics.jsonl 42"),
        (rewritten("metrics.jsonl", '"weights_sha256":"..', '"weights_sha256":"'),
         "metrics.jsonl: weights_sha256 is not 64 hexadecimal digits"),
        (lambda folder: append(os.path.join(folder, "metrics.jsonl"), bytes(500)),
         "metrics.jsonl: its last line is no record, or was cut"),
        *[(lambda folder, name=name, change=change: change(os.path.join(folder, name)), name + ": " + expected)
          for name in ("best.bin", "last.bin") for change, expected in [
              (os.remove, "there is none, although"), (lambda at: os.truncate(at, 5000), ".*truncated"),
              (lambda at: in_place_of(at, os.mkdir), ".*regular file"),
              (lambda at: in_place_of(at, os.mkfifo), ".*regular file")]],
    ]
    for i, (change, expected) in enumerate(cases):
        page, done = changed("contradiction-%d" % i, change)
        expect_match(done.stderr, "^warning: .*" + expected)
        expect_match(page.text(), expected)
    for i in (1, 2):
        expect_match(page_of(path("contradiction-%d" % i))[0].row("state")[0][1], "^ended, of which there is no record")
    # which a run that was stopped has not written yet
    expect_equal(page_of(made_up(path("stopped"), [START, step(1), {"event": "end", "step": 1, "reason": "stopped"}]))[1].stderr, "")
    folder = path("pruned")
    shutil.copytree(trained(), folder)
    good("ckpt", "prune", folder, "--keep", "1")
    expect_equal(page_of(folder)[1].stderr, "")


def append(at, content):
    with open(at, "ab") as file:
        file.write(content)


def doubled(folder):
    with open(os.path.join(folder, "metrics.jsonl"), "r+b") as file:
        file.write(file.read() * 2)


def another_config(folder):
    with open(os.path.join(folder, "config.yaml"), "r+") as file:
        text = re.sub("seed: 42", "seed: 8", file.read().rpartition("# as cifar-train wrote it")[0])
        file.seek(0)
        file.truncate()
        file.write("%s# as cifar-train wrote it, CRC32C %08x\n" % (text, crc32c(text.encode())))


def in_place_of(at, make):
    os.remove(at)
    make(at)


@check
def damaged_checkpoints_are_named():
    last = checkpoints(trained())[-1]
    for i, (name, change, expected) in enumerate([
            ("optim-00-of-01.safetensors", os.remove, "it is missing"),
            ("weights.safetensors", lambda at: os.truncate(at, 5000), "it has 5000 bytes, the manifest says"),
            ("weights.safetensors", lambda at: append(at, b"more"), "bytes, the manifest says"),
            ("weights.safetensors", lambda at: flip(at, 50), "header"),
            ("weights.safetensors", lambda at: in_place_of(at, os.mkdir), "regular file"),
            ("weights.safetensors", lambda at: in_place_of(at, os.mkfifo), "regular file"),
            ("state.json", lambda at: os.truncate(at, 7), "it has 7 bytes, the manifest says"),
            ("state.json", lambda at: in_place_of(at, lambda at: os.symlink("manifest.json", at)), "link"),
            ("manifest.json", os.remove, "it is missing")]):
        page, done = changed("damaged-checkpoint-%d" % i, lambda folder: change(
            os.path.join(folder, "ckpt", "step-%08d" % last, name)))
        expect_match(done.stderr, r"^warning: .*the checkpoint of step %d: .*%s'.*%s" % (last, name, expected))
        expect_in("the checkpoint of step %d: " % last, page.text())
        states = [cells[-1] for _, cells in page.rows if cells[0] == str(last) and len(cells) == 4]
        expect_equal(states, ["damaged"])


@check
def damaged_parts_are_named_and_the_rest_is_drawn():
    folder = made_up(path("damaged"), [START, step(10), b"\x00\x01garbage\n", step(20), b'{"event":"step"}\n'], "a: [\n")
    os.makedirs(os.path.join(folder, "ckpt", "step-00000010"))
    page, done = page_of(folder)
    expect_equal(len(done.stderr.splitlines()), 1, done.stderr)
    expect_match(done.stderr, r"^warning: .*metrics.jsonl: 2 lines are no record \(the page lists 2 more\)\n$")
    for part in ("metrics.jsonl: 2 lines are no record", "config.yaml: ", "the checkpoint of step 10: "):
        expect_in(part, page.text())
    expect_equal(page.row("optimizer steps")[0][1], "20")


# ---- the evaluation at the end

def evaluation_files(folder):
    found = []
    for name in ("evaluation.json", "evaluation.png"):
        with open(os.path.join(folder, name), "rb") as file:
            found.append(file.read())
    return found


@check
def the_evaluation_is_that_of_eval():
    record = json.loads(evaluation_files(trained())[0])
    said = json.loads(good("eval", "--ckpt", trained(), "--json", "--confusion", path("c.csv"), "--predictions", path("p.csv")))
    for key in ("loss", "accuracy", "images", "split", "step"):
        expect_equal(record[key], said[key], key)
    for mine, others in zip(record["classes"], said["classes"]):
        expect_equal([mine[k] for k in ("name", "precision", "recall", "f1")], [others[k] for k in ("name", "precision", "recall", "f1")])
    expect(abs(record["calibration"]["ece"] - said["ece"]) < 1e-6, record["calibration"], said["ece"])
    with open(path("c.csv")) as file:
        (_, *names), *rows = csv.reader(file)
    expect_equal({(a, b): n for a, b, n in record["confusion"]},
                 {(a, b): int(n) for a, row in enumerate(rows) for b, n in enumerate(row[1:]) if n != "0"})
    with open(path("p.csv")) as file:
        rows = list(csv.DictReader(file))
    for kind in ("right", "wrong"):
        wanted = [r for r in rows if (r["label"] == r["predicted"]) == (kind == "right")]
        wanted.sort(key=lambda r: -float(r["probability"]))
        for picture, row in zip(record[kind], wanted):
            expect(abs(picture["answers"][0]["probability"] - float(row["probability"])) < 1e-6, picture, row)
            expect(abs(picture["label_probability"] - float(row["label_probability"])) < 1e-6, picture, row)
            expect_equal(names[picture["label"]], rows[picture["image"]]["label"])
        expect_equal(len(record[kind]), min(len(wanted), 32))


@check
def a_run_that_ends_beyond_its_last_step_is_evaluated_in_full():
    sets = {**FEW, "data.path": few(), "train.epochs": 1000000, "train.eval_interval": 1000000}
    job = start([PROGRAM, *train_words(path("beyond"), sets)])
    wait_for_step(path("beyond"), job, at_least=20)
    job.send_signal(signal.SIGUSR1)
    expect_equal(finish(job).returncode, STOPPED)
    train(path("beyond"), {**sets, "train.epochs": 1})
    record = json.loads(evaluation_files(path("beyond"))[0])
    expect_equal(sum(n for _, _, n in record["confusion"]), record["images"])
    good("report", path("beyond"), "--out", path("beyond.html"))
    with open(path("beyond.html")) as page:  # what came before is no part of the time
        expect_match(page.read(), r">time</th>\s*<td[^>]*>[\d.]+ s since step \d+<")


@check
def the_evaluation_is_the_same_on_any_ranks_and_stage():
    wanted = evaluation_files(trained())
    expect(len(wanted[1]) < 1 << 20 and wanted[1].startswith(b"\x89PNG"), len(wanted[1]))
    for name, ranks, stage in [("two", 2, 0), ("four", 4, 3)]:
        train(path(name), {**FEW, "data.path": few(), "train.epochs": 3, "data.validation": 80, "train.best.split": "val",
                           "zero_optimization.stage": stage}, ranks=Ranks(ranks))
        expect(evaluation_files(path(name)) == wanted, name)


@check
def a_run_knows_the_files_of_its_evaluation():
    settings = {**FEW, "data.path": few(), "train.epochs": 1}
    for name in ("evaluation.json", "evaluation.png"):
        os.makedirs(path("foreign " + name))
        with open(path("foreign " + name, name), "w") as file:
            file.write("mine")
        fails(USAGE, train(path("foreign " + name), settings, expecting=USAGE), name, "was not written by this program")
    folder = path("goes on")
    train(folder, settings)
    for name in ("evaluation.json", "evaluation.png"):
        with open(os.path.join(folder, name), "w") as file:
            file.write("mine")
    done = train(folder, {**settings, "train.epochs": 2})
    for name in ("evaluation.json", "evaluation.png"):
        expect_in("%s' was changed since the run wrote it" % name, done.stderr)
        with open(os.path.join(folder, name + ".aside")) as file:
            expect_equal(file.read(), "mine")
    expect_equal(json.loads(evaluation_files(folder)[0])["step"], 24)
    train(folder, {**settings, "train.epochs": 3, "train.max_steps": 26}, "--reset")
    expect_equal(json.loads(evaluation_files(folder)[0])["step"], 26)


@check
def a_page_shows_the_evaluation():
    page, _ = page_of(trained())
    record = json.loads(evaluation_files(trained())[0])
    expect_in("evaluation", page.ids)
    for one in record["classes"]:
        expect_equal(page.row(one["name"])[0][2:4], ["%.2f %%" % (100 * one[key]) for key in ("recall", "precision")])
    for title in ("Confusion matrix", "Reliability", "Most confident right answers", "Most confident wrong answers"):
        expect_in(title, page.text())
    pictures = [words for words in page.labels if words.startswith("image ")]
    expect_equal(len(pictures), len(record["right"]) + len(record["wrong"]))
    folder = path("without sheet")
    shutil.copytree(trained(), folder)
    flip(os.path.join(folder, "evaluation.png"), -20)
    page, done = page_of(folder)
    expect_match(done.stderr, "^warning: .*evaluation.png: it does not belong to evaluation.json, or is damaged\n$")
    expect_in("Most confident right answers", page.text())


@check
def a_full_disk_is_reported():
    for words in ([], ["--csv"], ["--svg"]):
        bad(IO, "No space left", "report", trained(), *words, "--out", "/dev/full")


# ---- several runs

def with_evaluation(name):
    """A copy of the trained run, and its evaluation.json to be changed."""
    folder = path(name)
    shutil.copytree(trained(), folder)
    with open(os.path.join(folder, "evaluation.json")) as file:
        return folder, json.load(file)


def write_evaluation(folder, record):
    with open(os.path.join(folder, "evaluation.json"), "w") as file:
        json.dump(record, file, separators=(",", ":"))


@check
def many_classes_have_a_map_of_their_confusions():
    folder, record = with_evaluation("many-classes")
    record["classes"] += [{**record["classes"][0], "images": 0, "predicted": 0, "name": "more-%d" % i} for i in range(30)]
    write_evaluation(folder, record)
    good("report", folder)
    with open(os.path.join(folder, "report.html"), encoding="utf-8") as file:
        page = file.read()
    expect_in("Confusion matrix of 40 classes", page)
    expect_equal(page_of(folder)[1].stderr, "")
    expect_equal(sum(shade.count("M") for shade in re.findall(r' d="(M[^"]*)" fill-opacity', page)), len(record["confusion"]))


@check
def runs_beside_each_other_have_their_differing_keys_marked():
    folders = [made_up(path("beside", name), [step(i, loss=i) for i in range(1, 9)] +
                       [{"event": "eval", "split": "val", "step": 8, "epoch": 1, "loss": 1, "accuracy": accuracy}, END],
                       "seed: 1\noutput: %s\noptimizer: {params: {lr: %s}}\n" % (name, lr))
               for name, lr, accuracy in [("a", 0.1, 0.5), ("b", 0.2, 0.75)]]
    page, done = page_of(*folders, "--out", path("beside.html"))
    expect_equal(page.row("\u2260\u00a0optimizer.params.lr"), (["\u2260\u00a0optimizer.params.lr", "0.1", "0.2"], "differs"))
    expect_equal(page.row("seed"), (["seed", "1", "1"], ""))
    cells, mark = page.row("\u2605 2: %s (best)" % folders[1])
    expect_equal((mark, cells[1:5]), ("best", ["75.00 % val", "1", "-", "0.2"]))


@check
def what_other_images_judged_is_not_ranked():
    def run(name, images=80, dataset="CIFAR-100", labels="fine", accuracy=0.5, judged=True, ended=True):
        evaluated = {"event": "eval", "split": "val", "step": 8, "epoch": 1, "loss": 1, "accuracy": accuracy, "images": images}
        return made_up(path("judged", name), [{"event": "start", "dataset": dataset}, *[step(i, loss=i) for i in range(1, 9)],
                                              *([evaluated] if judged else []), *([END] if ended else [])],
                       "seed: 1\noutput: %s\ndata: {labels: %s}\ntrain: {epochs: %s}\n" % (name, labels, len(name)))

    first = run("a")
    differ = "because the runs were evaluated on different images"
    cases = [(run("as-many"), None), (run("more-images", images=90), differ), (run("other-set", dataset="CIFAR-10"), differ),
             (run("labels", labels="coarse"), differ), (run("unjudged", judged=False), "because run 2, .*, was not evaluated"),
             (run("going-on", ended=False), "because run 2, .*, has not ended"),
             (run("without-accuracy", accuracy=None), "because run 2, .*, has no accuracy")]
    for other, why in cases:
        page, _ = page_of(first, other, "--out", path("judged.html"))
        text = " ".join(good("report", first, other, "--text").split())
        expect_equal([mark for mark, _ in page.rows].count("best"), 0 if why else 1, other)
        if why:
            expect_match(page.text(), "(?s).*No row is marked as the best, " + why)
            expect_match(text, ".*None is named as the best, " + why)
        else:
            expect_in("The best: ", text)


@check
def folds_of_which_some_have_an_image_more_are_ranked():
    output = path("folds")  # 400 images
    done = succeeds("sweep", "--config", DEFAULT, "--set", "data.path=" + few(), "--set", "data.on_corrupt=skip", "--folds", "3",
                    "--grid", "train.epochs=1,2", "--output", output)
    best = re.search(r"the best by its validation images: (\S+),", done.stderr).group(1)
    page, _ = page_of(output)
    expect_equal([cells[:2] for mark, cells in page.rows if mark == "best"], [["\u2605 %s (best)" % best, "3 of 3"]])


@check
def the_page_goes_nowhere_but_into_the_folder():
    for name, make, said in [("fifo", os.mkfifo, "is a device, pipe or socket"),
                             ("link", lambda at: os.symlink(path("outside.html"), at), "is a link")]:
        folder = path("page-" + name)
        shutil.copytree(trained(), folder)
        page = os.path.join(folder, "report.html")
        if os.path.exists(page):
            os.remove(page)
        make(page)
        fails(USAGE, run("report", folder), "report.html' " + said, "give --out FILE")
    expect(not os.path.exists(path("outside.html")))


@check
def long_names_keep_their_ends():
    folder, record = with_evaluation("long-names")
    names = ["n" * 100 + str(i) for i in range(10)]
    for one, name in zip(record["classes"], names):
        one["name"] = name
    write_evaluation(folder, record)
    page, _ = page_of(folder)
    for i, name in enumerate(names):
        page.row(name)  # the table of classes
        page.row("n" * 40 + "..." + "n" * 19 + str(i))  # the matrix
    with open(os.path.join(folder, "report.html"), encoding="utf-8") as file:
        expect_in('title="%s"' % names[3], file.read())


@check
def a_folder_has_its_name_and_place():
    folder = trained()
    expect_equal(finish(start([PROGRAM, "report", "."], cwd=folder)).stdout, "./report.html\n")
    with open(os.path.join(folder, "report.html"), encoding="utf-8") as file:
        expect_in("<h1>run</h1>", file.read())
    locked = path("locked")
    shutil.copytree(folder, locked)
    os.chmod(locked, 0o555)
    os.chmod(scratch(), 0o755)
    nobody = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
    try:
        done = finish(start([PROGRAM, "report", locked], **nobody))
    except PermissionError:
        raise Skip("the program lies where nobody cannot reach it")
    fails(IO, done, "cannot write the report into '%s': Permission denied: give --out FILE" % locked)


@check
def a_run_that_is_given_twice_is_shown_once():
    page, done = page_of(trained(), trained() + "/", "--out", path("twice.html"))
    expect_equal(done.stderr, "warning: '%s/' is given twice: the report shows each run once\n" % trained())
    expect_equal(page.row("state")[0][1], "finished")  # which a page of one run has
    expect_in("1 run, written", page.text())


@check
def a_folder_of_runs_is_a_comparison():
    made_up(path("several", "b"), [step(1)])
    made_up(path("several", "a"), [step(1)], "seed: 2\n")
    page, _ = page_of(path("several"))
    expect_equal((page.row("1: a")[0][3:], page.row("2: b")[0][3:])[0][0], "-")
    expect_in("2 runs", page.text())


@check
def a_sweep_shows_what_it_has_and_what_is_gone():
    folder = path("sweep-going-on")
    names = ["lr=%s,seed=%d" % (lr, seed) for lr in (0.1, 0.2) for seed in (1, 2, 3)]
    for seed in (1, 2):
        lines = [START, step(1), {"event": "eval", "split": "val", "step": 1, "epoch": 1, "loss": 1, "accuracy": seed / 4}]
        made_up(os.path.join(folder, names[seed - 1]), [*lines, {"event": "end", "step": 1, "reason": "finished"}][:5 - seed],
                "seed: %d\noptimizer: {params: {lr: 0.1}}\n" % seed)
        for name in ("best.bin", "last.bin"):
            os.link(os.path.join(trained(), name), os.path.join(folder, names[seed - 1], name))
    plan = {"event": "sweep", "initial": "", "runs": names, "keys": ["seed", "optimizer.params.lr"]}
    begun = [{"event": "begin", "run": name, "time": 1.0} for name in names[:2]]

    def report_with(*lines):
        with open(os.path.join(folder, "sweep.jsonl"), "w") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
        return page_of(folder)

    page, done = report_with(plan, *begun)
    expect_match(done.stderr, r"^warning: .*evaluation.json: there is none[^(]*\n$")  # of a run that has ended
    expect_in("A sweep of 6 runs, of which 2 have begun, 1 has ended", page.text())
    expect_in("optimizer.params.lr", page.row("run")[0])
    expect_in("No row is marked as the best", page.text())
    expect(all(mark != "best" for mark, _ in page.rows), page.rows)
    with open(os.path.join(folder, names[1], "log.txt"), "w") as file:
        file.write("error: diverged\n")
    page, _ = report_with(plan, *begun)
    expect_in("2 have begun, 1 has ended, 1 has failed", page.text())
    expect_equal(page.row("error")[0][1], "diverged")
    page, done = report_with(plan, *begun, {"event": "begin", "run": names[2], "time": 1.0})
    expect_match(done.stderr, "^warning: .*'%s': the run's folder is gone, although sweep.jsonl" %
                 re.escape(os.path.join(folder, names[2])))
    page, done = report_with(plan, *begun, {"event": "run", "run": names[0], "code": 8, "seconds": 1.0})
    expect_in("sweep.jsonl says that its process failed with exit code 8, so it is no result", page.text())
    expect_in("2 have begun, 0 have ended, 2 have failed", page.text())
    expect_equal(page.row("1")[0][-1], "failed")


@check
def damaged_records_of_a_sweep_are_named():
    folder = path("damaged-sweep")
    made_up(os.path.join(folder, "seed=1"), [START, step(1)])
    plan = json.dumps({"event": "sweep", "initial": "", "runs": ["seed=1"], "keys": ["seed"]}).encode() + b"\n"
    begin = b'{"event":"begin","run":"seed=1","time":1.0}\n'
    at, table = os.path.join(folder, "sweep.jsonl"), b"\n| settings |\n"

    def write(content):
        with open(at, "wb") as file:
            file.write(content)
    write(plan + begin)
    expect_equal(page_of(folder)[1].stderr, "")
    for change, expected in [(lambda: append(at, b"\0\0\n[]\n"), "2 lines are no record"),
                             (lambda: write(plan + begin[:20]), "1 line is no record"),
                             (lambda: write(b""), "the names of its runs are not in it"),
                             (lambda: in_place_of(at, os.mkdir), "it is no file"),
                             (lambda: os.rmdir(at) or os.mkfifo(at), "it is no file"),
                             (lambda: os.remove(at) or append(os.path.join(folder, "table.md"), (
                                 b"<!-- cifar-train sweep, CRC32C %08x -->\n" % crc32c(table)) + table),
                              "it is gone, although there is a sweep's table.md")]:
        change()
        page, done = page_of(folder)
        expect_match(done.stderr, "^warning: .*'%s': %s, so not all is known of the sweep\n$" % (re.escape(at), expected))
        expect_in("A sweep of 1 run", page.text())


@check
def the_best_row_of_a_sweep_is_marked():
    output = path("sweep")
    done = succeeds("sweep", "--config", DEFAULT, "--set", "data.path=" + few(), "--set", "data.on_corrupt=skip", "--set",
                    "data.validation=80", "--set", "train.epochs=1", "--grid", "scheduler.params.warmup_max_lr=1e-06,2e-06",
                    "--repeats", "2", "--output", output)
    page, _ = page_of(output)
    rows = {cells[0]: cells for _, cells in page.rows if "warmup_max_lr=" in cells[0]}
    expect_equal(len({cells[2] for cells in rows.values()}), 1, "the rates are so small that their accuracies are the same", rows)
    # The loss decides, in both programs, and only the row of the settings is marked.
    with open(os.path.join(output, "results.txt")) as file:
        blocks = re.findall(r" params: \S*=(\S+)(?s:.*?)best_val_loss: (\S+)", file.read())
    loss = {rate: sum(float(number) for of, number in blocks if of == rate) for rate, _ in blocks}
    expect_equal(len(set(loss.values())), 2, blocks)
    best = "scheduler.params.warmup_max_lr=" + min(loss, key=loss.get)
    expect_match(done.stderr, "the best by its validation images: %s, " % best)
    expect_equal([cells[:2] for mark, cells in page.rows if mark == "best"], [["\u2605 %s (best)" % best, "2 of 2"]])
    with open(os.path.join(output, "table.md")) as file:
        expect_in(rows["\u2605 %s (best)" % best][2].split()[0], file.read())
    expect_match(good("report", output, "--text", COLUMNS="1000"),
                 r"\nThe best: %s, [\d.]+ %% in the mean of 2 runs on the validation images\.\n" % re.escape(best))
    expect_in("A sweep of 4 runs, written", page.text())
    with open(os.path.join(output, "sweep.jsonl")) as file:
        plan = json.loads(file.readline())
    expect_equal((len(plan["runs"]), plan["keys"]), (4, ["seed", "scheduler.params.warmup_max_lr"]))
    # Another run is none of its repeats, beside it or in its folder.
    stranger = os.path.join(output, "stranger")
    train(stranger, {"data.path": few(), "data.on_corrupt": "skip", "data.validation": 80, "train.epochs": 1, "seed": 7})
    page, done = page_of(output)
    expect_match(done.stderr, "^warning: .*'%s': is no run of the sweep" % re.escape(stranger))
    expect_equal([cells[:2] for mark, cells in page.rows if mark == "best"], [["\u2605 %s (best)" % best, "2 of 2"]])
    os.rename(stranger, path("stranger"))
    page, _ = page_of(output, path("stranger"), "--out", path("beside-sweep.html"))
    counts = {cells[0].strip("\u2605 ").removesuffix(" (best)"): cells[1] for _, cells in page.rows if len(cells) == 4}
    rates = [output + ": warmup_max_lr=" + rate for rate in loss]
    expect_equal({name: counts.get(name) for name in [*rates, path("stranger")]},
                 {**dict.fromkeys(rates, "2 of 2"), path("stranger"): "1 of 1"}, counts)
    page.row("1: %s, seed=42" % rates[0])
    # Nor is what failed by the sweep's records a result.
    with open(os.path.join(output, "sweep.jsonl")) as file:
        sweep = file.read()
    with open(os.path.join(output, "sweep.jsonl"), "a") as file:
        file.write(json.dumps({"event": "run", "run": plan["runs"][0], "code": 8, "seconds": 1.0}) + "\n")
    page, done = page_of(output)
    expect_match(done.stderr, "^warning: .*sweep.jsonl says that its process failed with exit code 8")
    expect_equal(sorted(cells[1] for _, cells in page.rows if len(cells) == 4 and "warmup_max_lr=" in cells[0]),
                 ["1 of 2", "2 of 2"])
    expect(all(mark != "best" for mark, _ in page.rows), page.rows)
    with open(os.path.join(output, "sweep.jsonl"), "w") as file:
        file.write(sweep)
    shutil.rmtree(os.path.join(output, plan["runs"][0]))
    page, done = page_of(output)
    expect_match(done.stderr, "^warning: .*the run's folder is gone")
    expect_in("A sweep of 4 runs, of which 4 have begun, 3 have ended", page.text())
    expect_in("No row is marked as the best", page.text())
    expect_in("because not all runs of the sweep are here", " ".join(good("report", output, "--text").split()))


@check
def labels_of_a_narrow_page_do_not_touch():
    for last in (1, 7, 400, 12500, 99999, 390000, 2999999):
        folder = made_up(path("narrow-%d" % last), [step(1), step(last)] if last > 1 else [step(1)])
        good("report", folder)
        with open(os.path.join(folder, "report.html"), encoding="utf-8") as file:
            page = file.read()
        expect_in("{ .chart .second { display: none } }", page)
        labels = re.findall(r'<text class="tick" x="([\d.]+)%"[^>]*>([\d.,]+(?: M)?)<', page)
        places = [(246 * float(share) / 100, 7 * len(text)) for share, text in labels]  # px on a page of 390
        first = places[:1 + next(i for i in range(len(places)) if i + 1 == len(places) or places[i + 1][0] <= places[i][0])]
        expect(len(first) >= 2, page)
        for (a, width), (b, next_width) in zip(first, first[1:]):
            expect(b - a > (width + next_width) / 2 + 4, last, labels)


# ---- terminal, table, picture

def is_braille(letter):
    return "\u2800" < letter <= "\u28ff"


@check
def the_terminal_shows_curves_in_its_width():
    for columns in (30, 40, 80, 200):
        for locale in ("C.UTF-8", "C"):
            text = good("report", trained(), "--text", COLUMNS=str(columns), LC_ALL=locale)
            lines = text.splitlines()
            expect(max(map(len, lines[:30])) <= columns, text)
            expect_in("Accuracy in evaluations (%)", text)
            expect_match(text, r"v val +t test|v val\nt test")
            expect(any(map(is_braille, text)) if locale != "C" else text.isascii(), text)
            expect(len(max(lines, key=len)) > columns / 2, text)
    text, _ = on_terminal("report", trained(), "--text")
    expect(150 < max(map(len, text.splitlines())) <= 200, text)
    bad(USAGE, "excludes", "report", trained(), "--text", "--csv")


@check
def the_table_has_every_record():
    rows = list(csv.DictReader(io.StringIO(good("report", trained(), "--csv"))))
    for event in ("step", "epoch", "eval"):
        wanted = sorted(records(trained(), event), key=lambda r: (r["step"], r.get("split", "") == "test"))
        found = [row for row in rows if row["event"] == event]
        expect_equal([int(row["step"]) for row in found], [r["step"] for r in wanted])
        for field in ("loss", "accuracy", "top5", "lr", "grad_norm", "samples_per_sec", "wait_fraction"):
            expect_equal([row[field] and float(row[field]) for row in found],
                         [r[field] if r.get(field) is not None else "" for r in wanted], event, field)
    good("report", trained(), "--csv", "--out", path("curves.csv"))
    good("report", trained(), "--csv", "--out", path("curves.csv"))


@check
def the_picture_is_svg():
    root = xml.etree.ElementTree.fromstring(good("report", trained(), "--svg").encode())
    expect_equal(root.tag, "{http://www.w3.org/2000/svg}svg")
    words = [e.text for e in root.iter("{http://www.w3.org/2000/svg}text")]
    expect("Learning rate" in words and "optimizer step" in words, words)
    style = root.find("{http://www.w3.org/2000/svg}style").text
    expect("var(" not in style and "@" not in style and "stroke: #" in style, "not for every viewer", style)
    shutil.copytree(trained(), path("other"))
    good("report", trained(), path("other"), "--svg", "--out", path("chart.svg"))


# ---- hostile folders

MARKUP = ["<script>alert(1)</script>", "\"><img src=x onerror=alert(1)>", "' onload='alert(1)", "</style><script>x</script>",
          "--><svg onload=alert(1)>", "]]><b>", "&lt;b&gt;&#60;b&#62;", "\x1b[31mred\x07\x00\x9b", "\u202egnp.exe", "\ud800",
          "javascript:alert(1)", "A" * 100000, "</td></tr></table></title>", "<!-- ", "{{7*7}}", "=1+1", "\r\n\t", ""]


def hostile_value(numbers):
    return numbers.choice([None, True, -1, 0, 1e308, -1e308, 5e-324, 2 ** 63, -2 ** 63, 1.5, float("nan"), float("inf"), [],
                           {}, [[1, [2]]], {"a": {"b": [{}]}}, numbers.choice(MARKUP)])


def hostile_records(numbers):
    keys = ["step", "epoch", "loss", "lr", "grad_norm", "samples_per_sec", "wait_fraction", "accuracy", "images", "split",
            "per_class", "reason", "best", "seconds", "peak_bytes", "traffic", "model", "dataset", "device", "host", "version",
            "origins", "weights_sha256", "parameters", "time_ms"]
    for i in range(numbers.randrange(1, 60)):
        event = numbers.choice(["start", "step", "step", "epoch", "eval", "checkpoint", "end", "new", numbers.choice(MARKUP)])
        record = {"event": event, "step": i, "split": "test", "accuracy": 0.5, "loss": 1}
        for key in numbers.sample(keys, numbers.randrange(len(keys))):
            record[key] = hostile_value(numbers)
        yield record
    deep = numbers.choice(["[", '{"a":']) * 200000
    yield numbers.choice([b"", b"\xff\xfe\x00\n", b"null\n[]\n7\n\"text\"\n", b'{"event":"start","host":' + deep.encode() + b"\n",
                          b'{"event":"step","step":1' + b',"a":1' * 50000 + b"}\n", numbers.randbytes(3000)])


def hostile_config(numbers):
    return numbers.choice([None, "", "a: [1, 2", "seed: 1\nseed: 2\n", "- a\n", "[" * 5000, "a: &a [*a]\n",
                           *["%s: %s\n" % (json.dumps(key), json.dumps(value)) for key in MARKUP[:3] for value in MARKUP[:9]],
                           "x: {y: '<b>', \"<i>\": [1, \"</td><script>\"]}\n", "\x00\x01", "k: " + "v" * 900000])


def hostile_evaluation(numbers):
    record = json.loads(evaluation_files(trained())[0])
    for one in record["classes"]:
        one["name"] = numbers.choice(MARKUP)
    for _ in range(numbers.randrange(4)):
        at = record
        while isinstance(at, (dict, list)) and at:
            key = numbers.choice(list(at) if isinstance(at, dict) else range(len(at)))
            if numbers.randrange(3) == 0 and key != "format":
                at[key] = hostile_value(numbers)
                break
            at = at[key]
    return record


def hostile_run(i):
    numbers = random.Random(i)
    folder = made_up(path("hostile", "%d %s" % (i, numbers.choice(["", "<script>alert(1)</script>".replace("/", ""), "\x1b[0m'\""]))),
                     hostile_records(numbers), None)
    config = hostile_config(numbers)
    if config is not None:
        with open(os.path.join(folder, "config.yaml"), "w", errors="surrogatepass") as file:
            file.write(config)
    for name in ("metrics.jsonl", "config.yaml", "evaluation.json", "evaluation.png", "best.bin", "ckpt", "sweep.jsonl", ".lock", "log.txt"):
        at = os.path.join(folder, name)
        what = numbers.randrange(30)
        if what < 8 and os.path.lexists(at):
            os.remove(at)
        if what == 0:
            os.mkdir(at)
        elif what == 1:
            os.mkfifo(at)
        elif what == 2:
            os.symlink(numbers.choice(["/dev/zero", "/etc/passwd", name, "nowhere"]), at)
        elif what == 3:
            with open(at, "wb") as file:
                file.write(numbers.randbytes(numbers.randrange(20000)))
        elif what == 4:
            with open(at, "w") as file:
                json.dump({key: hostile_value(numbers) for key in ("event", "run", "classes", "confusion", "pictures")}, file)
        elif what < 15 and name == "evaluation.json":
            with open(at, "w") as file:
                json.dump(hostile_evaluation(numbers), file, separators=(",", ":"))
    if numbers.randrange(3) == 0 and not os.path.lexists(os.path.join(folder, "ckpt")):
        for s in ("step-00000001", "step-99999999", "step-<b>", ".tmp-step-00000001"):
            os.makedirs(os.path.join(folder, "ckpt", s))
            with open(os.path.join(folder, "ckpt", s, "manifest.json"), "wb") as file:
                file.write(numbers.choice([b"", b"{}", b"[" * 100000, numbers.randbytes(100)]))
    return folder


@check
def two_hundred_hostile_folders_inject_nothing():
    def report_of(i):
        folder = hostile_run(i)
        out = path("hostile-%d.html" % i)
        done = run("report", folder, "--out", out)
        expect(done.returncode in (DONE, USAGE), i, done.returncode, done.stderr)
        expect("\x1b" not in done.stderr and "\x00" not in done.stderr, i, done.stderr)
        if done.returncode != DONE:
            fails(USAGE, done, "run")
            return 0
        expect(len(done.stderr.splitlines()) <= 1 and "error" not in done.stderr.split(":")[0], i, done.stderr)
        with open(out, "rb") as file:
            content = file.read()
        expect(len(content) <= 3 << 20, i, len(content))
        text = content.decode()
        expect(not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", text), i)
        try:
            Page(text)
        except AssertionError as error:
            raise AssertionError("folder %d: %s" % (i, error))
        return 1

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        drawn = sum(pool.map(report_of, range(200)))
    expect(drawn > 100, drawn)


# ---- speed

@check
def a_hundred_thousand_records_take_less_than_a_second():
    numbers = random.Random(1)
    lines = [{"event": "start", "step": 0}]
    for i in range(1, 100001):
        lines.append(step(10 * i, loss=2.3 * math.exp(-i / 4e4) + numbers.random(), grad_norm=numbers.random(), samples=40 * i,
                          loss_scale=1, skipped=0, seconds_left=1.5))
        if i % 1000 == 0:
            lines.append({"event": "eval", "split": "val", "step": 10 * i, "epoch": i // 1000, "loss": 1.0,
                          "accuracy": i / 2e5, "per_class": [0.5] * 10, "images": 1000})
    runs = [made_up(path("long-0"), lines)]
    for i in range(1, 20):
        os.mkdir(path("long-%d" % i))
        for name in ("metrics.jsonl", "config.yaml"):
            os.link(os.path.join(runs[0], name), path("long-%d" % i, name))
        runs.append(path("long-%d" % i))
    for folders, most in ((runs[:1], 1), (runs, 5)):
        begin = time.monotonic()
        page_of(*folders, "--out", path("long.html"))
        seconds, size = time.monotonic() - begin, os.path.getsize(path("long.html"))
        print("      %d runs: %.2f s, %.2f MB" % (len(folders), seconds, size / 1e6))
        expect(size <= 3e6 * len(folders), size)
        expect(seconds <= 3 * most, seconds)  # other programs may have the cores


main()
