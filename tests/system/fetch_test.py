#!/usr/bin/env python3
"""`data fetch` and --pretrained resnet18 against a server that does everything wrong: the published file or one line of
error, never another file."""
import gzip
import hashlib
import io
import os
import random
import resource
import ssl
import struct
import subprocess
import sys
import tarfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import *
from hostile_server import FIRST, HostileServer
from torch_files import Tensor, torch_save

# The program whose published files are those of CIFAR_TRAIN_PUBLISHED.
FETCHER = os.path.join(os.path.dirname(PROGRAM), "cifar-train-faulty")
WEIGHTS = "resnet18-00000000.pth"
CONTENT = random.Random(1).randbytes(200_000)
IDX = {"train": 20, "t10k": 10}  # images of a small MNIST


def table(name, *sets):
    """The environment of a program that knows these sets: (key, folder, {file: content}) or with the servers."""
    lines = []
    for key, folder, files, *servers in sets:
        digest = hashlib.sha256 if folder == "-" else hashlib.md5
        of_files = ["%s:%d:%s" % (file, len(content), digest(content).hexdigest()) for file, content in files.items()]
        lines.append(" ".join([key, folder, ",".join(servers) or "http://127.0.0.1:9/", *of_files]))
    with open(path(name + ".published"), "w") as file:
        file.write("\n".join(lines) + "\n")
    return {"CIFAR_TRAIN_PUBLISHED": path(name + ".published"), "XDG_CACHE_HOME": path(name + "-cache")}


def weights(name, content=CONTENT, *servers):
    return table(name, ("weights:resnet18", "-", {WEIGHTS: content}, *servers))


def cached(name):
    return path(name + "-cache", "cifar-train", WEIGHTS)


def fetch(environment, what, *words, **options):
    return run_of(FETCHER, ["data", "fetch", what, *words], environment, **options)


def run_of(program, words, environment, **options):
    return finish(start([program, *words], env=environment, **options), timeout=60)


def content_of(file):
    with open(file, "rb") as opened:
        return opened.read()


def partial(name):
    return path(name + "-cache", "cifar-train", ".tmp-" + WEIGHTS)


def size(file):
    return os.path.getsize(file) if os.path.exists(file) else 0


def gz(content):
    return gzip.compress(content, 1, mtime=0)


@functools.lru_cache(None)
def mnist_files():
    files = {}
    for split, count in IDX.items():
        pixels = bytes((37 * i + 5) % 256 for i in range(count * 28 * 28))
        files[split + "-images-idx3-ubyte.gz"] = gz(struct.pack(">4i", 0x803, count, 28, 28) + pixels)
        labels = bytes(i % 10 for i in range(count))
        files[split + "-labels-idx1-ubyte.gz"] = gz(struct.pack(">2i", 0x801, count) + labels)
    return files


