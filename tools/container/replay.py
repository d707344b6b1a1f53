#!/usr/bin/env python3
"""Replays the Dockerfile beside it in chroots, without a container engine: usage: replay.py FOLDER [MIRROR]

As root, with debootstrap and git. FOLDER gets one folder per stage, named by its number. FROM debian:12 is debootstrap's
minimal system; the context of COPY is a clone of the committed tree. FOLDER/base is made once and used again.
"""
import json
import os
import re
import shlex
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))


def do(*words, **options):
    print("+", shlex.join(words), file=sys.stderr, flush=True)
    subprocess.run(words, check=True, **options)


def instructions():
    """[(word, rest)], with continued lines joined."""
    with open(os.path.join(HERE, "Dockerfile"), encoding="utf-8") as file:
        text = re.sub(r"(?m)^#.*\n", "", file.read()).replace("\\\n", " ")
    return [tuple(line.split(maxsplit=1)) for line in text.splitlines() if line.strip()]


class Stage:
    def __init__(self, folder, base):
        self.folder, self.at = folder, "/"
        do("rm", "-rf", "--one-file-system", folder)
        do("cp", "-a", base, folder)
        do("cp", "--remove-destination", "/etc/resolv.conf", folder + "/etc/resolv.conf")

    def path(self, inside):
        return self.folder + os.path.normpath(os.path.join(self.at, inside))

    def run(self, *words):
        """In a name space of its own, so that the mounts go with it."""
        script = 'mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" && folder=$1 && shift && exec chroot "$folder" "$@"'
        do("unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", script, "sh", self.folder, "/usr/bin/env", "-i", "HOME=/root",
           "DEBIAN_FRONTEND=noninteractive", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "sh", "-c",
           'cd "$0" && exec "$@"', self.at, *words, stdin=subprocess.DEVNULL)


def main():
    if not 2 <= len(sys.argv) <= 3 or sys.argv[1].startswith("-"):
        print(__doc__)
        sys.exit(2 if sys.argv[1:] not in (["-h"], ["--help"]) else 0)
    folder, *mirror = sys.argv[1:]
    folder = os.path.abspath(folder)
    base = os.path.join(folder, "base")
    if not os.path.isdir(base):
        os.makedirs(folder, exist_ok=True)
        do("debootstrap", "--variant=minbase", "bookworm", base + ".part", *mirror)
        os.rename(base + ".part", base)
    stages, entry = {}, []
    for word, rest in instructions():
        parts = shlex.split(rest)
        if word == "FROM":
            if not parts[0].startswith("debian:12"):
                sys.exit("error: FROM %s: only debian:12 can be replayed" % parts[0])
            stage = Stage(os.path.join(folder, str(len(stages))), base)
            stages[parts[-1]] = stage
        elif word == "WORKDIR":
            stage.at = os.path.join(stage.at, rest)
            os.makedirs(stage.path("."), exist_ok=True)
        elif word == "COPY" and parts[0].startswith("--from="):
            do("cp", "-a", stages[parts[0].partition("=")[2]].path(parts[1]), stage.path(parts[2]))
        elif word == "COPY" and parts[0] == ".":
            do("git", "clone", "-q", "--no-hardlinks", ROOT, stage.path(parts[1]))
        elif word == "RUN":
            stage.run("sh", "-c", rest)
        elif word == "ENTRYPOINT":
            entry = json.loads(rest)
        else:
            sys.exit("error: %s %s cannot be replayed" % (word, rest))
    stage.run(*entry, "--version")
    print(stage.folder)


main()
