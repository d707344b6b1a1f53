#!/usr/bin/env python3
"""Adds up one run of ctest: prints the ten slowest tests and compile units, what failed and what was skipped and why,
then the total as the last line.

usage: test_report.py RESULTS CTEST_STATUS

RESULTS is in the build's folder; its .ninja_log has the time of each unit's latest compilation.
RESULTS/ctest.xml is ctest's JUnit file, RESULTS/<test>.xml the file of a GoogleTest program. A GoogleTest
program counts each case. A script (system.*) counts each check if it prints a line for each ("ok NAME (1.2 s)",
"skip NAME: REASON", "FAIL NAME"), else once. A program that was killed, hung, ran no case, or ended badly although its
cases passed (a sanitizer's finding) counts as one failure.
"""
import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree


def last_line(text):
    """The last line of a program's output; for a sanitizer's report, its summary."""
    lines = [line.strip() for line in (text or "").splitlines() if line.strip(" =\t")]
    summaries = [line for line in lines if line.startswith("SUMMARY:")]
    return (summaries or lines or ["no reason given"])[-1]


def gtest_cases(path):
    """(name, 'passed' | 'failed' | 'skipped', reason) of every case; None when there is no complete file."""
    try:
        tree = ElementTree.parse(path)
    except (OSError, ElementTree.ParseError):
        return None
    cases = []
    for case in tree.iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name')}"
        skipped = case.find("skipped")
        if case.find("failure") is not None:
            cases.append((name, "failed", ""))
        elif case.get("result") == "skipped":
            # GoogleTest's text: the place on the first line, then the reason.
            lines = [] if skipped is None else (skipped.get("message") or "").splitlines()
            cases.append((name, "skipped", " ".join(lines[1:]).strip() or "no reason given"))
        elif case.get("status") == "run":
            cases.append((name, "passed", ""))
        elif case.get("name", "").startswith("DISABLED_"):
            cases.append((name, "skipped", "disabled in the source"))
    return cases


def script_checks(name, text):
    """(name, result, reason) of every check that a script reports; none when it reports none."""
    results = {"ok": "passed", "skip": "skipped", "FAIL": "failed"}
    lines = re.findall(r"^(ok|skip|FAIL)  +(.+)$", text or "", re.MULTILINE)
    checks = []
    for word, rest in lines:
        check, _, reason = rest.partition(": ") if word == "skip" else (re.sub(r" \([\d.]+ s\)$", "", rest), "", "")
        checks.append((f"{name}: {check}", results[word], reason))
    return checks


def results_of(test, folder):
    """(name, result, reason) of all cases of one test of ctest."""
    name, ended_well = test.get("name"), test.get("status") == "run"
    last = last_line(test.findtext("system-out"))
    if name.startswith("system."):
        skipped = test.find("skipped")
        if skipped is not None and "SKIP_RETURN_CODE" in (skipped.get("message") or ""):
            return [(name, "skipped", last)]
        checks = script_checks(name, test.findtext("system-out"))
        if checks and (ended_well or any(result == "failed" for _, result, _ in checks)):
            return checks
        return [(name, "passed", "") if ended_well else (name, "failed", last)]
    cases = gtest_cases(folder / f"{name}.xml")
    if not cases:
        return [(name, "failed", "no test case ran to its end" if ended_well else last)]
    results = [(f"{name}: {case}", result, reason) for case, result, reason in cases]
    if not ended_well and not any(result == "failed" for _, result, _ in results):
        results.append((name, "failed", f"every case passed, but the program ended badly: {last}"))
    return results


def times_of(test, folder):
    """(seconds, name) of all cases of one test of ctest, as far as known."""
    name = test.get("name")
    checks = re.findall(r"^(?:ok|FAIL)  +(.+) \(([\d.]+) s\)$", test.findtext("system-out") or "", re.MULTILINE)
    times = [(float(seconds), f"{name}: {check}") for check, seconds in checks]
    if not name.startswith("system."):
        try:
            cases = ElementTree.parse(folder / f"{name}.xml").iter("testcase")
            times = [(float(c.get("time", 0)), f"{name}: {c.get('classname')}.{c.get('name')}") for c in cases]
        except (OSError, ElementTree.ParseError):
            pass
    return times or [(float(test.get("time", 0)), name)]


def times_of_units(log):
    """(seconds, object file) of what ninja compiled last; none where another tool built."""
    try:
        lines = [line.split("\t") for line in log.read_text().splitlines()[1:]]
    except OSError:
        return []
    last = {fields[3]: (int(fields[1]) - int(fields[0])) / 1000 for fields in lines if len(fields) > 3}
    return [(seconds, output) for output, seconds in last.items() if output.endswith(".o")]


def print_slowest(what, times):
    if times:
        print(f"\nthe slowest {what}:")
    for seconds, name in sorted(times, reverse=True)[:10]:
        print(f"  {seconds:6.1f} s  {name}")


def main():
    folder, ctest_status = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    tests = list(ElementTree.parse(folder / "ctest.xml").iter("testcase"))
    results = [result for test in tests for result in results_of(test, folder)]
    count = {kind: sum(result == kind for _, result, _ in results) for kind in ("passed", "failed", "skipped")}
    if ctest_status != 0 and count["failed"] == 0:
        results.append(("ctest", "failed", f"exit status {ctest_status}"))
        count["failed"] = 1
    print_slowest("compile units", times_of_units(folder.parent / ".ninja_log"))
    print_slowest("tests", [time for test in tests for time in times_of(test, folder)])
    print()
    for kind in ("skipped", "failed"):
        for name, result, reason in results:
            if result == kind:
                print(f"{kind.upper()} {name}" + (f": {reason}" if reason else ""))
    print(f"{count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped", flush=True)
    return 1 if count["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
