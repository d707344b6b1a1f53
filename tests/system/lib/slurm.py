"""Slurm, of Debian's packages."""
import os
import re

import harness
from scheduler import Scheduler

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


class Slurm(Scheduler):
    TOOLS = ["slurmctld", "slurmd", "sbatch", "scontrol", "munged"]
    PACKAGES = "slurmctld, slurmd, slurm-client, munge"
    LOGS = ["munged.log", "slurmctld.log", "slurmd.log"]
    SET_UP = """
mount -t tmpfs none /sys/fs/cgroup
mkdir -p /run/munge "$0/state" "$0/spool"
mount -t tmpfs none /etc/slurm
cp "$0/slurm.conf" "$0/cgroup.conf" /etc/slurm
munged --force --key-file="$0/munge.key" --socket=/run/munge/munge.socket.2 --pid-file="$0/munged.pid" \\
  --log-file="$0/munged.log" --seed-file="$0/munged.seed"
slurmctld
slurmd
ready() { sinfo -h -o %T | grep -q idle; }
"""

    @classmethod
    def need(cls):
        super().need()
        os.makedirs("/etc/slurm", exist_ok=True)  # to mount upon

    def __init__(self, requeue=""):
        super().__init__()
        self.write("slurm.conf", _CONFIG.format(folder=self._folder, requeue=requeue or "1"))
        self.write("cgroup.conf", "CgroupPlugin=cgroup/v1\n")
        self.write("munge.key", os.urandom(128).hex(), 0o400)

    def submit(self, script, folder):
        return self.run("sbatch", "--parsable", script, folder=folder).strip()

    def about(self, job):
        return self.run("scontrol", "show", "job", job)

    def field(self, job, name):
        found = re.search(r"\b%s=(\S+)" % name, self.about(job))
        return found[1] if found else ""

    def restarts(self, job):
        return int(self.field(job, "Restarts"))

    def ended_well(self, job):
        state = self.field(job, "JobState")
        harness.expect(state in ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "COMPLETED", "REQUEUED"), self.about(job))
        return state == "COMPLETED"
