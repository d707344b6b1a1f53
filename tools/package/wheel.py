#!/usr/bin/env python3
"""Makes a wheel of a bundle: usage: wheel.py BUNDLE FOLDER LEVEL, called by tools/package.sh. Prints the wheel's path.

The bundle is the folder cifar_train/bundle/ of the wheel, without its links, which a wheel cannot have. The command
cifar-train, written by pip, replaces itself by the bundle's program. The same bundle gives the same wheel.
"""
import base64
import hashlib
import io
import os
import re
import sys
import tarfile
import time
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
GLIBC = (2, 36)  # the newest that tools/bundle.sh lets a bundle need

METADATA = """\
Metadata-Version: 2.1
Name: cifar-train
Version: {version}
Summary: trains image classifiers on CPUs and NVIDIA GPUs
License: Apache-2.0
License-File: LICENSE
Requires-Python: >=3.8
Provides-Extra: pandas
Requires-Dist: pandas; extra == "pandas"
Description-Content-Type: text/markdown

"""
WHEEL = """\
Wheel-Version: 1.0
Generator: cifar-train tools/package/wheel.py
Root-Is-Purelib: false
Tag: {tag}
"""
ENTRY_POINTS = """\
[console_scripts]
cifar-train = cifar_train.__main__:main
"""


def read(*names):
    with open(os.path.join(*names), "rb") as file:
        return file.read()


def files_of(bundle):
    """(version, machine, newest date, {path in the wheel: (bytes, mode)}) of an archive."""
    files, newest = {}, 0
    with tarfile.open(bundle) as archive:
        for entry in archive:
            top, _, path = entry.name.partition("/")
            newest = max(newest, entry.mtime)
            if entry.isfile():
                files["cifar_train/bundle/" + path] = (archive.extractfile(entry).read(), entry.mode)
    version, machine = re.fullmatch(r"cifar-train-(.+)-linux-(\w+)", top).groups()
    return version, machine, newest, files


def main():
    bundle, folder, level = sys.argv[1:]
    version, machine, date, files = files_of(bundle)
    tag = "py3-none-manylinux_%d_%d_%s" % (*GLIBC, machine)
    for name in sorted(os.listdir(os.path.join(HERE, "cifar_train"))):
        if name.endswith(".py"):
            files["cifar_train/" + name] = (read(HERE, "cifar_train", name), 0o644)
    info = "cifar_train-%s.dist-info/" % version
    readme = read(ROOT, "README.md")
    for name, content in (("LICENSE", read(ROOT, "LICENSE")),
                          ("METADATA", METADATA.format(version=version).encode() + readme),
                          ("WHEEL", WHEEL.format(tag=tag).encode()), ("entry_points.txt", ENTRY_POINTS.encode())):
        files[info + name] = (content, 0o644)
    record = "".join("%s,sha256=%s,%d\n" % (name, digest(content), len(content)) for name, (content, _) in files.items())
    files[info + "RECORD"] = ((record + info + "RECORD,,\n").encode(), 0o644)

    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, (content_of_file, mode) in files.items():
            entry = zipfile.ZipInfo(name, time.gmtime(date)[:6])
            entry.external_attr = (0o100000 | mode) << 16
            archive.writestr(entry, content_of_file, zipfile.ZIP_DEFLATED, int(level))
    path = os.path.join(folder, "cifar_train-%s-%s.whl" % (version, tag))
    with open(path, "wb") as file:
        file.write(content.getvalue())
    print(path)


def digest(content):
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


main()
