// The reports that a configuration may ask for: dump_state, memory_breakdown, flops_profiler, comms_logger. None of
// them changes a bit of the result. Rank 0 tells them, of itself.
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
  /// What is referred to must outlive this.
  Diagnostics(const RunContext& run, const RunSaver& saver, CommsLog& comms)
      : run_(run), saver_(saver), comms_(comms) {}

  /// Before the first step: the configuration, the planned memory, what of these reports cannot be.
  void start();
  /// Around every step, on every rank.
  void before_step();
  void after_step();
  void after_evaluation();
  /// When all is done, or a stop was asked for.
  void end();

 private:
  void tell(const std::vector<std::string>& lines);
  void report_memory(const std::string& when);
  void report_profile(double seconds);
  bool keeps_in_file(const std::vector<std::string>& lines);

  RunContext run_;
  const RunSaver& saver_;
  CommsLog& comms_;
  bool first_ = true;  // step
  bool profiled_ = false;
  double begun_ = 0;                     // of the profiled step, by the clock
  std::optional<FlopsProfile> profile_;  // while its step is under way
};

}  // namespace ct
