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

/// A variable that the scripts set: the end of the job in seconds since 1970.
inline constexpr const char* kJobEndVariable = "CIFAR_TRAIN_JOB_END";

struct JobRequest {
  Scheduler scheduler = Scheduler::slurm;
  int nodes = 1, ranks_per_node = 1, gpus_per_node = 0;
  int64_t seconds = 0;                                     // until the scheduler ends the job
  int64_t signal_before = 0;                               // seconds before the end at which it sends the signal
  std::string name, queue, account, parallel_environment;  // empty queue or account: the site's default
  std::string program;                                     // its path
  /// The program's arguments: one list for a job of ranks; for an array job one list per task, and each task is one
  /// process.
  std::vector<std::vector<std::string>> words;
  bool array = false;
};

/// A script that lets the run save before the time limit, and resubmits the job if the scheduler allows it.
std::string job_script(const JobRequest& request);

/// "01:30:00", "2-00:00:00" (days first), "90m" (s, m, h, d) -> seconds; nullopt for any other text, and for 0.
std::optional<int64_t> parse_duration(const std::string& text);
/// "01:30:00", hours may have more digits.
std::string duration_text(int64_t seconds);

}  // namespace ct
