"""Scripts of jobscript under a real Slurm: submitted, warned, queued again, finished."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from harness import *
from slurm import Slurm, need_slurm

SETTINGS = {**FEW, "train.epochs": 1000, "train.max_steps": 8000, "train.save_interval": 2000,
            "train.eval_interval": 4000, "steps_per_print": 20}


def settings():
    return {**SETTINGS, "data.path": few()}


@functools.lru_cache(None)
def uninterrupted():
    train(path("uninterrupted"), settings(), ranks=Ranks(2))
    return result(path("uninterrupted"))


def steps_of(output):
    try:
        return max((r["step"] for r in records(output, "step")), default=0)
    except FileNotFoundError:
        return 0


def three_requeues(requeue):
    need_mpi()
    need_slurm()
    output = path("slurm-run-" + (requeue or "asked"))
    made = finish(start([PROGRAM, "jobscript", "--scheduler", "slurm", *train_words(output, settings()),
                         "--ranks-per-node", "2", "--time", "00:30:00"]))
    expect_equal(made.returncode, DONE, made.stderr)
    script = output + ".sh"
    with open(script, "w") as file:
        file.write(made.stdout)
    with Slurm(requeue) as slurm:
        job = slurm.submit(script, "--chdir=" + path())
        for time_of_requeue in range(3):
            before = steps_of(output)
            slurm.wait_for(job, lambda: steps_of(output) > before, "no step in start %d" % time_of_requeue)
            slurm.run("scancel", "--batch", "--signal=USR1", job)
            slurm.wait_for(job, lambda: slurm.field(job, "Restarts") == str(time_of_requeue + 1), "no requeue")
            # Slurm itself waits two minutes; at once, the node would not have cleaned up.
            slurm.run("scontrol", "update", "job=" + job, "StartTime=now+4")
            expect(steps_of(output) < SETTINGS["train.max_steps"], "it has finished too early")
        slurm.wait_for(job, lambda: slurm.field(job, "JobState") == "COMPLETED", "it does not finish")
        expect_equal(slurm.field(job, "ExitCode"), "0:0")
    expect_same_result(output, uninterrupted())


@check
def where_slurm_runs_such_jobs_again_by_itself():
    three_requeues("75,99")


@check
def where_the_job_asks_to_be_run_again():
    three_requeues("")


main()
