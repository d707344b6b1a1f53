"""Generated scripts under a real Grid Engine: submitted, stopped by their own timer, run again, finished."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from grid_engine import GridEngine
from harness import *
from scheduler import Job, stop_and_run_again_three_times


def need():
    need_mpi()
    GridEngine.need()


@check
def the_timer_stops_a_job_and_grid_engine_runs_it_again():
    need()
    with GridEngine() as engine:  # all starts together last longer than the limit, which is that of each
        stop_and_run_again_three_times(engine, "timer", "--scheduler", "sge", "--time", "75s", "--signal-before", "60")


@check
def a_deleted_job_saves_and_is_not_run_again():
    need()
    with GridEngine() as engine:
        job = Job(engine, "deleted", "--scheduler", "sge", "--time", "00:30:00")
        job.wait_for_a_step()
        engine.run("qdel", job.number)
        job.wait_for_a_stop()
        expect_equal(max(checkpoints(job.output)), job.step())
        job.wait_for(lambda: engine.starts(job.number), "it does not end")
        time.sleep(5)  # in which it would begin again
        expect(engine.is_gone(job.number), engine.about(job.number))
        expect_equal(job.last_record()["event"], "end")


main()
