"""A whole job scheduler of one node in namespaces of its own (names, network, processes, files), and the job that tests
run under each.

    with Slurm() as slurm:
        job = slurm.submit("job.sh", folder); slurm.run("squeue")

It exists as long as this process holds it. Needs root, util-linux, iproute2 and the scheduler's packages: need() skips
where they are missing.
"""
import os
import re
import shutil
import subprocess
import time

import harness

ADDRESS = "10.214.7.1"  # nobody else's: the namespace sees no other network

_BEGIN = """set -e
hostname node0
mount --make-rprivate /
mount -t proc proc /proc
mount -t tmpfs none /run
mount --bind "$0/hosts" /etc/hosts
ip link set lo up
ip link add cable type veth peer name plug
ip address add %s/24 dev cable
ip link set cable up
ip link set plug up
""" % ADDRESS

_END = """
for i in $(seq 300); do
  if ready 2>/dev/null; then
    echo ready
    read -r _
    exit
  fi
  sleep 0.1
done
"""


class Scheduler:
    """The common part of all schedulers. Each adds submit(script, folder), which returns a job's number, and for a
    job restarts(job), ended_well(job), which fails if it has ended otherwise, and about(job), a text for failure
    messages."""
    TOOLS = []    # programs
    PACKAGES = ""  # which have them
    SET_UP = ""   # in bash, in the namespaces, $0 being the folder: starts the daemons, and defines ready
    LOGS = []     # names in the folder
    USER = 0      # who runs jobs

    @classmethod
    def need(cls):
        for tool in [*cls.TOOLS, "unshare", "nsenter", "ip"]:
            if not shutil.which(tool):
                raise harness.Skip("there is no %s (packages %s, iproute2, util-linux)" % (tool, cls.PACKAGES))
        if os.geteuid() != 0:
            raise harness.Skip("namespaces need root")

    def __init__(self):
        self._folder = harness.path("scheduler-%d" % time.monotonic_ns())
        os.makedirs(self._folder)
        self.write("hosts", "127.0.0.1 localhost\n%s node0\n" % ADDRESS)

    def write(self, name, text, mode=0o644):
        at = os.path.join(self._folder, name)
        with open(at, "w") as file:
            file.write(text)
        os.chmod(at, mode)

    def __enter__(self):
        self._holder = subprocess.Popen(
            ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--uts", "--net", "--ipc", "bash", "-c",
             _BEGIN + self.SET_UP + _END, self._folder], text=True, start_new_session=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if self._holder.stdout.readline() != "ready\n":
            self._holder.kill()
            said = self.logs() + self._holder.communicate()[1]
            raise harness.Skip("%s does not start here: %s" % (type(self).__name__, said.strip()[-500:]))
        inside, = [pid for pid in harness.children(self._holder.pid) if self._is_first(pid)]
        self._inside = ["nsenter", "--target", str(inside), "--mount", "--pid", "--uts", "--net", "--ipc"]
        return self

    @staticmethod
    def _is_first(pid):
        """Is it the first process of its namespace?"""
        with open("/proc/%d/status" % pid) as status:
            numbers = re.search(r"(?m)^NSpid:\s+(.*)$", status.read())[1].split()
        return len(numbers) > 1 and numbers[-1] == "1"

    def __exit__(self, *_):
        self._holder.kill()  # which ends the first process of the namespace, and with it all others
        self._holder.communicate()

    def logs(self):
        text = ""
        for name in self.LOGS:
            at = os.path.join(self._folder, name)
            if os.path.exists(at):
                with open(at, errors="replace") as file:
                    text += "".join(file.readlines()[-15:])
        return text

    def run(self, *words, folder=None, user=0, failing=False):
        """The output of a command in the namespaces. `failing`: it may fail."""
        identity = ["--setuid", str(user), "--setgid", str(user)] if user else []
        done = subprocess.run([*self._inside, *identity, "--wdns=" + (folder or harness.scratch()), *map(str, words)],
                              text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              timeout=60)
        harness.expect(failing or done.returncode == 0, done.args, done.stdout, done.stderr)
        return done.stdout

    def wait_for(self, job, condition, what, seconds=90):
        end = time.monotonic() + seconds
        while not condition():
            harness.expect(time.monotonic() < end, what, self.about(job), self.logs())
            time.sleep(0.1)


class Job:
    """A run of a generated script in its own folder, endless until finish_soon()."""

    def __init__(self, scheduler, name, *words):
        self.scheduler, self.folder = scheduler, harness.path(name)
        self.output, self._config = (os.path.join(self.folder, name) for name in ("run", "run.yaml"))
        os.makedirs(self.folder)
        os.chown(self.folder, scheduler.USER, scheduler.USER)
        self._settings = {**harness.FEW, "data.path": harness.few(), "train.epochs": 10 ** 6, "train.max_steps": 10 ** 6,
                          "train.save_interval": 2000, "train.eval_interval": 4000, "steps_per_print": 20}
        self._write_config()
        self.script = os.path.join(self.folder, "job.sh")
        made = harness.run("jobscript", "--config", self._config, "--output", self.output, "--ranks-per-node", "2", *words)
        harness.expect_equal(made.returncode, harness.DONE, made.stderr)
        with open(self.script, "w") as file:
            file.write(made.stdout)
        self.number = scheduler.submit(self.script, self.folder)

    def _write_config(self):
        """Atomically, because the next start may be reading it."""
        words = harness.train_words(self.output, self._settings)
        shown = harness.run("config", "show", *words[:2], *words[4:])  # the output comes from the script
        harness.expect_equal(shown.returncode, harness.DONE, shown.stderr)
        with open(self._config + ".new", "w") as file:
            file.write(shown.stdout)
        os.replace(self._config + ".new", self._config)

    def last_record(self):
        try:
            return harness.records(self.output)[-1]
        except (FileNotFoundError, IndexError):
            return {"event": "none", "step": 0}

    def step(self):
        return self.last_record()["step"]

    def finish_soon(self):
        """The next start finishes."""
        self._settings["train.max_steps"] = self.step() + 300
        self._write_config()

    def wait_for(self, condition, what, **options):
        self.scheduler.wait_for(self.number, condition, what, **options)

    def wait_for_a_step(self):
        before = self.step()
        self.wait_for(lambda: self.last_record()["event"] == "step" and self.step() > before,
                      "no step after step %d" % before)

    def wait_for_a_stop(self):
        self.wait_for(lambda: self.last_record()["event"] == "end", "it has been asked to stop, and does not")
        harness.expect_equal(self.last_record()["reason"], "stopped")

    def expect_bits_of_an_uninterrupted_run(self):
        alone = self.output + "-alone"
        harness.train(alone, self._settings, ranks=harness.Ranks(2))
        harness.expect_same_result(self.output, harness.result(alone))


def stop_and_run_again_three_times(scheduler, name, *words, ask=lambda job: None, hurry=lambda job: None):
    """Then the run may finish: it has the bits of an uninterrupted run. ask() stops it if it does not stop itself;
    hurry() shortens its waiting."""
    job = Job(scheduler, name, *words)
    for time_of_requeue in range(1, 4):
        job.wait_for_a_step()
        ask(job.number)
        job.wait_for_a_stop()
        if time_of_requeue == 3:
            job.finish_soon()
        job.wait_for(lambda: scheduler.restarts(job.number) >= time_of_requeue, "no requeue %d" % time_of_requeue)
        hurry(job.number)
    job.wait_for(lambda: scheduler.ended_well(job.number), "it does not finish")
    harness.expect(scheduler.restarts(job.number) >= 3, scheduler.about(job.number))
    job.expect_bits_of_an_uninterrupted_run()
