"""A pseudo-terminal, as a user has one: what programs write to it, and keys that are typed."""
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time

from harness import expect

# Moves of the cursor, colours, titles and keyboard modes, which shells write.
SEQUENCES = re.compile(r"\x1b(\[[0-9;?>=]*[a-zA-Z]|\][^\x07\x1b]*(\x07|\x1b\\)|[()][A-Z0-9]|[=>78])")


class Terminal:
    """Runs a program on a terminal of so many columns and rows."""

    def __init__(self, words, columns=200, rows=50, env=None, **options):
        self.end, other = pty.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        variables = {k: v for k, v in {**os.environ, **(env or {})}.items() if v is not None}
        # Its own session, whose terminal it is, as that of a shell.
        self.job = subprocess.Popen([*map(str, words)], stdin=other, stdout=other, stderr=other, env=variables,
                                    start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
                                    **options)
        os.close(other)
        self.written = b""
        self.silence = 0  # the longest, in seconds

    def read(self, seconds):
        """Adds what is written within so many seconds; False: nothing was, or the program has ended."""
        begin = time.monotonic()
        if not select.select([self.end], [], [], seconds)[0]:
            return False
        self.silence = max(self.silence, time.monotonic() - begin)
        try:
            part = os.read(self.end, 1 << 16)
        except OSError:  # the program has ended
            part = b""
        self.written += part
        return part != b""

    def text(self):
        return self.written.decode(errors="replace")

    def all(self):
        """All that is written until the program ends, and its exit status."""
        while self.read(600):
            pass
        os.close(self.end)
        return self.text(), self.job.wait()

    def type(self, keys, *patterns, patience=20):
        """Types keys, waits until what the terminal shows since then has all patterns, and returns it."""
        self.written = b""
        os.write(self.end, keys.encode())
        end = time.monotonic() + patience
        while True:
            shown = SEQUENCES.sub("", self.text())
            if all(re.search(pattern, shown) for pattern in patterns):
                return shown
            expect(time.monotonic() < end, "%r shows %r, not all of %r" % (keys, shown, patterns))
            self.read(0.2)

    def close(self):
        self.job.kill()
        self.job.wait()
        os.close(self.end)
