"""The bundle runs from any folder of a machine that has none of its libraries, and is small enough."""
import glob
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import *
from network import Network, need_namespaces

os.environ.setdefault("TMPDIR", "/tmp")  # programs are started from the scratch folder, which /dev/shm may forbid
ROOT = os.path.realpath(os.path.join(CONFIGS, ".."))
LIMIT = 40 << 20
GLIBC = re.compile(r"(ld-linux.*|linux-vdso|lib(c|m|mvec|dl|rt|pthread|resolv|util|anl|nsl|nss_\w+))\.so")
GPU = re.compile(r"lib(cuda|cudart|cudnn|cublas|nccl|nvrtc|nvidia)")
SETTINGS = {"train.max_steps": 6, "train_batch_size": 16, "train_micro_batch_size_per_gpu": 4, "steps_per_print": 1,
            "data.dataset": "synthetic"}


@functools.lru_cache(None)
def archive():
    for tool, package in (("patchelf", "patchelf"), ("xz", "xz-utils"), ("objdump", "binutils")):
        if not shutil.which(tool):
            raise Skip("there is no %s (package %s)" % (tool, package))
    file = path("bundle.tar.xz")
    kernels = path("kernels")  # any program stands for the tests of the kernels; their benchmark is not there
    os.makedirs(kernels)
    shutil.copy(shutil.which("true"), os.path.join(kernels, "test_kernels_gpu"))
    done = finish(start([os.path.join(ROOT, "tools", "bundle.sh"), "--build", os.path.dirname(PROGRAM), "--kernels",
                         kernels, "--output", file],
                        env={"XZ_OPT": "-0"}), timeout=300)  # quick, and larger than it would be
    expect_equal((done.returncode, done.stdout), (DONE, file + "\n"), done.stderr)
    absent = [line for line in done.stderr.splitlines() if "without" in line]
    expect(len(absent) == 1 and "kernel_benchmark" in absent[0] and "test_kernels_gpu" not in absent[0], done.stderr)
    return file


@functools.lru_cache(None)
def bundle():
    place = path("another place")
    os.makedirs(place)
    subprocess.run(["tar", "-xJf", archive(), "-C", place], check=True)
    name, = os.listdir(place)
    return os.path.join(place, name)


def program(name="cifar-train"):
    return os.path.join(bundle(), "bin", name)


def files():
    return [os.path.join(at, name) for at, _, names in os.walk(bundle()) for name in names]


@functools.lru_cache(None)
def hiding():
    """A shell command that hides the bundle's libraries and builds on this machine."""
    libraries = [file for name in os.listdir(os.path.join(bundle(), "lib"))
                 for folder in ("/usr/lib*", "/usr/lib/*", "/usr/local/lib")
                 for file in glob.glob(os.path.join(folder, glob.escape(name))) if os.path.isfile(file)]
    programs = [found for name in ("mpirun", "mpiexec", "orterun", "orted") for found in [shutil.which(name)] if found]
    folders = glob.glob("/usr/lib/*/openmpi") + glob.glob("/usr/lib/*/pmix*") + glob.glob("/usr/lib/*/hwloc")
    folders += [folder for folder in ("/etc/openmpi", "/usr/share/openmpi") if os.path.isdir(folder)]
    folders += [ROOT, os.path.dirname(PROGRAM)]
    plain = {os.path.realpath(file) for file in libraries + programs}
    mounts = ["mount --bind /dev/null '%s'" % file for file in sorted(plain)]
    # Deepest first: nothing may lie in a folder that is empty already.
    mounts += ["mount -t tmpfs none '%s'" % folder for folder in sorted(set(folders), key=len, reverse=True)]
    return " && ".join(mounts)


