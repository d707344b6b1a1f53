"""The .deb and the wheel: their contents, an installation of each, and what is left of it. The packages are made without a
network; tests/system/bundle_test.py tests the bundle, of which the wheel is made."""
import base64
import csv
import gzip
import io
import os
import sys
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import *

ROOT = os.path.realpath(os.path.join(CONFIGS, ".."))
BUILD = os.path.dirname(PROGRAM)


def version():
    return run("--version").stdout.split()[1]


def need(*tools):
    for tool, package in tools:
        if not shutil.which(tool):
            raise Skip("there is no %s (package %s)" % (tool, package))


def done(*words, **options):
    job = finish(start(words, **options), timeout=300)
    expect_equal(job.returncode, DONE, words, job.stdout, job.stderr)
    return job.stdout


def package(kind):
    output = done(os.path.join(ROOT, "tools", "package.sh"), kind, "--build", BUILD, "--output", path("packages"), "--quick")
    expect_equal(output.count("\n"), 1, output)
    return output.strip()


# ---- the .deb

@functools.lru_cache(None)
def deb():
    need(("cpack", "cmake"), ("dpkg-deb", "dpkg"), ("dpkg-shlibdeps", "dpkg-dev"))
    file = package("deb")
    done("dpkg-deb", "-x", file, path("from deb"))
    return file


@check
def the_deb_needs_the_distributions_libraries_alone():
    fields = dict(re.findall(r"(?m)^(\S+): (.*)$", done("dpkg-deb", "-f", deb())))
    expect_equal((fields["Package"], fields["Version"]), ("cifar-train", version() + "-0local1"))
    needed = re.findall(r"(?:^|, )([\w.+-]+)", fields["Depends"])
    expect("libc6" in needed and "libstdc++6" in needed, needed)
    expect(("libopenmpi3" in needed) == has_mpi(), needed)
    for name in needed:
        expect(re.match("z?lib", name) and not re.search("-dev|cuda|cudnn|cublas|nccl|nvidia", name), needed)


@check
def the_debs_files_are_where_debian_wants_them():
    deb()
    usr = path("from deb", "usr")
    for name in ("bin/cifar-train", "share/cifar-train/configs/default.yaml", "share/doc/cifar-train/copyright",
                 "share/doc/cifar-train/README.md", "share/doc/cifar-train/docs/runs.md"):
        expect(os.path.isfile(os.path.join(usr, name)), name)
    for name, beginning in (("changelog.gz", "# Changelog"), ("changelog.Debian.gz", "cifar-train (%s-0local1) " % version())):
        with gzip.open(os.path.join(usr, "share", "doc", "cifar-train", name), "rt") as file:
            expect(file.read().startswith(beginning), name)
    for line in done("dpkg-deb", "-c", deb()).splitlines():
        mode, owner, *_, name = line.split()
        expect_equal(owner, "root/root", line)
        expected = "drwxr-xr-x" if name.endswith("/") else "-rwxr-xr-x" if "/bin/" in name else "-rw-r--r--"
        expect_equal(mode, expected, line)
        expect(name.startswith("./usr/") or name == "./", line)


@check
def the_debs_program_finds_its_configurations():
    deb()
    program = path("from deb", "usr", "bin", "cifar-train")
    expect_equal(done(program, "--version"), run("--version").stdout)
    found = json.loads(done(program, "doctor", "--json"))["program"]
    expect(found["ok"] and path("from deb", "usr", "share", "cifar-train", "configs") in found["value"], found)


@check
def lintian_has_no_objection():
    need(("lintian", "lintian"))
    out = done("lintian", "--allow-root", "--fail-on", "error,warning", "--tag-display-limit", "0", deb())
    expect_equal(re.findall(r"(?m)^[EW]: .*", out), [])


# ---- the wheel

@functools.lru_cache(None)
def wheel():
    need(("patchelf", "patchelf"), ("xz", "xz-utils"), ("objdump", "binutils"))
    return package("wheel")


@functools.lru_cache(None)
def environment():
    """A virtual environment with the wheel in it, and its files before that."""
    folder = path("environment")
    if finish(start([sys.executable, "-m", "pip", "--version"])).returncode != DONE:
        raise Skip("there is no pip (package python3-pip)")
    done(sys.executable, "-m", "venv", "--without-pip", folder)
    before = listing(folder)
    pip(folder, "install", "--no-index", wheel())
    return folder, before


def pip(folder, *words):
    done(sys.executable, "-m", "pip", "--python", folder, "--quiet", *words)


def listing(folder):
    return {os.path.relpath(os.path.join(at, name), folder) for at, _, names in os.walk(folder) for name in names}


def installed(*words, **options):
    return finish(start([os.path.join(environment()[0], "bin", words[0]), *words[1:]], cwd=scratch(), **options))


