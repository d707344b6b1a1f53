"""Ranks next to another program that computes. It runs alone."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import *


def threads_of(pid):
    """{thread: (clock ticks that it has computed, its CPU)}"""
    threads = {}
    try:
        for thread in os.listdir("/proc/%d/task" % pid):
            with open("/proc/%d/task/%s/stat" % (pid, thread)) as file:
                fields = file.read().rsplit(")", 1)[1].split()
            threads[thread] = int(fields[11]) + int(fields[12]), int(fields[36])
    except (FileNotFoundError, ProcessLookupError):  # one has ended
        return {}
    return threads


def share_of_looks_on_one_core():
    """Two ranks compute, and programs of the lowest priority keep all other cores busy."""
    running = [start(["nice", "-n", "19", sys.executable, "-c", "while True: pass"])
               for _ in range(len(os.sched_getaffinity(0)) - 1)]
    try:
        job = start(Ranks(2).words("bench", "step", "--set", "train_batch_size=512", "--set", "data.path=" + synthetic(),
                                   "--set", "train_micro_batch_size_per_gpu=256", "--seconds", "0.5", "--windows", "5"))
        running.append(job)
        looks = []
        while job.poll() is None:
            looks.append(threads_of(job.pid))
            time.sleep(0.005)
        expect_equal(finish(job).returncode, DONE)
        looks = looks[len(looks) // 4:len(looks) * 3 // 4]  # neither of its start nor of its end
        expect(len(looks) > 50 and all(looks), "the benchmark ended early", len(looks))
        common = set.intersection(*map(set, looks))
        a, b = sorted(common, key=lambda thread: looks[-1][thread][0] - looks[0][thread][0])[-2:]  # the ranks compute most
        return sum(look[a][1] == look[b][1] for look in looks) / len(looks)
    finally:
        for process in running:
            process.kill()
            process.communicate()


@check
def ranks_do_not_share_a_core_beside_another_program():
    """By default the kernel puts both ranks on one core and the other program on the other: always together. Unknown
    programs of the machine may do so once, but not three times."""
    if len(os.sched_getaffinity(0)) < 2:
        raise Skip("one core")
    shares = []
    while not shares or (shares[-1] >= 0.6 and len(shares) < 3):
        shares.append(share_of_looks_on_one_core())
    expect(shares[-1] < 0.6, "on one core in these shares of the looks", shares)


main()
