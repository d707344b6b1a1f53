#include <gtest/gtest.h>

#include <algorithm>

#include "cli/jobscript/script.h"

namespace ct {
namespace {

TEST(JobScript, Durations) {
  EXPECT_EQ(parse_duration("01:30:00"), 5400);
  EXPECT_EQ(parse_duration("2-00:00:01"), 172801);
  EXPECT_EQ(parse_duration("90m"), 5400);
  EXPECT_EQ(parse_duration("45s"), 45);
  EXPECT_EQ(parse_duration("12h"), 43200);
  EXPECT_EQ(parse_duration("1d"), 86400);
  for (const char* bad :
       {"", "0s", "00:00:00", "1:00", "90", "1:60:00", "-1:00:00", "1h30m", "99999999999h", "1:00:00 "})
    EXPECT_EQ(parse_duration(bad), std::nullopt) << bad;
  EXPECT_EQ(duration_text(5400), "01:30:00");
  EXPECT_EQ(duration_text(172801), "48:00:01");
}

JobRequest request(Scheduler scheduler) {
  return {.scheduler = scheduler,
          .nodes = 2,
          .ranks_per_node = 4,
          .seconds = 3600,
          .signal_before = 120,
          .name = "it",
          .parallel_environment = "mpi",
          .program = "/opt/a b/cifar-train",
          .words = {{"train", "--set", "data.path=it's"}}};
}

std::string lines_with(const std::string& text, const std::string& start) {
  std::string found;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    if (text.compare(at, start.size(), start) == 0)
      found += text.substr(at + start.size(), end - at - start.size()) + "|";
    at = end + 1;
  }
  return found;
}

TEST(JobScript, Directives) {
  EXPECT_EQ(lines_with(job_script(request(Scheduler::slurm)), "#SBATCH --"),
            "job-name=it|nodes=2|ntasks-per-node=4|time=01:00:00|signal=B:USR1@120|requeue|open-mode=append|"
            "output=%x-%j.out|");
  EXPECT_EQ(lines_with(job_script(request(Scheduler::sge)), "#$ -"),
            "N it|cwd|j y|S /bin/bash|pe mpi 8|l h_rt=01:00:00|notify|r y|");
  EXPECT_EQ(lines_with(job_script(request(Scheduler::pbs)), "#PBS -"),
            "N it|l select=2:ncpus=4:mpiprocs=4|l walltime=01:00:00|j oe|r y|");
}

TEST(JobScript, TheCommand) {
  for (const Scheduler scheduler : {Scheduler::slurm, Scheduler::sge, Scheduler::pbs}) {
    const std::string script = job_script(request(scheduler));
    const std::string again = scheduler == Scheduler::sge ? " --requeue-code 99" : "";
    EXPECT_NE(script.find("mpirun --hostfile \"$hosts\" -np 8 --map-by slot --bind-to none \\\n"
                          "  '/opt/a b/cifar-train' train --set 'data.path=it'\\''s'" +
                          again + " &\n"),
              std::string::npos)
        << script;
    const bool has_timer = scheduler != Scheduler::slurm;
    EXPECT_EQ(script.find("  sleep 3480 &\n") != script.npos, has_timer) << script;
    EXPECT_EQ(script.find("kill \"$timer\"") != script.npos, has_timer) << script;
  }
}

TEST(JobScript, ArrayJobs) {
  JobRequest array = request(Scheduler::slurm);
  array.nodes = 1;
  array.array = true;
  array.words = {{"train", "--seed=1"}, {"train", "--seed=2"}};
  EXPECT_EQ(lines_with(job_script(array), "#SBATCH --"),
            "job-name=it|nodes=1|ntasks-per-node=1|cpus-per-task=4|array=0-1|time=01:00:00|signal=B:USR1@120|requeue|"
            "open-mode=append|output=%x-%A_%a.out|");
  array.scheduler = Scheduler::sge;
  EXPECT_NE(job_script(array).find("#$ -t 1-2\n"), std::string::npos);
  EXPECT_NE(job_script(array).find("  1) set -- train --seed=2 --requeue-code 99 ;;\n"), std::string::npos);
  EXPECT_EQ(job_script(array).find("mpirun --hostfile"), std::string::npos);
  array.scheduler = Scheduler::pbs;
  EXPECT_NE(job_script(array).find("#PBS -J 0-1\n"), std::string::npos);
  array.words.pop_back();  // an array of one is none
  EXPECT_EQ(job_script(array).find("#PBS -J"), std::string::npos);
}

}  // namespace
}  // namespace ct
