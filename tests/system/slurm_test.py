"""Generated scripts under a real Slurm: submitted, warned, requeued, finished."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import *
from scheduler import stop_and_run_again_three_times
from slurm import Slurm


def three_requeues(name, requeue):
    need_mpi()
    Slurm.need()
    with Slurm(requeue) as slurm:
        stop_and_run_again_three_times(
            slurm, name, "--scheduler", "slurm", "--time", "00:30:00",
            ask=lambda job: slurm.run("scancel", "--batch", "--signal=USR1", job),
            # Slurm itself waits two minutes; at once, the node would not have cleaned up.
            hurry=lambda job: slurm.run("scontrol", "update", "job=" + job, "StartTime=now+4"))


@check
def where_slurm_runs_such_jobs_again_by_itself():
    three_requeues("by-itself", "75,99")


@check
def where_the_job_asks_to_be_run_again():
    three_requeues("asked", "")


main()
