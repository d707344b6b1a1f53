"""Where ranks compute: what is said of cores that are too few, and what becomes of another program beside them. It has the
machine to itself."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import *


@check
def ranks_bound_to_too_few_cores_are_named():
    """Those of other tests may be bound there too."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise Skip("there is one core")
    endless = {**FEW, "data.path": few(), "train.max_steps": 10 ** 6, "train.epochs": 10 ** 6}
    bound, jobs = ["taskset", "-c", str(cores[0])], []
    try:
        for name, prefix, ranks in [("first", bound, 1), ("second", bound, 1), ("threads", bound, 2), ("free", [], 1)]:
            jobs.append(start(Ranks(ranks).words(*train_words(path(name), endless)), prefix=prefix))
            while not os.path.exists(path(name, "metrics.jsonl")) and jobs[-1].poll() is None:
                time.sleep(0.05)
        found = json.loads(run("doctor", "--json").stdout)
    finally:
        for job in jobs:
            job.send_signal(signal.SIGUSR1)
        _, second, threads, free = [finish(job).stderr for job in jobs]
    doctor = found["ranks"]["warning"]
    bound_here = r"(\d+) ranks of host .* \(pid (.*)\) are bound to 1 core \(%d\)" % cores[0]
    for text, pids in [(doctor, [0, 1, 2]), (second, [0, 1]), (threads, [0, 1, 2])]:
        found = re.search(bound_here, text)
        expect(found and int(found[1]) >= 2, text)
        expect(all(str(jobs[i].pid) in found[2].split(", ") for i in pids), text)
        expect("take fewer ranks, or give them more cores" in text or "mpirun" in text, text)
    expect("are bound to" not in free, free)


def cpus_of_the_busiest(pid, number):
    """Where those threads of a process are that have computed most."""
    threads = []
    for thread in os.listdir("/proc/%d/task" % pid):
        with open("/proc/%d/task/%s/stat" % (pid, thread)) as file:
            fields = file.read().rsplit(")", 1)[1].split()
        threads.append((int(fields[11]) + int(fields[12]), int(fields[36])))
    return [cpu for _, cpu in sorted(threads)[-number:]]


@check
def ranks_do_not_share_a_core_beside_another_program():
    """Left alone, the kernel has both ranks on one core and the other program, of lowest priority, on the other."""
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
