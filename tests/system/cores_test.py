"""Ranks next to another program that computes. It runs alone."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import *


def cpus_of_the_busiest(pid, number):
    """The CPUs of the threads of a process that have computed most."""
    threads = []
    for thread in os.listdir("/proc/%d/task" % pid):
        with open("/proc/%d/task/%s/stat" % (pid, thread)) as file:
            fields = file.read().rsplit(")", 1)[1].split()
        threads.append((int(fields[11]) + int(fields[12]), int(fields[36])))
    return [cpu for _, cpu in sorted(threads)[-number:]]


@check
def ranks_do_not_share_a_core_beside_another_program():
    """By default the kernel puts both ranks on one core and the other program, of lowest priority, on the other."""
    if len(os.sched_getaffinity(0)) < 2:
        raise Skip("one core")
    running = [start(["nice", "-n", "19", sys.executable, "-c", "while True: pass"])
               for _ in range(len(os.sched_getaffinity(0)) - 1)]
    try:
        job = start(Ranks(2).words("bench", "step", "--set", "train_batch_size=512", "--set", "data.path=" + synthetic(),
                                   "--set", "train_micro_batch_size_per_gpu=256", "--seconds", "0.5", "--windows", "5"))
        running.append(job)
        time.sleep(1)
        together, looks = 0, 0
        while job.poll() is None and looks < 200:
            a, b = cpus_of_the_busiest(job.pid, 2)
            together += a == b
            looks += 1
            time.sleep(0.005)
        expect(looks > 100, "the benchmark ended early", looks)
        expect(together < 0.6 * looks, "%d of %d times on one core" % (together, looks))
        expect_equal(finish(job).returncode, DONE)
    finally:
        for process in running:
            process.kill()
            process.communicate()


main()
