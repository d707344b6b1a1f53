#!/usr/bin/env python3
"""README.md and docs/: the names in them exist, and the README stays a page."""
import glob
import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import *

ROOT = os.path.realpath(os.path.join(CONFIGS, ".."))
PAGES = ["README.md", *sorted(os.path.relpath(p, ROOT) for p in glob.glob(os.path.join(ROOT, "docs", "*.md")))]
FOLDERS = ("src", "kernels", "configs", "data", "tests", "tools", "docs", ".ci")


def text(page):
    with open(os.path.join(ROOT, page), encoding="utf-8") as file:
        return file.read()


def without_blocks(page):
    return re.sub(r"(?ms)^```.*?^```$", "", text(page))


def anchors(page):
    titles = re.findall(r"(?m)^#+ (.*)$", without_blocks(page))
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@check
def links_lead_somewhere():
    for page in PAGES:
        for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)", without_blocks(page)):
            if "://" in target:
                continue
            to = os.path.relpath(os.path.join(ROOT, os.path.dirname(page), target), ROOT) if target else page
            expect(os.path.exists(os.path.join(ROOT, to)), "%s: a link to %s" % (page, to))
            expect(not anchor or anchor in anchors(to), "%s: %s has no section #%s" % (page, to, anchor))
    linked = set(re.findall(r"\]\((docs/[\w.-]+)\)", text("README.md")))
    expect_equal(linked, set(PAGES[1:]), "pages that README.md links")


@check
def paths_are_there():
    for page in PAGES:
        for path in re.findall(r"(?<![\w./-])((?:%s)/[\w./-]*[\w/])" % "|".join(map(re.escape, FOLDERS)), text(page)):
            if "NAME" in path or path.startswith("data/") and path.endswith("-bin"):
                continue  # what is to be written; data sets, which are no part of the tree
            expect(os.path.exists(os.path.join(ROOT, path)), "%s: there is no %s" % (page, path))


@check
def tests_that_are_named_exist():
    """Names in backquotes after a test's file are its checks, or GoogleTest's cases."""
    count = 0
    for line in text("docs/reliability.md").splitlines():
        source = None
        for word in re.findall(r"`([^`]+)`", line.split("|")[2] if line.count("|") == 3 else ""):
            if re.fullmatch(r"\w+_test\.(py|cpp)", word):
                found = glob.glob(os.path.join(ROOT, "tests", "**", word), recursive=True)
                expect(found, "docs/reliability.md: there is no %s" % word)
                source = "\n".join(text(os.path.relpath(file, ROOT)) for file in found)
            elif re.fullmatch(r"\w+", word) and source:
                expect(re.search(r"@check\ndef %s\(" % word, source), "docs/reliability.md: no check %s" % word)
                count += 1
            elif re.fullmatch(r"\w+\.\w+", word) and source:
                pattern = r"TEST(_F|_P)?\(%s, %s\)" % tuple(word.split("."))
                expect(re.search(pattern, source), "docs/reliability.md: no test %s" % word)
                count += 1
    expect(count > 60, "only %d tests were found in docs/reliability.md" % count)


@check
def options_exist():
    """The program's options in documented command lines exist."""
    known = {}
    for page in PAGES:
        for verb, words in re.findall(r"(?m)^(?:mpirun [^|\n]*?|\S*/)?cifar-train (train|eval|predict|export|estimate|bench|doctor|selftest|(?=--))([^#\n|]*)", text(page)):
            verb = verb or "train"
            if verb not in known:
                known[verb] = set(re.findall(r"--[\w-]+", run(verb, "--help").stdout)) | {"--help"}
            for option in re.findall(r"--[\w-]+", words):
                expect(option in known[verb], "%s: cifar-train %s has no %s" % (page, verb, option))
    expect(len(known) > 5, sorted(known))


def keys_of(schema, block=""):
    """The keys of a JSON Schema as in a configuration, with their schemas."""
    for name, key in schema.get("properties", {}).items():
        yield from keys_of(key, block + name + ".") if key.get("properties") else [(block + name, key)]


@check
def keys_that_a_resume_may_change_are_documented():
    schema = json.loads(run("config", "schema").stdout)
    may_change = {name for name, key in keys_of(schema) if key.get("x-resume_may_change")}
    section = re.search(r"(?s)These keys may change too:(.*?)Any other difference", text("docs/runs.md"))[1]
    told = re.findall(r"`([\w.*]+)`", section)
    whole = [word[:-1] for word in told if word.endswith(".*")]
    expect(len(may_change) > 25, sorted(may_change))
    for key in may_change:
        expect(key in told or key.startswith(tuple(whole)), "docs/runs.md does not say that %s may change" % key)
    for key in told:
        known = key in may_change or key.endswith(".*") or key in ("tf32", "data.on_corrupt: skip")
        expect(known, "docs/runs.md says that %s may change, which the program does not" % key)


@check
def every_optimizer_and_schedule_is_listed():
    schema, page = json.loads(run("config", "schema").stdout), text("docs/configuration.md")
    for key in ("optimizer", "scheduler"):
        row = re.search(r"(?m)^\| `%s\.type` \|.*$" % key, page)[0]
        names = re.split(", | or ", schema["properties"][key]["properties"]["type"]["description"].partition(";")[0])
        expect(len(names) > 8, key, names)
        for name in names:
            expect("`%s`" % name in row, "docs/configuration.md: %s.type has no %s" % (key, name))
            if key == "optimizer":
                expect(re.search(r"(?m)^\| .*`%s`.* \| .*[0-9]+.* \|$" % name, page.partition("## Optimizers")[2]),
                       "docs/configuration.md: the table of optimizers has no %s" % name)
                expect(re.search(r"(?mi)^\| optimizers \|.*\b%s\b" % name, text("README.md")),
                       "README.md: the optimizers lack %s" % name)


@check
def the_readme_is_a_page():
    expect(len(text("README.md").splitlines()) <= 120, "README.md has more than 120 lines: move some into docs/")


main()
