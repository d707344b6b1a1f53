// The reports that a configuration may enable: dump_state, memory_breakdown, flops_profiler, comms_logger. Reports
// change no bit of the result. Rank 0 prints its own numbers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "train/reports/comms_log.h"
#include "train/reports/flops_profile.h"
#include "train/run/run_saver.h"
#include "train/run_context.h"

namespace ct {

class Diagnostics {
 public:
  /// All arguments must outlive this.
  Diagnostics(const RunContext& run, const RunSaver& saver, CommsLog& comms)
      : run_(run), saver_(saver), comms_(comms) {}

  /// Before the first step: prints the configuration, the planned memory, and messages about reports that are not
  /// possible.
  void start();
  /// Around every step, on every rank.
  void before_step();
  void after_step();
  void after_evaluation();
  /// Called at the end, or when a stop was requested.
  void end();

 private:
  void print(const std::vector<std::string>& lines);
  void report_memory(const std::string& when);
  void report_profile(double seconds);
  bool keeps_in_file(const std::vector<std::string>& lines);

  RunContext run_;
  const RunSaver& saver_;
  CommsLog& comms_;
  bool first_ = true;  // step
  bool profiled_ = false;
  double begun_ = 0;                     // begin of the profiled step, wall-clock time
  std::optional<FlopsProfile> profile_;  // during the profiled step
};

}  // namespace ct
