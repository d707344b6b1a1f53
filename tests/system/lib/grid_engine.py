"""Grid Engine, of Debian's packages."""
import os
import re

import harness
from scheduler import Scheduler

_HOSTS = """group_name @allhosts
hostlist node0
"""

_PARALLEL = """pe_name mpi
slots 64
user_lists NONE
xuser_lists NONE
start_proc_args NONE
stop_proc_args NONE
allocation_rule $fill_up
control_slaves TRUE
job_is_first_task FALSE
urgency_slots min
accounting_summary FALSE
qsort_args NONE
"""

# Of attributes as the daemons have them from the beginning, those that differ here.
_QUEUE = {"qname": "all.q", "hostlist": "@allhosts", "slots": "4", "pe_list": "mpi", "rerun": "TRUE", "notify": "00:00:30",
          "load_thresholds": "NONE", "shell_start_mode": "unix_behavior"}
_SCHEDULE = {"schedule_interval": "0:0:1", "flush_submit_sec": "1", "flush_finish_sec": "1"}
_CONFIGURATION = {"reporting_params": "accounting=true reporting=false flush_time=00:00:01 joblog=false",
                  "load_report_time": "00:00:02", "mailer": "/bin/true"}


class GridEngine(Scheduler):
    TOOLS = ["sge_qmaster", "sge_execd", "qsub"]
    PACKAGES = "gridengine-master, gridengine-exec, gridengine-client"
    LOGS = ["init.log", "spool/qmaster/messages", "spool/execd/node0/messages"]
    USER = 4321  # it runs nobody's jobs as root
    SET_UP = """
exec 3>&1 >"$0/init.log"
mkdir -p "$0/cell/common" "$0/spool/qmaster/job_scripts" "$0/spool/spooldb" "$0/spool/execd" /run/gridengine
cp /usr/share/gridengine/default-bootstrap "$0/cell/common/bootstrap"
echo node0 >"$0/cell/common/act_qmaster"
chown -R sgeadmin: "$0/cell" "$0/spool" /run/gridengine
mount --bind "$0/cell" /var/lib/gridengine/default
mount --bind "$0/spool" /var/spool/gridengine
mount --bind "$0/passwd" /etc/passwd
mount --bind "$0/group" /etc/group
su -s /bin/sh sgeadmin -c '
  /usr/share/gridengine/scripts/init_cluster /var/lib/gridengine default /var/spool/gridengine/spooldb sgeadmin'
sge_qmaster
change() {  # change FILE: of a description on standard input, what FILE has
  awk 'NR == FNR { name = $1; sub(/^[^ ]+ /, ""); new[name] = $0; next } $1 in new { $0 = $1 " " new[$1] } { print }' "$1" -
}
qconf -as node0
qconf -Ahgrp "$0/hosts.conf"
qconf -Ap "$0/parallel.conf"
qconf -sq | change "$0/queue.conf" >"$0/queue.all"
qconf -Aq "$0/queue.all"
qconf -ssconf | change "$0/schedule.conf" >"$0/schedule.all"
qconf -Msconf "$0/schedule.all"
mkdir "$0/configuration"
SGE_SINGLE_LINE=1 qconf -sconf | change "$0/configuration.conf" >"$0/configuration/global"
qconf -Mconf "$0/configuration/global"
sge_execd
exec >&3 3>&-
ready() { qstat -f | grep -q 'all.q@node0 .*lx-'; }
"""

    def __init__(self):
        super().__init__()
        os.chmod(harness.scratch(), 0o755)  # the job's user is not who made it
        for name, line in ("passwd", "trainer:x:%d:%d::/tmp:/bin/bash"), ("group", "trainer:x:%d:"):
            with open("/etc/" + name) as file:
                self.write(name, file.read() + line % ((self.USER,) * line.count("%d")) + "\n")
        self.write("hosts.conf", _HOSTS)
        self.write("parallel.conf", _PARALLEL)
        for name, values in ("queue", _QUEUE), ("schedule", _SCHEDULE), ("configuration", _CONFIGURATION):
            self.write(name + ".conf", "".join("%s %s\n" % pair for pair in values.items()))

    def submit(self, script, folder):
        if not self.run("sh", "-c", 'test -x "$0" && echo yes', harness.PROGRAM, user=self.USER, failing=True):
            raise harness.Skip("the job's user, who is not root, may not run " + harness.PROGRAM)
        return self.run("qsub", "-terse", script, folder=folder, user=self.USER).strip()

    def about(self, job):
        return self.run("qstat", "-j", job, failing=True) + self.run("qacct", "-j", job, failing=True)

    def starts(self, job):
        """Exit codes of finished starts."""
        return list(map(int, re.findall(r"(?m)^exit_status +([0-9]+)", self.run("qacct", "-j", job, failing=True))))

    def restarts(self, job):
        return self.starts(job).count(99)

    def is_gone(self, job):
        return not self.run("qstat", "-j", job, failing=True)

    def ended_well(self, job):
        harness.expect(set(self.starts(job)) <= {0, 99}, self.about(job))
        return self.is_gone(job) and 0 in self.starts(job)
