"""What a terminal, a dumb one, a narrow one and a log get: no escape sequence, no control character of anybody's, no line
wider than it must be."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import *
from png import png

LINEAR = os.path.join(CONFIGS, "linear.yaml")
CLASSES = ["red", "Grün", "汉字汉字"]


def words_of_run(output, **changed):
    sets = {**FEW, "data.path": few(), "model.name": "linear", "train.epochs": 1, **dotted(changed)}
    return train_words(output, sets, "--reset")


@functools.lru_cache(None)
def trained():
    return on_terminal(*words_of_run(path("run"))) and path("run")


def rows(text):
    """What the terminal has shown in its rows, one after the other."""
    return [row.rstrip() for line in text.replace("\r\n", "\n").split("\n") for row in line.split("\r")]


def expect_plain(text, *what):
    expect(not re.search(r"[\x00-\x08\x0b-\x1f\x7f\x80-\x9f]", text), repr(text), *what)


@check
def a_row_is_rewritten_without_escape_sequences():
    for columns in (40, 80):
        text, _ = on_terminal(*words_of_run(path("narrow"), train__epochs=10), columns=columns)
        expect_plain(text.replace("\r", ""))
        shown = [row for row in text.replace("\r\n", "\n").split("\r") if row.strip() and "\n" not in row]
        expect(shown and max(map(len, shown)) == columns - 1, columns, shown)  # the last column would begin a new row
        expect_match(text, r"\repoch 1/10  step 1/")


@check
def a_dumb_terminal_and_a_log_get_whole_lines():
    text, _ = on_terminal(*words_of_run(path("dumb")), TERM="dumb")
    expect_plain(text.replace("\r\n", "\n"))
    done = run(*words_of_run(path("log")))
    expect_plain(done.stdout + done.stderr)
    # NO_COLOR asks for no escape sequences, of which there are none: the row that is rewritten stays.
    text, _ = on_terminal(*words_of_run(path("no colour")), NO_COLOR="1")
    expect_plain(text.replace("\r", ""))
    expect_in("\repoch 1/1  step 1/", text)


@check
def every_verb_writes_plain_text():
    run_of = ["--config", LINEAR, "--set", "data.path=" + few(), "--set", "data.on_corrupt=skip"]
    for words in (["--help"], ["--version"], ["doctor"], ["eval", trained()], ["report", trained(), "--text"],
                  ["ckpt", "ls", trained()], ["ckpt", "inspect", trained()], ["estimate", *run_of],
                  ["lr-find", *run_of, "--steps", 20], ["predict", trained(), "synthetic:test:0"], ["config", "show", LINEAR]):
        for dumb in ({}, {"TERM": "dumb"}, {"NO_COLOR": "1"}):
            text, _ = on_terminal(*words, columns=80, **dumb)
            expect_plain(text.replace("\r\n" if dumb.get("TERM") else "\r", "\n"), words, dumb)
        done = run(*words)
        expect_plain(done.stdout + done.stderr, words)


@check
def help_fits_the_terminal():
    verbs = re.findall(r"(?m)^  (\S+)  ", good("--help"))
    for columns in (40, 80, 200):
        for words in [[], *[[verb] for verb in verbs], ["data", "convert"]]:
            text, _ = on_terminal(*words, "--help", columns=columns)
            text = text.replace("\r\n", "\n").split("\nExamples:\n")[0]  # commands, to be copied, stay whole
            wide = [line for line in text.split("\n") if len(line) > columns and " " in line.strip()]
            expect(not wide, columns, words, *wide)


@check
def names_cannot_command_a_terminal():
    data = path("hostile")
    for label in CLASSES:
        for split, count in (("train", 4), ("val", 2)):
            os.makedirs(os.path.join(data, split, label))
            for i in range(count):
                with open(os.path.join(data, split, label, "\x1b]0;title\x07%d.png" % i), "wb") as file:
                    file.write(png(8, 8, bytes([40 * i] * 192)))
    picture = os.path.join(data, "val", CLASSES[0], "\x1b]0;title\x070.png")
    output = path("run\x1b[31m")
    words = ["--config", LINEAR, "--output", path("plain"), "--set", "data.path=" + data, "--set", "data.size=8", "--set",
             "train_batch_size=4", "--set", "train.max_steps=2"]
    hostile_class = os.path.join(data, "train", "\x1b[31mred\x07")
    os.makedirs(hostile_class)
    expect_plain(fails(DATA, run(*words), "\\x1b[31mred\\x07"))
    os.rmdir(hostile_class)
    on_terminal(*words)
    shutil.copytree(path("plain"), output)
    for verb in (words, ["data", "info", "--data", data], ["data", "verify", "--data", data], ["eval", output],
                 ["eval", output, "--json"], ["predict", output, picture], ["predict", output, picture, "--csv"],
                 ["report", output, "--text"], ["ckpt", "ls", output], ["ckpt", "inspect", output], ["ckpt", "verify", output],
                 ["ckpt", "prune", output, "--keep", 1, "--dry-run"], ["config", "show", *words[:2], *words[4:]]):
        text, _ = on_terminal(*verb, columns=80)
        expect_plain(text.replace("\r", ""), verb)
        done = run(*verb)
        expect_equal(done.returncode, DONE, done.stderr)
        expect_plain(done.stderr, verb)
        if "--csv" not in verb:  # whose readers want names as they are
            expect_plain(done.stdout, verb)
    done = run("eval", path("no\x1b[2J"))
    expect_plain(fails(USAGE, done, "\\x1b[2J"))


main()
