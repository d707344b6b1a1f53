// Lines of progress, every steps_per_print steps: rates and momenta, throughput and, with wall_clock_breakdown, what
// the time of a step went to; in this program's words, or DeepSpeed's (compat: console).
#pragma once

#include <optional>

#include "train/breakdown.h"
#include "train/group_rates.h"
#include "train/run_context.h"

namespace ct {

class ProgressLines {
 public:
  ProgressLines(const RunContext& run, int64_t total_steps);

  /// When the clock is started.
  void start();
  /// After every step.
  void after_step();
  /// The lines of the steps since the last call; DeepSpeed's always, others for -v only where lines have just been told
  /// or a terminal shows progress by itself. `timed`: seconds of them without waiting for data.
  void tell(int64_t steps, double timed, const std::optional<Breakdown>& breakdown);

 private:
  double timed() const { return run_.clock.seconds() - run_.session.waited(); }
  int64_t steps_here() const { return run_.state.step - run_.clock.first_step(); }
  double samples_a_second(int64_t steps, double seconds) const;
  void report_plainly(int64_t steps, double timed, const std::optional<Breakdown>& breakdown);
  void report_as_deepspeed(int64_t steps, double timed, const std::optional<Breakdown>& breakdown);
  void report_step(int64_t applied, Pairs pairs);
  void say(const std::string& line);

  RunContext run_;
  GroupRates rates_;
  bool as_deepspeed_;
  Pairs pairs_;              // how DeepSpeed would write momenta
  bool aloud_ = true;        // or for -v
  double told_ = -1;         // by the clock: the latest lines
  double running_from_ = 0;  // timed seconds, when the steps that count for the running average begin
};

}  // namespace ct
