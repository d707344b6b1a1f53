#include "train/progress_lines.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace ct {
namespace {

constexpr int64_t kWarmUp = 2;  // steps of a process that DeepSpeed's running average leaves out

/// Betas that nobody wrote down are a tuple, and so are those that OneCycle sets.
Pairs pairs_in_deepspeed(const Config& config) {
  const auto* cycle = std::get_if<optim::OneCycle>(&config.scheduler);
  const bool given =
      config.origins.contains("optimizer.params.betas") || config.origins.contains("optimizer.params.momentum");
  return (cycle != nullptr && cycle->cycle_momentum) || !given ? Pairs::tuples : Pairs::lists;
}

}  // namespace

ProgressLines::ProgressLines(const RunContext& run, int64_t total_steps)
    : run_(run),
      rates_(run.config, total_steps),
      as_deepspeed_(run.config.compat.has(CompatFlag::console)),
      pairs_(pairs_in_deepspeed(run.config)) {}

void ProgressLines::start() {
  running_from_ = timed();
  if (as_deepspeed_) report_step(run_.session.engine().scalars().applied, pairs_);
}

void ProgressLines::after_step() {
  if (steps_here() == kWarmUp) running_from_ = timed();
}

void ProgressLines::tell(int64_t steps, double timed, const std::optional<Breakdown>& breakdown) {
  constexpr double kSeconds = 0.5;
  const Console& console = run_.log.console();
  if (!console.speaks()) return;
  const double now = run_.clock.wall_seconds();
  aloud_ = as_deepspeed_ || (!console.shows_progress() && (told_ < 0 || now - told_ >= kSeconds));
  if (aloud_) told_ = now;
  as_deepspeed_ ? report_as_deepspeed(steps, timed, breakdown) : report_plainly(steps, timed, breakdown);
}

void ProgressLines::report_plainly(int64_t steps, double timed, const std::optional<Breakdown>& breakdown) {
  const StepScalars& scalars = run_.session.engine().scalars();
  report_step(std::max<int64_t>(scalars.applied - (scalars.skip == 0), 0), Pairs::lists);
  const double recent = samples_a_second(steps, timed);
  const double running =
      steps_here() > kWarmUp ? samples_a_second(steps_here() - kWarmUp, this->timed() - running_from_) : recent;
  say(fmt::format("samples/s: {:.1f} end to end, {:.1f} in the timed region, {:.1f} in the last {} step{}",
                  samples_a_second(steps_here(), run_.clock.seconds_since_setup()), running, recent, steps,
                  steps == 1 ? "" : "s"));
  if (breakdown) say(to_line(*breakdown));
}

void ProgressLines::report_as_deepspeed(int64_t steps, double timed, const std::optional<Breakdown>& breakdown) {
  report_step(run_.session.engine().scalars().applied, pairs_);
  const int micro_steps = run_.session.distribution().accumulation;
  const int64_t bytes = run_.session.engine().bound().allocated().total() +
                        run_.session.evaluator().bound().allocated().total();  // all of it from the start
  if (steps_here() > kWarmUp)
    say(log_line(kThroughputTimer,
                 throughput_line({.micro_steps = steps_here() * micro_steps,
                                  .steps = steps_here(),
                                  .running = samples_a_second(steps_here() - kWarmUp, this->timed() - running_from_),
                                  .current = samples_a_second(steps, timed),
                                  .bytes = bytes,
                                  .most_bytes = bytes})));
  if (!breakdown) return;
  const DeepSpeedTimes times(breakdown->phases);
  const int stage = run_.config.zero_optimization.stage;
  if (stage == 1 || stage == 2) say(log_dist_line(deepspeed_optimizer_line(times)));
  say(log_dist_line(deepspeed_micro_line(times, micro_steps)));
  say(log_dist_line(deepspeed_line(times)));
}

/// `applied`: the applied step whose rates are told. DeepSpeed tells those that come next.
void ProgressLines::report_step(int64_t applied, Pairs pairs) {
  const std::string line = step_line(run_.state.step, run_.session.engine().scalars().skipped, rates_.lr(applied),
                                     rates_.momenta(applied), pairs);
  say(as_deepspeed_ ? log_dist_line(line) : line);
}

double ProgressLines::samples_a_second(int64_t steps, double seconds) const {
  return static_cast<double>(steps * run_.session.batch().train) / std::max(seconds, 1e-9);
}

void ProgressLines::say(const std::string& line) {
  Console& console = run_.log.console();
  aloud_ ? console.note(line) : console.detail(line);
}

}  // namespace ct
