// Scripts for job schedulers.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/choice.h"

namespace ct {

enum class Scheduler : uint8_t { slurm, sge, pbs };
constexpr auto words_of(Scheduler) { return std::to_array<std::string_view>({"slurm", "sge", "pbs"}); }

/// Set by the scripts: when the job will be ended, in seconds since 1970.
inline constexpr const char* kJobEndVariable = "CIFAR_TRAIN_JOB_END";

struct JobRequest {
  Scheduler scheduler = Scheduler::slurm;
  int nodes = 1, ranks_per_node = 1, gpus_per_node = 0;
  int64_t seconds = 0;                                     // until the scheduler ends the job
  int64_t signal_before = 0;                               // seconds before that in which it asks to stop
  std::string name, queue, account, parallel_environment;  // of queue and account: empty: the site's
  std::string program;                                     // its path
  /// Of the program: one job of ranks, or, where there are several, an array job of as many tasks of one process each.
  std::vector<std::vector<std::string>> words;
  bool array = false;
};

/// A script that, when its time is up, has the run save, and sees to it that the job is run again where the scheduler
/// lets it.
std::string job_script(const JobRequest& request);

/// "01:30:00", "2-00:00:00" (days first), "90m" (s, m, h, d) -> seconds; none where it is none of these, or 0.
std::optional<int64_t> parse_duration(const std::string& text);
/// "01:30:00", hours may have more digits.
std::string duration_text(int64_t seconds);

}  // namespace ct
