#include "deepspeed/listeners.h"
#include "deepspeed/log_lines.h"
#include "train/progress_lines.h"
#include "train/setup.h"

namespace ct {
namespace {

/// Betas that nobody wrote down are a tuple, and so are those that OneCycle sets.
auto text_of_momenta(const Config& config) {
  const auto* cycle = std::get_if<optim::OneCycle>(&config.scheduler);
  const bool given =
      config.origins.contains("optimizer.params.betas") || config.origins.contains("optimizer.params.momentum");
  return (cycle != nullptr && cycle->cycle_momentum) || !given ? tuple_text : momentum_text;
}

class DeepSpeedConsole : public RunListener {
 public:
  explicit DeepSpeedConsole(const ListenerSetup& setup)
      : run_(setup.run),
        rates_(run_.config, {setup.total_steps}),
        throughputs_(run_),
        loss_scale_(update_rule(run_.config).loss_scale) {}

  bool replaces_lines() const override { return true; }

  void start() override {
    throughputs_.start();
    show_rates();
  }

  void after_step() override { throughputs_.after_step(); }

  void show_update(int64_t, const LossScaleState& before, const Outcome& now) override {
    if (!loss_scale_) return;
    for (const std::string& line : loss_scale_lines(*loss_scale_, before, now.loss_scale, now.scalars.skip != 0))
      run_.log.note(line);
  }

  void show_window(const StepWindow& window) override {
    if (!run_.log.console().speaks()) return;
    show_rates();
    const int micro_steps = run_.session.distribution().accumulation;
    const int64_t bytes = run_.session.engine().bound().allocated().total() +
                          run_.session.evaluator().bound().allocated().total();  // all of it from the start
    if (throughputs_.is_warm())
      run_.log.note(log_line(kThroughputTimer, throughput_line({.micro_steps = throughputs_.steps() * micro_steps,
                                                                .steps = throughputs_.steps(),
                                                                .running = throughputs_.running(),
                                                                .current = throughputs_.of(window.steps, window.timed),
                                                                .bytes = bytes,
                                                                .most_bytes = bytes})));
    if (!window.breakdown) return;
    const DeepSpeedTimes times(window.breakdown->phases);
    const int64_t stage = run_.config.zero_optimization.stage;
    if (stage == 1 || stage == 2) run_.log.note(log_dist_line(optimizer_time_line(times)));
    run_.log.note(log_dist_line(micro_step_time_line(times, micro_steps)));
    run_.log.note(log_dist_line(step_time_line(times)));
  }

 private:
  /// Of the step that comes next.
  void show_rates() {
    const StepScalars& scalars = run_.session.engine().scalars();
    run_.log.note(log_dist_line(step_line(run_.state.step, scalars.skipped, rates_.lr(scalars.applied),
                                          rates_.momenta(scalars.applied), text_of_momenta(run_.config))));
  }

  const RunContext& run_;
  GroupRates rates_;
  Throughputs throughputs_;
  std::optional<LossScaleOptions> loss_scale_;
};

}  // namespace

std::unique_ptr<RunListener> listen_for_console(const ListenerSetup& setup) {
  if (!setup.run.config.compat.has(CompatFlag::console)) return nullptr;
  return std::make_unique<DeepSpeedConsole>(setup);
}

}  // namespace ct
