"""A clock that jumps, by libfaketime (Debian: faketime)."""
import glob

LIBRARY = next(iter(glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")), None)  # None: not installed


def environment(file):
    """Variables of a process whose time of day is shifted by what the file says: "+40000d". Times of files, and clocks
    that measure durations, are true."""
    return {"LD_PRELOAD": LIBRARY, "FAKETIME_TIMESTAMP_FILE": file, "FAKETIME_NO_CACHE": "1", "DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1"}


def set_to(file, shift):
    with open(file, "w") as opened:
        opened.write(shift)
