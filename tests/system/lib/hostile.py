"""What the tests of files that somebody made on purpose share: a verb meets such a file, and what is wrong with how it
refuses it is noted."""
import threading

from harness import *

FULL = bool(os.environ.get("CIFAR_TRAIN_FULL"))  # each file meets every verb, not one of them in turn
SECONDS, MEMORY = 5, 64 << 20  # of processor time; beyond what the verb needs for a sound file


def read(*names):
    with open(os.path.join(*names), "rb") as file:
        return file.read()


def write(file_path, content):
    with open(file_path, "wb") as file:
        file.write(content if isinstance(content, bytes) else content.encode())
    return file_path


def everything():
    """All paths of the test's folder, which is also above the files that the verbs meet, except what a run may write."""
    may = (path("run", ".lock"), path("written", "run"))
    return {at for folder, folders, names in os.walk(scratch()) for at in (os.path.join(folder, n) for n in folders + names)
            if not at.startswith(may)}


class Trial:
    def __init__(self):
        self.number, self.wrong, self.needs = 0, [], {}
        self.watched = tempfile.mkdtemp(dir=scratch())

    def need(self, verb, words):
        """Peak memory of the verb for a sound file."""
        if verb not in self.needs:
            self.needs[verb] = self.start(words)[2]
        return self.needs[verb]

    def start(self, words):
        env = dict(os.environ, HOME=self.watched, TMPDIR=self.watched)
        job = subprocess.Popen([PROGRAM, *words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                               text=True, errors="replace", cwd=self.watched, env=env)
        timer = threading.Timer(60, job.kill)
        timer.start()
        text = job.stderr.read()
        _, status, used = os.wait4(job.pid, 0)
        timer.cancel()
        job.returncode = os.waitstatus_to_exitcode(status)
        return job.returncode, text, used.ru_maxrss << 10, used.ru_utime + used.ru_stime

    def refused(self, name, verb, words, need, file_bytes, culprits, codes, reads=()):
        """Runs the verb; notes what is wrong with how it refuses the file. `reads`: exit codes with which it may read it."""
        self.number += 1
        before = everything()
        code, text, memory, seconds = self.start(words)
        written = sorted(everything() - before)
        errors = [line for line in text.splitlines() if line.startswith("error: ")]
        wrong = []
        was_read = code in reads and not errors
        if not was_read and code not in codes:
            wrong.append("exit %d" % code)
        if not was_read and (len(errors) != 1 or not any(culprit in errors[0] for culprit in culprits)):
            wrong.append("no single line that names it")
        if "internal error" in text or "Sanitizer" in text or "terminate" in text:
            wrong.append("a fault of the program")
        if max(map(len, errors), default=0) > 4096:
            wrong.append("a line of %d bytes" % len(errors[0]))
        if memory > need + MEMORY + file_bytes:
            wrong.append("%d MiB" % (memory >> 20))
        if seconds > SECONDS:
            wrong.append("%.1f s" % seconds)
        if written:
            wrong.append("wrote %s" % written)
        if wrong:
            self.wrong.append("%s: %s: %s\n    %s" % (verb, name, ", ".join(wrong), text[-600:]))

    def end(self, least):
        print("%d trials" % self.number)
        expect(not self.wrong, "%d of %d:" % (len(self.wrong), self.number), *self.wrong)
        expect(self.number >= least, self.number)
