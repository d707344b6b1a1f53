"""tools/gpu_check.sh as a whole: its arguments, its table, its time limits and its exit codes."""
import glob
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from gpu_check import *


@check
def without_a_gpu():
    if shutil.which("nvidia-smi") or glob.glob("/dev/nvidia[0-9]*") or os.path.exists("/dev/dxg"):
        raise Skip("there may be a GPU")
    done, _, _ = gpu_check("none", PROGRAM=PROGRAM)
    expect_equal(done.returncode, 77, done.stdout, done.stderr)
    expect_equal(len(done.stdout.splitlines()), 1)
    expect(done.stdout.startswith("error: "), done.stdout)
    expect(not os.path.exists(path("none")), "it has left something behind")


@check
def unknown_section():
    done, _, _ = gpu_check("unknown", "everything", PROGRAM=PROGRAM)
    expect_equal(done.returncode, USAGE)
    expect("'everything'" in done.stderr, done.stderr)


def alive(pid):
    try:
        with open("/proc/%d/stat" % pid) as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


# It hears no TERM, and neither does its child, which has a process group of its own as mpirun's ranks do.
HANGS = r"""
trap '' TERM
echo '[       OK ] A.B'
python3 -c 'import os, time
os.setpgid(0, 0)
open("%(pids)s", "a").write("%%d\n" %% os.getpid())
time.sleep(600)' &
echo $$ >>%(pids)s
while :; do sleep 1; done
"""


def pids_in(file):
    with open(file) as listed:
        return [int(line) for line in listed]


def left_of(pids):
    """The pids of the file that still ran; kills them."""
    left = [pid for pid in pids_in(pids) if alive(pid)]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    return left


@check
def a_hung_program_dies_with_all_that_it_started_and_stops_no_other():
    pids = path("hung-pids")
    benchmark = script("fails", "echo 'error: kernel_benchmark: a lost device' >&2\nexit 1\n")
    done, rows, _ = gpu_check("hangs-out", "kernels", "device", "speed", PROGRAM=script("fine", HEALTHY),
                              KERNEL_TESTS=script("hangs", HANGS % {"pids": pids}), KERNEL_BENCHMARK=benchmark,
                              GPU_CHECK_DATA=scratch(), GPU_CHECK_LIMIT="5")
    expect_equal(left_of(pids), [])
    text = "\n".join(map(str, rows.items())) + done.stderr
    expect_equal(rows["kernels", "tests"], ("FAIL", "1 passed; stopped after its 5 s: [       OK ] A.B"), text)
    expect_equal([rows["device", check][0] for check in DEVICE], ["pass"] * 3, text)
    expect_equal(rows["speed", "kernels at large sizes"], ("FAIL", "error: kernel_benchmark: a lost device"), text)
    expect_equal(rows["speed", "copy"][0], "not run", text)
    expect_equal(len(pids_in(pids)), 2)
    expect_equal(done.returncode, BUG, text)


@check
def rows_without_time_are_reported_one_by_one():
    """One program uses all the time of a section: the others do not start, and the next section does."""
    pids = path("slow-pids")
    slow = script("slow", "[ \"$1\" = selftest ] && { %s }\n" % (HANGS % {"pids": pids}) + HEALTHY)
    done, rows, _ = gpu_check("no-time", "device:5", "kernels", PROGRAM=slow, GPU_CHECK_DATA=scratch(),
                              KERNEL_TESTS=script("passes", "echo '[       OK ] A.B (1 ms)'\n"))
    expect_equal(left_of(pids), [])
    result, figure = rows.pop(("device", SELFTEST))
    expect(result == "not run" and re.fullmatch(r"stopped after \d s: no time left", figure), result, figure)
    expect_equal(rows, {("device", "doctor"): ("pass", "see the log"),
                        ("device", COLLECTIVES): ("not run", "no time left"),
                        ("kernels", "tests"): ("pass", "1 passed")}, done.stderr)
    expect_equal(done.returncode, NOT_ALL)


@check
def rows_are_seen_as_soon_as_they_are_known():
    """The doctor's row appears while the selftest waits; then the check is interrupted."""
    pids = path("waiting-pids")
    waits = script("waits", "[ \"$1\" = selftest ] && { %s }\n" % (HANGS % {"pids": pids}) + HEALTHY)
    job = start_gpu_check("seen", "device", "kernels", PROGRAM=waits, GPU_CHECK_DATA=scratch(), KERNEL_TESTS="")
    deadline = time.monotonic() + 60
    while not (os.path.exists(pids) and len(pids_in(pids)) == 2):
        expect(job.poll() is None and time.monotonic() < deadline, "the selftest has not begun")
        time.sleep(0.05)
    expect_equal(table_of("seen"), {("device", "doctor"): ("pass", "see the log")})
    os.kill(job.pid, signal.SIGTERM)
    done = finish(job)
    expect_equal(left_of(pids), [])
    rows = table_of("seen")
    expect_equal(rows, {("device", "doctor"): ("pass", "see the log"), ("device", SELFTEST): ("not run", "interrupted"),
                        ("device", COLLECTIVES): ("not run", "interrupted"),
                        ("kernels", "tests"): ("not run", "interrupted")}, done.stderr)
    expect_equal(done.returncode, NOT_ALL)
    expect(re.search(r"^device +doctor +pass ", done.stdout, re.MULTILINE), done.stdout)


