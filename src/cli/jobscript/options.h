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

/// Adds all options except the scheduler, for which each verb has its own.
void add_job_options(CLI::App& app, JobOptions& options);

/// The request, without nodes, ranks and words. Throws Error(usage); warns if the time may be too short.
JobRequest job_request(const JobOptions& options);

/// Throws Error(usage) if the requested GPUs of a node are fewer than its `ranks` ranks.
void require_gpus_asked_for(const JobOptions& options, const Config& config, int64_t ranks);

/// A warning if this process's job is about to end; empty: it is not, or its end is unknown.
std::string short_job_warning();

}  // namespace ct