@check
def the_wheels_record_is_true():
    expect_match(os.path.basename(wheel()), r"^cifar_train-%s-py3-none-manylinux_2_36_\w+\.whl$" % re.escape(version()))
    with zipfile.ZipFile(wheel()) as archive:
        names = archive.namelist()
        info = "cifar_train-%s.dist-info/" % version()
        rows = {row[0]: row[1:] for row in csv.reader(io.TextIOWrapper(archive.open(info + "RECORD"), "utf-8"))}
        expect_equal(sorted(rows), sorted(names))
        for name, (digest, size) in rows.items():
            content = archive.read(name)
            if name != info + "RECORD":
                whole = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
                expect_equal((digest, int(size)), ("sha256=" + whole, len(content)), name)
        expect_in("Tag: " + os.path.basename(wheel())[:-4].split("-", 2)[2], archive.read(info + "WHEEL").decode())
        expect_in("Apache License", archive.read(info + "LICENSE").decode())
        expect("cifar_train/bundle/share/cifar-train/configs/default.yaml" in names, names)


@check
def pip_installs_the_command():
    expect_equal(installed("cifar-train", "--version").stdout, run("--version").stdout)
    output = path("wheel-run")
    words = train_words(output, {"train.max_steps": 3, "data.path": synthetic(), "train_batch_size": 16}, config="default.yaml")
    job = installed("cifar-train", *words)
    expect_equal(job.returncode, DONE, job.stderr)
    train(path("plain-run"), {"train.max_steps": 3, "data.path": synthetic(), "train_batch_size": 16})
    expect_same_result(output, result(path("plain-run")))
    fails(USAGE, installed("cifar-train", "--config", "nowhere.yaml"), "nowhere.yaml")


@check
def the_systems_mpirun_starts_the_command():
    need_mpi()
    expect(not os.path.exists(os.path.join(environment()[0], "bin", "mpirun")), "it would hide the system's")
    settings = {"train.max_steps": 3, "data.path": synthetic(), "train_batch_size": 16}
    words = train_words(path("wheel-mpi"), settings, config="default.yaml")
    said = done("mpirun", "-np", 2, os.path.join(environment()[0], "bin", "cifar-train"), *words, cwd=scratch())
    train(path("plain-mpi"), settings)
    expect_same_result(path("wheel-mpi"), result(path("plain-mpi")), said)


SCRIPT = """
import sys, cifar_train
run = cifar_train.load_run(sys.argv[1])
for rows in run: print(len(rows))
print(run._fields, sorted(run.evaluations[0])[:3], "event" in run.steps[0])
"""


@check
def load_run_gives_frames():
    os.makedirs(path("stand-in"), exist_ok=True)
    with open(path("stand-in", "pandas.py"), "w") as file:
        file.write("class DataFrame(list):\n"
                   "    def __init__(self, rows, columns=None): super().__init__(rows); self.columns = columns\n")
    output = path("a-run")
    train(output, {"train.max_steps": 4, "data.path": synthetic(), "steps_per_print": 2})
    steps, epochs, evaluations = (len(records(output, event)) for event in ("step", "epoch", "eval"))
    with open(os.path.join(output, "metrics.jsonl"), "a") as file:
        file.write('{"event":"step","st')  # as while it is being written
    env = {"PYTHONPATH": path("stand-in")}
    job = installed("python", "-c", SCRIPT, output, env=env)
    expect_equal(job.returncode, DONE, job.stderr)
    expect_equal(job.stdout.splitlines()[:3], [str(n) for n in (steps, epochs, evaluations)])
    expect(steps == 2 and evaluations > 0, job.stdout)
    expect_equal(job.stdout.splitlines()[3], "('steps', 'epochs', 'evaluations') ['accuracy', 'epoch', 'images'] False")
    os.makedirs(path("just-begun"))
    shutil.copy(os.path.join(output, "metrics.jsonl"), path("just-begun"))
    with open(path("just-begun", "metrics.jsonl"), "r+") as file:
        file.truncate(len(file.readline()))
    begun = "import sys, cifar_train; run = cifar_train.load_run(sys.argv[1]); print('loss' in run.steps.columns, 'accuracy' in run.evaluations.columns)"
    expect_equal(installed("python", "-c", begun, path("just-begun"), env=env).stdout, "True True\n")
    job = installed("python", "-c", SCRIPT, output, env={"PYTHONPATH": None})
    expect_in("ImportError: cifar_train.load_run() needs pandas: pip install pandas", job.stderr)
    job = installed("python", "-c", SCRIPT, path("nowhere"), env=env)
    expect_in(path("nowhere", "metrics.jsonl"), job.stderr)
    for damaged in ("[1, 2]", "{}", "\x00\xff", "{"):
        with open(path("metrics.jsonl"), "w") as file:
            file.write('{"event":"start"}\n%s\n' % damaged)
        job = installed("python", "-c", SCRIPT, scratch(), env=env)
        expect_in("ValueError: %s:2: this is no record of a run" % path("metrics.jsonl"), job.stderr)


@check
def pip_removes_all_of_it():
    folder, before = environment()
    pip(folder, "uninstall", "--yes", "cifar-train")
    expect_equal(listing(folder) - before, set())


main()