@check
def important_sections_come_first_and_all_fit_into_nine_minutes():
    done, _, _ = gpu_check("help", "--help")
    listed = re.findall(r"^  ([a-z]+) +(\d+)  ", done.stdout, re.MULTILINE)
    names = [name for name, _ in listed]
    expect_equal((names[:2], names[-1]), (["device", "ladder"], "sanitizer"))
    expect(max(map(names.index, ("tutorial", "step", "speed"))) < names.index("sanitizer"), names)
    expect(sum(int(seconds) for _, seconds in listed) < 540, listed)
    # Without sections they run in that order.
    done, rows, _ = gpu_check("all-of-it", PROGRAM=script("fine", HEALTHY), GPU_CHECK_DATA=scratch(), KERNEL_TESTS="",
                              KERNEL_BENCHMARK="", MPIRUN="", GPU_CHECK_SEEDS="1")
    expect_equal(list(dict.fromkeys(section for section, _ in rows)), names, done.stdout, done.stderr)


@check
def the_first_program_has_more_time_and_minutes_cut_from_the_end():
    slow = script("slow-once", """
[ "$1" != doctor ] || [ -e "$FIRST" ] || { : >"$FIRST"; sleep 2; }
[ "$1" != selftest ] || sleep 2
""" + HEALTHY)
    _, rows, _ = gpu_check("slow-first", "device", PROGRAM=slow, GPU_CHECK_DATA=scratch(), GPU_CHECK_LIMIT="1",
                           FIRST=path("first-seen"))
    expect_equal([rows["device", check][0] for check in DEVICE], ["pass", "FAIL", "FAIL"], rows)
    with open(path("slow-first", "gpu_check.log")) as file:
        expect_match(file.read(), r"==== start: \S+ doctor\n[^=]*---- exit code 0, [23] s\n")

    slow = script("slow-doctor", "[ \"$1\" != doctor ] || sleep 8\n" + HEALTHY)
    cases = [("one", ["--minutes", "1"], 54, ("not run", "no time left")),
             ("two", ["--minutes", "2"], 54, ("skipped", "there is no test_kernels_gpu")),
             ("nine", [], 534, ("not run", "no time left"))]
    # bash counts on from SECONDS.
    jobs = [start_gpu_check(name, *words, "kernels", PROGRAM=slow, KERNEL_TESTS="", GPU_CHECK_DATA=scratch(),
                            SECONDS=str(begun)) for name, words, begun, _ in cases]
    for job, (name, _, _, row) in zip(jobs, cases):
        finish(job)
        expect_equal(table_of(name).get(("kernels", "tests")), row, name)
    for minutes in ("0", "1.5", "", "x"):
        done, _, _ = gpu_check("no-minutes", "--minutes", minutes, "device")
        expect_equal((done.returncode, done.stderr.count("\n")), (USAGE, 1), minutes, done.stderr)


@check
def missing_checks_are_counted():
    """Each has its row, and the exit code shows that checks are missing."""
    program = script("fine", HEALTHY)
    tools = path("few-tools")  # neither compute-sanitizer nor mpirun
    os.makedirs(tools)
    for tool in ("awk", "bash", "cat", "cut", "date", "dirname", "grep", "head", "id", "mkdir", "mktemp", "mv", "nproc",
                 "readlink", "rm", "sed", "setsid", "sh", "sleep", "sort", "stat", "tail", "tee", "timeout", "tr"):
        os.symlink(shutil.which(tool), os.path.join(tools, tool))
    env = {"PROGRAM": program, "GPU_CHECK_DATA": scratch(), "PATH": tools, "CUDA_HOME": tools, "MPIRUN": "",
           "KERNEL_TESTS": "", "KERNEL_BENCHMARK": ""}
    planned = {"kernels": 1, "speed": 4}
    if not os.path.exists("/usr/local/cuda/bin/compute-sanitizer"):
        planned["sanitizer"] = 6
    done, rows, _ = gpu_check("nothing", *planned, **env)
    expect_equal([section for section, _ in rows], [name for name, number in planned.items() for _ in range(number)])
    expect_equal({result for result, _ in rows.values()}, {"skipped"})
    expect_equal(done.returncode, NOTHING, done.stdout, done.stderr)
    expect("0 pass, met or reported; 0 FAIL or MISSED; %d skipped or not run" % len(rows) in done.stdout, done.stdout)

    done, rows, _ = gpu_check("some", "device", *planned, **env)
    expect_equal(done.returncode, NOT_ALL, done.stdout, done.stderr)
    expect("3 pass, met or reported; 0 FAIL or MISSED; %d skipped" % (len(rows) - 3) in done.stdout, done.stdout)
    done, _, _ = gpu_check("all", "device", **env)
    expect_equal(done.returncode, DONE, done.stdout, done.stderr)


main()