def tar_gz(members):
    """An archive of (name, content) or of TarInfo."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                tar.addfile(member)
            else:
                info = tarfile.TarInfo(member[0])
                info.size = len(member[1])
                tar.addfile(info, io.BytesIO(member[1]))
    return gz(out.getvalue())


def at_once(addresses):
    """(name, finished job) of weights that are fetched from each address into a cache of that name."""
    words = ["data", "fetch", "weights:resnet18", "--stall", "1", "--mirror"]
    jobs = {name: start([FETCHER, *words, address], env=weights(name)) for name, address in addresses.items()}
    return [(name, finish(job, timeout=60)) for name, job in jobs.items()]


# ---- one file, whatever the server does

@check
def the_right_file_comes_in_the_end():
    ways = ["whole", "cut", "cut-often", "stalls-once", "too-long", "no-length", "no-length-cut", "redirects", "no-ranges",
            "refuses-ranges", "old-beginning"]
    with HostileServer({WEIGHTS: CONTENT}) as server:
        for way, done in at_once({way: server.address(way) for way in ways}):
            expect_equal(done.returncode, DONE, way, done.stderr)
            expect_equal(done.stdout, cached(way) + "\n")
            expect(content_of(cached(way)) == CONTENT, "%s: another file" % way)
            expect_equal(os.listdir(os.path.dirname(cached(way))), [WEIGHTS], way)
        expect_equal(server.ranges("cut"), [None, "bytes=66667-", "bytes=133334-"])
        expect_equal(server.ranges("stalls-once"), [None, "bytes=%d-" % FIRST])
        expect_equal(server.ranges("old-beginning"), [None, "bytes=%d-" % FIRST, None])
        expect_equal(server.ranges("refuses-ranges"), [None, "bytes=%d-" % FIRST, None])


@check
def or_a_clear_error_and_no_file():
    ways = {"stalls": "too slow", "drips": "remaining to read", "silent": "too slow",
            "too-short": "ended after 199900 of 200000 bytes",
            "loops": "redirects", "long-header": "the server's answer has too long a header", "to-a-file": "file", "other": "another file: it has 200000 bytes and SHA-256 ",
            "longer": "another file: it has 200001 bytes", "endless": "more than the 200000 bytes", "page": "a web page",
            "fails": "answers 500", "another-range": "sends another part", "nowhere": "answers 404"}
    with HostileServer({WEIGHTS: CONTENT}) as server:
        addresses = {way: server.address(way) for way in ways}
        addresses["nowhere"] = server.address("whole") + "/nothing"
        for way, done in at_once(addresses):
            line = fails(DATA, done, "weights:resnet18: " + WEIGHTS + " was not downloaded", addresses[way], ways[way],
                         "data fetch --mirror", os.path.dirname(cached(way)))
            goes_on = way in ("stalls", "drips", "too-short", "another-range")
            expect_in("run the command again" if goes_on else "try again later" if way == "fails" else "check the address", line)
            expect(not os.path.exists(cached(way)), line)
            expect(goes_on or not os.path.exists(path(way + "-cache")), "%s leaves a folder" % way)
            expect_equal(done.stdout, "")
        for way in ("other", "longer", "endless", "page", "fails"):
            expect(not os.path.exists(partial(way)), "%s leaves a part" % way)
        expect_equal(size(partial("stalls")), 3 * FIRST)
    fails(DATA, fetch(weights("gone"), "weights:resnet18"), "http://127.0.0.1:9/", "127.0.0.1 port 9")


@check
def addresses_are_tried_in_their_order():
    with HostileServer({WEIGHTS: CONTENT}) as server:
        ways = [server.address(way) for way in ("page", "fails", "drips", "whole")]
        environment = weights("ordered", CONTENT, *[way + "/" for way in ways])
        done = fetch(environment, "weights:resnet18", "--stall", 1)
        expect_equal(done.returncode, DONE, done.stderr)
        expect(content_of(cached("ordered")) == CONTENT, "another file")
        # What a slow server sent is continued by the next one.
        expect_equal(server.requests, [("page", None), ("fails", None), ("drips", None), ("drips", "bytes=1-"),
                                       ("drips", "bytes=2-"), ("whole", "bytes=3-")])
        mirrors = {**weights("by-variable"), "CIFAR_TRAIN_MIRROR": " ".join([ways[1], ways[3]])}
        expect_equal(fetch(mirrors, "weights:resnet18").returncode, DONE)
        expect(content_of(cached("by-variable")) == CONTENT, "another file")
    no_address = {**mirrors, "CIFAR_TRAIN_MIRROR": "file:///etc"}
    fails(USAGE, fetch(no_address, "weights:resnet18"), "CIFAR_TRAIN_MIRROR", "file:///etc")
    for odd in ("ftp://a", "http://", "https:///folder", "http://:80/", "http://a b/", "http://a:port/", "http://a:65536/", "http://a/?b", "a" * 9999):
        fails(USAGE, fetch(mirrors, "weights:resnet18", "--mirror", odd), odd[:20], "give one such as https://HOST/FOLDER")


@check
def a_file_that_is_there_is_verified_and_not_downloaded():
    with HostileServer({WEIGHTS: CONTENT}) as server:
        environment = weights("there")
        words = ("weights:resnet18", "--mirror", server.address("whole"))
        told = fetch(environment, *words).stderr
        for word in ("for tests", "SHA-256 " + hashlib.sha256(CONTENT).hexdigest(), server.address("whole") + "/" + WEIGHTS):
            expect_in(word, told)
        done = fetch(environment, *words)
        expect_in("there already, verified by its SHA-256", done.stderr)
        expect_equal(len(server.requests), 1)
        flip(cached("there"), 1234)
        done = fetch(environment, *words)
        expect_equal(done.returncode, DONE, done.stderr)
        expect_in("another file", done.stderr)
        expect(content_of(cached("there")) == CONTENT and len(server.requests) == 2, server.requests)
    expect_equal(fetch(environment, "weights:resnet18", "-q").stderr, "")  # without a server
    no_home = fetch({**environment, "XDG_CACHE_HOME": None, "HOME": None}, "weights:resnet18")
    fails(USAGE, no_home, "XDG_CACHE_HOME")
    home = {**environment, "XDG_CACHE_HOME": None, "HOME": path("home")}
    with HostileServer({WEIGHTS: CONTENT}) as server:
        expect_equal(fetch(home, "weights:resnet18", "--mirror", server.address("whole")).stdout,
                     path("home", ".cache", "cifar-train", WEIGHTS) + "\n")


# ---- processes that die, and several at once

@check
def a_killed_download_goes_on():
    with HostileServer({WEIGHTS: CONTENT}) as server:
        environment = weights("killed")
        job = start([FETCHER, "data", "fetch", "weights:resnet18", "--mirror", server.address("stalls")], env=environment)
        wait_until(lambda: size(partial("killed")) == FIRST, job)
        job.kill()
        job.communicate()
        done = fetch(environment, "weights:resnet18", "--mirror", server.address("whole"))
        expect_equal(done.returncode, DONE, done.stderr)
        expect_in("from byte %d on" % FIRST, done.stderr)
        expect_equal(server.ranges("whole"), ["bytes=%d-" % FIRST])
        expect(content_of(cached("killed")) == CONTENT, "another file")
        # Killed when all bytes were there: nothing is asked for.
        os.rename(cached("killed"), partial("killed"))
        expect_equal(fetch(environment, "weights:resnet18", "--mirror", server.address("whole")).returncode, DONE)
        expect_equal(len(server.ranges("whole")), 1)


@check
def one_process_downloads_and_the_others_wait():
    with HostileServer({WEIGHTS: CONTENT}) as server:
        environment = weights("together")
        words = [FETCHER, "data", "fetch", "weights:resnet18", "--mirror"]
        first = start([*words, server.address("stalls")], env=environment)
        wait_until(lambda: size(partial("together")) == FIRST, first)
        others = [start([*words, server.address("whole")], env=environment) for _ in range(3)]
        time.sleep(0.5)
        expect_equal(len(server.requests), 1)
        first.kill()  # its lock goes with it, and one of the others goes on
        first.communicate()
        for job in others:
            done = finish(job)
            expect_equal((done.returncode, done.stdout), (DONE, cached("together") + "\n"), done.stderr)
            expect_in("waiting for another process", done.stderr)
        expect_equal(server.ranges("whole"), ["bytes=%d-" % FIRST])
        expect(content_of(cached("together")) == CONTENT, "another file")


@check
def one_that_waited_makes_the_folder_again_which_a_failure_removed():
    with HostileServer({WEIGHTS: CONTENT}) as server:
        environment = weights("in-turn")
        words = [FETCHER, "data", "fetch", "weights:resnet18", "--stall", "2", "--mirror"]
        first = start([*words, server.address("silent")], env=environment)
        wait_until(lambda: os.path.exists(partial("in-turn")) or first.poll() is not None, first)
        second = start([*words, server.address("whole")], env=environment)
        fails(DATA, finish(first), "weights:resnet18")
        done = finish(second)
        expect_equal((done.returncode, done.stdout), (DONE, cached("in-turn") + "\n"), done.stderr)


@check
def a_full_disk_is_told_and_the_part_is_kept():
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
    with HostileServer({WEIGHTS: CONTENT}) as server:
        environment = weights("full")
        words = ("weights:resnet18", "--mirror", server.address("whole"))
        fails(IO, fetch(environment, *words, preexec_fn=limit), ".tmp-" + WEIGHTS)
        expect(not os.path.exists(cached("full")), "a file")
        kept = size(partial("full"))
        expect(0 < kept <= 50_000, kept)
        expect_equal(fetch(environment, *words).returncode, DONE)
        expect_equal(server.ranges("whole"), [None, "bytes=%d-" % kept])
        expect(content_of(cached("full")) == CONTENT, "another file")


# ---- proxies and certificates

@check
def a_proxy_that_refuses_is_named():
    with HostileServer({WEIGHTS: CONTENT}) as server:
        proxy = server.address("").rstrip("/")
        for scheme, why in [("http", "answers 403"), ("https", "403")]:
            name = "proxy-" + scheme
            environment = {**weights(name), scheme + "_proxy": proxy, "no_proxy": None, "NO_PROXY": None}
            address = "%s://files.invalid/folder" % scheme
            done = fetch(environment, "weights:resnet18", "--mirror", address)
            fails(DATA, done, address, why, scheme + "_proxy is set")
        # Exceptions from the proxy are the environment's too.
        environment = {**weights("no-proxy"), "http_proxy": "http://127.0.0.1:9", "no_proxy": "127.0.0.1"}
        expect_equal(fetch(environment, "weights:resnet18", "--mirror", server.address("whole")).returncode, DONE)


@check
def passwords_are_not_printed():
    with HostileServer({WEIGHTS: CONTENT}) as server:
        behind = server.address("whole").removeprefix("http://")
        done = fetch(weights("user"), "weights:resnet18", "--mirror", "http://u:hunter2@%s/404" % behind)
        fails(DATA, done, "http://...@%s/404" % behind, "answers 404")
        expect_not_in("hunter2", done.stderr)
        done = fetch(weights("user"), "weights:resnet18", "--mirror", "http://u:hunter2@" + behind)
        expect_equal(done.returncode, DONE, done.stderr)
        expect_not_in("hunter2", done.stderr)
        for proxy in ("socks9://user:hunter2@h:1", "http://user:hunter2@[h", "user:hunter2@h:no", "http://a:hun/ter2@h@h:1"):
            environment = {**weights("proxy"), "http_proxy": proxy, "no_proxy": None, "NO_PROXY": None}
            done = fetch(environment, "weights:resnet18", "--mirror", server.address("whole"))
            fails(DATA, done, "http_proxy is set")
            expect(not re.search("hun/?ter2", done.stderr), done.stderr)
    for address in ("ftp://u:hunter2@h", "u:hunter2@h"):
        done = fetch(weights("user"), "weights:resnet18", "--mirror", address)
        fails(USAGE, done, "is not the address of a folder")
        expect_not_in("hunter2", done.stderr)
        done = fetch({**weights("user"), "CIFAR_TRAIN_MIRROR": address}, "weights:resnet18")
        expect_not_in("hunter2", fails(USAGE, done, "is not the address of a folder"))


@check
def certificates_are_checked():
    if not shutil.which("openssl"):
        raise Skip("there is no openssl")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", path("key.pem"), "-out",
                    path("cert.pem"), "-days", "1", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"],
                   check=True, stderr=subprocess.DEVNULL)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path("cert.pem"), path("key.pem"))
    with HostileServer({WEIGHTS: CONTENT}, context) as server:
        address = server.address("whole", "localhost")
        unknown = {**weights("tls"), "CURL_CA_BUNDLE": None, "SSL_CERT_FILE": None, "SSL_CERT_DIR": None}
        fails(DATA, fetch(unknown, "weights:resnet18", "--mirror", address), "certificate")
        for name in ("SSL_CERT_FILE", "CURL_CA_BUNDLE"):
            known = {**unknown, **weights("tls-" + name), name: path("cert.pem")}
            done = fetch(known, "weights:resnet18", "--mirror", address)
            expect_equal(done.returncode, DONE, done.stderr)
            wrong_name = {**known, **weights("tls-name-" + name)}
            fails(DATA, fetch(wrong_name, "weights:resnet18", "--mirror", server.address("whole")), "127.0.0.1")


# ---- data sets

@check
def a_set_of_several_files_lies_where_training_finds_it():
    with HostileServer(mnist_files()) as server:
        environment = table("mnist", ("mnist", "mnist", mnist_files()))
        data = path("mnist-data")
        words = ("mnist", "--out", data, "--mirror")
        fails(DATA, fetch(environment, *words, server.address("page")), "train-images-idx3-ubyte.gz", "a web page")
        expect(not os.path.exists(data), "an empty folder")
        os.makedirs(data)  # what an interrupted download has left
        with open(os.path.join(data, ".tmp-mnist.train-images-idx3-ubyte.gz"), "wb") as file:
            file.write(b"?")
        fails(DATA, fetch(environment, *words, server.address("other")), "another file")
        expect_equal(os.listdir(data), [], "the folder stays, which may be the user's")
        done = fetch(environment, *words, server.address("redirects"))
        expect_equal((done.returncode, done.stdout), (DONE, data + "/mnist\n"), done.stderr)
        expect_equal(os.listdir(data), ["mnist"])
        for name, content in mnist_files().items():
            expect(content_of(os.path.join(data, "mnist", name[:-3])) == gzip.decompress(content), name)
        text = good("data", "info", "--data", data, "--dataset", "mnist")
        expect_in("20 images to train on, 10 to test on, 28x28, 1 channel", text)
        before = len(server.requests)
        done = fetch(environment, *words, server.address("whole"))
        expect_in("there already, nothing to download; headers, sizes and labels are checked", done.stderr)
        expect_equal((done.returncode, len(server.requests)), (DONE, before))
        # As data.path, so may --out name the set's own folder.
        done = fetch(environment, "mnist", "--out", data + "/mnist/", "--mirror", server.address("whole"))
        expect_equal((done.returncode, done.stdout, len(server.requests)), (DONE, data + "/mnist\n", before), done.stderr)
        # What is there is never replaced.
        os.truncate(os.path.join(data, "mnist", "t10k-labels-idx1-ubyte"), 12)
        kept = snapshot(data)
        fails(DATA, fetch(environment, *words, server.address("whole")), "t10k-labels-idx1-ubyte", "away")
        expect_equal(snapshot(data), kept)
    with open(path("no-folder"), "w"):
        fails(IO, fetch(environment, "mnist", "--out", path("no-folder")), "no-folder")


@check
def files_that_the_user_has_brought_are_used():
    environment, data = table("brought", ("mnist", "mnist", mnist_files())), path("brought-data")
    os.makedirs(data)
    for name, content in mnist_files().items():
        with open(os.path.join(data, name), "wb") as file:
            file.write(content)
    flip(os.path.join(data, "t10k-images-idx3-ubyte.gz"), 100)
    before = snapshot(data)
    own = os.path.join(data, "t10k-images-idx3-ubyte.gz")
    line = fails(DATA, fetch(environment, "mnist", "--out", data), "t10k-images-idx3-ubyte.gz was not downloaded",
                 "replace %s (another file: it has " % own)
    expect_not_in("put the file into", line)
    expect_equal(snapshot(data), before)
    flip(os.path.join(data, "t10k-images-idx3-ubyte.gz"), 100)
    done = fetch(environment, "mnist", "--out", data)
    expect_equal(done.returncode, DONE, done.stderr)
    expect_equal(sorted(os.listdir(data)), sorted([*mnist_files(), "mnist"]))


@check
def an_archive_writes_into_its_folder_alone():
    link = tarfile.TarInfo("set/link")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc"
    hard = tarfile.TarInfo("set/hard")
    hard.type, hard.linkname = tarfile.LNKTYPE, "set/a.bin"
    archive = tar_gz([("set/a.bin", b"first"), link, hard, ("../escaped", b"x"), (path("absolute"), b"x"),
                      ("set/../escaped", b"x"), ("set/sub/deep", b"x"), ("set/link/passwd", b"x"), ("set/b.bin", b"")])
    environment, data = table("tar", ("cifar10", "set", {"a.tar.gz": archive})), path("tar-data")
    with HostileServer({"a.tar.gz": archive}) as server:
        done = fetch(environment, "cifar10", "--out", data, "--mirror", server.address("no-length"))
        expect_equal(done.returncode, DONE, done.stderr)
    expect_equal(os.listdir(data), ["set"])
    expect_equal(sorted(os.listdir(os.path.join(data, "set"))), ["a.bin", "b.bin"])
    expect_equal(content_of(os.path.join(data, "set", "a.bin")), b"first")
    expect(not os.path.exists(path("absolute")) and not os.path.exists(path("escaped")), "a file outside")
    # A published file that is no archive, or is cut.
    for name, content in [("junk", b"junk" * 1000), ("half", archive[:len(archive) // 2]), ("empty", gz(bytes(1024)))]:
        environment = table(name, ("cifar10", "set", {"a.tar.gz": content}))
        with HostileServer({"a.tar.gz": content}) as server:
            done = fetch(environment, "cifar10", "--out", path(name), "--mirror", server.address("whole"))
            fails(DATA, done, "a.tar.gz")
        expect(not os.path.exists(path(name, "set")), "half a set")


# ---- pretrained weights

@check
def pretrained_weights_are_fetched_once():
    folder = path("pretrained")
    settings = {**FEW, "data.path": few(8, 8), "model.name": "resnet18", "train.max_steps": 0, "train_batch_size": 4,
                "train.eval_batch_size": 8}
    train(folder, settings)
    tensors = safetensors(os.path.join(folder, "last.bin"))[0]
    file = path("weights.pth")
    torch_save(file, {name: Tensor(kind, shape, data) for name, (kind, shape, data) in tensors.items()})
    content = content_of(file)
    environment = weights("training", content)
    words = train_words(path("tuned"), {**settings, "seed": 5}, "--pretrained", "resnet18")
    with HostileServer({WEIGHTS: content}) as server:
        for way in ("page", "fails"):
            done = run_of(FETCHER, words, {**environment, "CIFAR_TRAIN_MIRROR": server.address(way)})
            fails(DATA, done, "weights:", WEIGHTS)
        mirror = {**environment, "CIFAR_TRAIN_MIRROR": server.address("whole")}
        done = run_of(FETCHER, words, mirror)
        expect_equal(done.returncode, DONE, done.stderr)
        checksum = hashlib.sha256(content).hexdigest()
        for word in (server.address("whole") + "/" + WEIGHTS, "SHA-256 " + checksum, "for tests"):
            expect_in(word, done.stderr)
    expect_equal(weights_sha256(path("tuned", "last.bin")), weights_sha256(os.path.join(folder, "last.bin")))
    done = run_of(FETCHER, [*words, "--reset"], environment)  # without a server
    expect_equal(done.returncode, DONE, done.stderr)
    expect_not_in("download", done.stderr)
    os.remove(cached("training"))
    fails(DATA, run_of(FETCHER, [*words, "--reset"], environment), "127.0.0.1:9", WEIGHTS)


# ---- the program's own table

@check
def another_file_than_the_published_one_is_never_kept():
    environment = {"XDG_CACHE_HOME": path("own-cache")}
    with HostileServer({"resnet18-f37072fd.pth": CONTENT, "cifar-10-binary.tar.gz": CONTENT}) as server:
        for what, hash_of in [("weights:resnet18", "SHA-256 f37072fd"), ("cifar10", "MD5 c32a1d4ab5d03f1284b67883e8d87530")]:
            done = run_of(PROGRAM, ["data", "fetch", what, "--mirror", server.address("longer"),
                                    *(["--out", path("own")] if what == "cifar10" else [])], environment)
            fails(DATA, done, what, "another file: it has 200001 bytes")
            expect_in(hash_of, done.stderr)
            expect_in("terms of ", done.stderr)
    expect(not os.path.exists(path("own", "cifar-10-batches-bin")), "a set")


@check
def wrong_words():
    text = bad(USAGE, "cifar10, cifar100, mnist, fashion-mnist, weights:resnet18", "data", "fetch", "cifar11")
    expect_equal(text, "")
    bad(USAGE, "--out is for data sets", "data", "fetch", "weights:resnet18", "--out", "data")
    bad(USAGE, "--out ''", "data", "fetch", "mnist", "--out", "")
    bad(USAGE, "NAME", "data", "fetch")


main()
