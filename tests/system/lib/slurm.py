"""A whole Slurm of one node in namespaces of its own: names, network, processes, files.

    with Slurm() as slurm:
        job = slurm.submit("job.sh"); slurm.run("squeue"); slurm.state(job)

It exists as long as this process holds it. Needs root, Debian's packages slurmctld, slurmd, slurm-client and munge, and
util-linux and iproute2: need_slurm() skips where they are missing.
"""
import os
import re
import shutil
import subprocess
import time

import harness

_CONFIG = """ClusterName=test
SlurmctldHost=node0
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_interval=2
RequeueExit={requeue}
ReturnToService=2
KillWait=30
NodeName=node0 CPUs=4 State=UNKNOWN
PartitionName=all Nodes=node0 Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES
"""

_SET_UP = """set -e
hostname node0
mount --make-rprivate /
mount -t proc proc /proc
mount -t tmpfs none /run
mount -t tmpfs none /sys/fs/cgroup
mkdir -p /run/munge "$0/state" "$0/spool"
mount --bind "$0/hosts" /etc/hosts
mount -t tmpfs none /etc/slurm
cp "$0/slurm.conf" "$0/cgroup.conf" /etc/slurm
ip link set lo up
ip link add cable type veth peer name plug
ip address add 10.214.7.1/24 dev cable
ip link set cable up
ip link set plug up
munged --force --key-file="$0/munge.key" --socket=/run/munge/munge.socket.2 --pid-file="$0/munged.pid" \\
  --log-file="$0/munged.log" --seed-file="$0/munged.seed"
slurmctld
slurmd
for i in $(seq 100); do
  if sinfo -h -o %T 2>/dev/null | grep -q idle; then echo ready; break; fi
  sleep 0.1
done
read -r _
"""


def need_slurm():
    for tool in ("slurmctld", "slurmd", "sbatch", "scontrol", "munged", "unshare", "nsenter", "ip"):
        if not shutil.which(tool):
            raise harness.Skip("there is no %s (packages slurmctld, slurmd, slurm-client, munge, iproute2)" % tool)
    if os.geteuid() != 0:
        raise harness.Skip("namespaces need root")
    if not os.path.isdir("/etc/slurm"):
        os.makedirs("/etc/slurm", exist_ok=True)  # to mount upon


class Slurm:
    def __init__(self, requeue=""):
        self._folder = harness.path("slurm-%d" % time.monotonic_ns())
        os.makedirs(self._folder)
        self._write("hosts", "127.0.0.1 localhost\n10.214.7.1 node0\n")
        self._write("slurm.conf", _CONFIG.format(folder=self._folder, requeue=requeue or "1"))
        self._write("cgroup.conf", "CgroupPlugin=cgroup/v1\n")
        self._write("munge.key", os.urandom(128).hex(), 0o400)

    def _write(self, name, text, mode=0o644):
        at = os.path.join(self._folder, name)
        with open(at, "w") as file:
            file.write(text)
        os.chmod(at, mode)

    def __enter__(self):
        self._holder = subprocess.Popen(
            ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--uts", "--net", "--ipc", "bash", "-c", _SET_UP,
             self._folder], text=True, start_new_session=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE)
        if self._holder.stdout.readline() != "ready\n":
            self._holder.kill()
            said = self._holder.communicate()[1] + self.logs()
            raise harness.Skip("Slurm does not start here: %s" % said.strip()[-500:])
        inside, = [pid for pid in harness.children(self._holder.pid) if self._is_first(pid)]
        self.inside = ["nsenter", "--target", str(inside), "--mount", "--pid", "--uts", "--net", "--ipc",
                       "--wdns=" + harness.scratch()]
        return self

    @staticmethod
    def _is_first(pid):
        """Of its namespace of processes."""
        with open("/proc/%d/status" % pid) as status:
            numbers = re.search(r"(?m)^NSpid:\s+(.*)$", status.read())[1].split()
        return len(numbers) > 1 and numbers[-1] == "1"

    def __exit__(self, *_):
        self._holder.kill()  # which ends the first process of the namespace, and with it all others
        self._holder.communicate()

    def logs(self):
        text = ""
        for name in ("munged.log", "slurmctld.log", "slurmd.log"):
            at = os.path.join(self._folder, name)
            if os.path.exists(at):
                with open(at, errors="replace") as file:
                    text += "".join(file.readlines()[-15:])
        return text

    def run(self, *words):
        done = subprocess.run([*self.inside, *map(str, words)], text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
        harness.expect_equal(done.returncode, 0, done.args, done.stdout, done.stderr)
        return done.stdout

    def submit(self, script, *options):
        return self.run("sbatch", "--parsable", *options, script).strip()

    def field(self, job, name):
        found = re.search(r"\b%s=(\S+)" % name, self.run("scontrol", "show", "job", job))
        return found[1] if found else ""

    def wait_for(self, job, condition, what, seconds=60):
        end = time.monotonic() + seconds
        while not condition():
            harness.expect(time.monotonic() < end, what, self.run("scontrol", "show", "job", job), self.logs())
            time.sleep(0.1)