@functools.lru_cache(None)
def elsewhere():
    """The command prefix that runs a command on such a machine."""
    user = [] if os.geteuid() == 0 else ["-r"]
    words = ["unshare", *user, "-m", "sh", "-c", hiding() + ' && exec "$@"', "sh"]
    try:
        subprocess.run([*words, "true"], check=True, text=True, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
    except (OSError, subprocess.CalledProcessError) as error:
        raise Skip("mounting is not permitted here (%s)" % (getattr(error, "stderr", "") or error).strip())
    return words


@functools.lru_cache(None)
def misleading():
    """Variables that a cluster's modules may set: other libraries of the same names, another Open MPI."""
    folder = path("modules")
    os.makedirs(folder)
    for name in os.listdir(os.path.join(bundle(), "lib")):
        open(os.path.join(folder, name), "w").close()
    return {"LD_LIBRARY_PATH": folder, "OPAL_PREFIX": folder, "OPAL_PKGLIBDIR": folder}


def away(*words, env=None, **options):
    """Runs a command on such a machine."""
    return finish(start(words, prefix=elsewhere(), env={**misleading(), **(env or {})}, cwd=scratch(), **options))


def done_away(*words, **options):
    done = away(*words, **options)
    expect_equal(done.returncode, DONE, words, done.stdout, done.stderr)
    return done


@functools.lru_cache(None)
def data():
    done_away(program(), "data", "synth", "--out", path("data"))
    return path("data")


def training(output, **more):
    return [program(), *train_words(output, {**SETTINGS, "data.path": data(), **more}, config="default.yaml")]


@check
def small_and_without_paths_of_this_machine():
    size = os.path.getsize(archive())
    expect(size <= LIMIT, "%d bytes" % size)
    for file in files():
        name, within = os.path.basename(file), os.path.relpath(file, bundle())
        expect(not GLIBC.match(name) and not GPU.match(name), within)
        with open(file, "rb") as content:
            if content.read(4) != b"\x7fELF":
                continue
        dynamic = subprocess.run(["objdump", "-p", file], check=True, stdout=subprocess.PIPE, text=True).stdout
        entries = [line.split(maxsplit=1) for line in dynamic.splitlines() if len(line.split()) == 2]
        paths = [(key, value.strip()) for key, value in entries if key in ("RPATH", "RUNPATH")]
        expect_equal(paths, [("RPATH", "$ORIGIN/../lib")] if within.startswith("libexec/") else [], within)
        for key, value in entries:
            expect(key != "NEEDED" or not GPU.match(value), "%s needs %s" % (within, value))


@check
def a_symbol_of_a_newer_glibc_is_named():
    """The bundle was made under the limit of glibc 2.36; here everything is newer."""
    archive()
    done = finish(start([os.path.join(ROOT, "tools", "bundle.sh"), "--build", os.path.dirname(PROGRAM), "--output",
                         path("none.tar.xz"), "--glibc", "2.2"]))
    expect_equal((done.returncode, done.stdout, os.path.exists(path("none.tar.xz"))), (1, "", False), done.stderr)
    expect_match(done.stderr, r"(?m)^error: bundle.sh: lib\S+ needs \w+ of glibc 2\.\d+, newer than 2\.2:")


@check
def contains_readme_configurations_and_licences():
    for name in ("README", "LICENSE", "configs/default.yaml", "share/cifar-train/configs/default.yaml",
                 "licences/libyaml-cpp0.7.txt" if os.path.exists("/usr/share/doc/libyaml-cpp0.7") else "licences"):
        expect(os.path.exists(os.path.join(bundle(), name)), "no " + name)
    for name in ("gpu_check.sh", "torch_adam.py", "torch_tutorial.py"):
        expect(os.path.exists(os.path.join(bundle(), "tools", name)), "no " + name)
    if os.path.exists("/usr/share/doc/libgtest-dev"):
        expect(os.path.exists(os.path.join(bundle(), "licences", "libgtest-dev.txt")), "no licence of the tests")
    texts = glob.glob(os.path.join(glob.escape(bundle()), "licences", "*.txt"))
    expect(len(texts) > 5 and all(os.path.getsize(text) > 100 for text in texts), texts)


@check
def its_list_of_files_is_true():
    with open(os.path.join(bundle(), "sbom.spdx")) as file:
        text = file.read()
    entries = re.findall(r"FileName: \./(.*)\n(?:.*\n)*?FileChecksum: SHA256: (.*)\nLicenseConcluded: (.*)\n", text)
    found = snapshot(bundle())
    del found["sbom.spdx"]
    expect_equal({name: digest for name, digest, _ in entries},
                 {name: digest for name, digest in found.items() if not os.path.islink(os.path.join(bundle(), name))})
    packages = dict(re.findall(r"LicenseID: (.*)\nLicenseName: (.*)\n", text))
    for name, _, licence in entries:
        expect(not name.startswith("lib/") or licence in packages, "no licence of " + name)
    for package in packages.values():
        expect(os.path.exists(os.path.join(bundle(), "licences", package + ".txt")), "no licence of " + package)


@check
def its_program_is_hardened():
    """Addresses that differ at each start, read-only tables of functions, no executable stack, guarded frames."""
    program = os.path.join(bundle(), "libexec", "cifar-train")
    dynamic = subprocess.run(["readelf", "-dlW", program], capture_output=True, text=True).stdout
    for mark in ("GNU_RELRO", "Flags: NOW PIE"):
        expect_in(mark, dynamic)
    expect_not_in("RWE", dynamic)
    symbols = subprocess.run(["objdump", "-T", program], capture_output=True, text=True).stdout
    for mark in ("__stack_chk_fail", "__memcpy_chk"):
        expect_in(mark, symbols)
    built = subprocess.run(["readelf", "-dW", PROGRAM], capture_output=True, text=True).stdout
    for folders in re.findall(r"(?:RUNPATH|RPATH).*\[(.*)\]", dynamic + built):
        expect(all(folders.split(":")), "the working folder is searched for libraries:", folders)


@check
def the_other_machine_has_no_libraries_of_ours():
    """If this program ran, the checks below would prove nothing."""
    shutil.copy(PROGRAM, path("program"))
    for words in ([path("program"), "--version"], ["mpirun", "--version"]):
        expect(away(*words).returncode in (126, 127), words)


@check
def starts():
    expect_equal(done_away(program(), "--version").stdout, run("--version").stdout)
    findings = json.loads(done_away(program(), "doctor", "--json").stdout)
    configs = os.path.join(bundle(), "share", "cifar-train", "configs")
    expect(configs in findings["program"]["value"], findings)
    expect(findings["program"]["ok"], findings)


@check
def a_build_above_it_has_no_say():
    source = path("some source")
    os.makedirs(os.path.join(source, "configs"))
    for name in ("CMakeLists.txt", "configs/default.yaml"):
        open(os.path.join(source, name), "w").close()
    with open(path("another place", "CMakeCache.txt"), "w") as cache:
        cache.write("CMAKE_HOME_DIRECTORY:INTERNAL=%s\n" % source)
    findings = json.loads(done_away(program(), "doctor", "--json").stdout)
    os.remove(cache.name)
    expect(os.path.join(bundle(), "share", "cifar-train", "configs") in findings["program"]["value"], findings)


@check
def contains_the_programs_that_check_a_gpu():
    done_away(program("test_kernels_gpu"))
    expect(not os.path.exists(program("kernel_benchmark")), "there was none")
    if glob.glob("/dev/nvidia[0-9]*") or os.path.exists("/dev/dxg"):
        raise Skip("there may be a GPU")
    before = sorted(os.listdir(scratch()))
    done = away(os.path.join(bundle(), "tools", "gpu_check.sh"))
    expect_equal(done.returncode, 77, done.stdout, done.stderr)
    expect_equal(sorted(os.listdir(scratch())), before)


@check
def starts_through_links_and_from_anywhere():
    os.symlink(program(), path("a-link"))
    expected = run("--version").stdout
    expect_equal(done_away(path("a-link"), "--version").stdout, expected)
    expect_equal(done_away("env", "-C", os.path.join(bundle(), "bin"), "./cifar-train", "--version").stdout, expected)
    expect_equal(done_away("env", "PATH=%s:%s" % (os.path.dirname(program()), os.environ["PATH"]), "cifar-train",
                           "--version").stdout, expected)
    # Without what starts it, too.
    expect_equal(done_away(os.path.join(bundle(), "libexec", "cifar-train"), "--version").stdout, expected)


@check
def exit_codes_and_configurations():
    fails(USAGE, away(program(), "train", "--config", "nowhere.yaml"), "nowhere.yaml", bundle())
    done_away("env", "-C", bundle(), "bin/cifar-train", "config", "check", "configs/tutorial.yaml")


@check
def trains_and_evaluates_as_the_program_does():
    need_mpi()
    for number, name in ((1, "one"), (2, "two")):
        output = path("bundle-" + name)
        launch = [program("mpirun"), "-np", number] if number > 1 else []
        done_away(*launch, *training(output))
        train(path("plain-" + name), {**SETTINGS, "data.path": data()}, ranks=Ranks(number, mpi=number > 1))
        expect_same_result(output, result(path("plain-" + name)), name)
        words = ["eval", "--ckpt", os.path.join(output, "last.bin"), "--data", data(), "--json"]
        expect_equal(done_away(program(), *words).stdout, run(*words).stdout)


def loaded(log):
    """Paths of all libraries that the dynamic loader loaded, from LD_DEBUG's files of all processes."""
    found = set()
    for file in glob.glob(log + ".*"):
        with open(file) as lines:
            found |= {match[1] for match in map(re.compile(r"\s*\d+:\s+calling init: (.*)$").match, lines) if match}
    return {os.path.normpath(name) for name in found}


def expect_only_the_bundles(log, *some):
    found = loaded(log)
    foreign = [name for name in found if not name.startswith(bundle()) and not GLIBC.match(os.path.basename(name))]
    expect_equal(foreign, [], "libraries of the machine")
    for name in some:
        expect(any(os.path.basename(path).startswith(name) for path in found), "no %s in %s" % (name, sorted(found)))


@check
def only_its_own_libraries_are_loaded():
    need_mpi()
    log = path("loader")
    done_away("env", "LD_DEBUG=libs", "LD_DEBUG_OUTPUT=" + log, program("mpirun"), "-np", 2, *training(path("watched")))
    expect_only_the_bundles(log, "libmpi.", "libopen-rte.", "libyaml-cpp.", "libstdc++.", "mca_ess_hnp", "mca_pml_ob1")


@check
def a_missing_program_is_mpiruns_own_words():
    """mpirun finds its help texts too."""
    need_mpi()
    done = away(program("mpirun"), "-np", 1, "no-such-program")
    expect("no-such-program" in done.stderr and "help" not in done.stderr.lower(), done.stderr)


@check
def mpirun_finds_the_program_and_misleads_no_other():
    need_mpi()
    script = 'command -v cifar-train && echo "$LD_LIBRARY_PATH"'
    expect_equal(done_away(program("mpirun"), "-np", 1, "sh", "-c", script).stdout.splitlines(),
                 [program(), misleading()["LD_LIBRARY_PATH"]])


@check
def an_older_glibc_is_one_line():
    os.makedirs(path("old"))
    for name, version, answer in (("2.31", "2.31", "glibc 2.31"), ("another C library", "", "")):
        with open(path("old", "getconf"), "w") as file:
            file.write("#!/bin/sh\necho %s\n" % answer if version else "#!/bin/sh\nexit 1\n")
        os.chmod(path("old", "getconf"), 0o755)
        for words in ([program(), "--version"], [program("mpirun"), "--version"]):
            done = finish(start(words, env={"PATH": path("old") + ":" + os.environ["PATH"]}))
            fails(USAGE, done, "needs glibc 2.", "this machine has " + name)
            expect_equal((done.stdout, done.stderr.count("\n")), ("", 1))


@check
def two_hosts():
    """mpirun's daemon of the bundle starts ranks on the second host, as over ssh."""
    need_mpi()
    need_namespaces()
    elsewhere()
    output = path("bundle-hosts")
    os.symlink(bundle(), path("linked"))  # mpirun cannot reach another host's daemon at a path with spaces
    with Network() as net:
        for host in net.hosts:
            host.run("sh", "-c", hiding())
        words = [path("linked", "bin", "mpirun") if word == "mpirun" else word for word in net.mpirun(2)]
        done = finish(start([*words, *training(output)], cwd=scratch()))
        expect_equal(done.returncode, DONE, done.stdout, done.stderr)
    expect("2 processes (MPI messages)" in done.stderr, done.stderr)
    train(path("plain-hosts"), {**SETTINGS, "data.path": data()})
    expect_same_result(output, result(path("plain-hosts")))


main()
