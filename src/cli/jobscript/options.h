// The options of batch jobs that jobscript and sweep share.
#pragma once

#include <string>

#include "cli/jobscript/script.h"
#include "train/config/config.h"

namespace CLI {
class App;
}

namespace ct {

struct JobOptions {
  std::string scheduler, time, name = "cifar-train", queue, account, parallel_environment = "mpi";
  int64_t signal_before = 120;
  int gpus_per_node = 0;
};

/// All but the scheduler, which each verb names its own way.
void add_job_options(CLI::App& app, JobOptions& options);

/// The request, without its nodes, ranks and words. Throws Error(usage); a time that may be too short is warned of.
JobRequest job_request(const JobOptions& options);

/// Throws Error(usage) where `ranks` ranks of a node would not have a GPU each of those that are asked for.
void require_gpus_asked_for(const JobOptions& options, const Config& config, int64_t ranks);

/// A warning for people when this process's job is about to end; empty: it is not, or nobody tells.
std::string short_job_warning();

}  // namespace ct
