#include "train/step_reports.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"

namespace ct {

void StepReports::start() {
  window_ = {run_.clock.seconds(), run_.session.waited(), run_.state.step};
  for (const auto& listener : run_.listeners) listener->start();
}

bool StepReports::line_due() const {
  const int64_t interval = run_.config.train.log_interval;
  if (run_.config.train.log_format == LogFormat::ema_loss) return run_.state.step % interval == 0;
  const int64_t micros = run_.session.distribution().micro_batches();
  return run_.state.batch * micros / interval > (run_.state.batch - 1) * micros / interval;
}

void StepReports::print_line() const {
  const RunState& s = run_.state;
  const double mean = s.running_images > 0 ? s.running_loss / static_cast<double>(s.running_images)
                                           : std::numeric_limits<double>::quiet_NaN();
  std::string text =
      loss_line(run_.config.train.log_format, {.epoch = s.epoch,
                                               .micro_batches = s.batch * run_.session.distribution().micro_batches(),
                                               .step = s.step,
                                               .mean = mean,
                                               .ema = s.ema_loss});
  if (balance_) {
    text += fmt::format(" l_aux: {:.3f}", *balance_);
  }
  run_.log.console().data(text);
}

bool StepReports::after_step() {
  run_.clock.after_step(run_.state.step);
  for (const auto& listener : run_.listeners) listener->after_step();
  const bool line = line_due();
  const bool record_due = run_.config.steps_per_print > 0 && run_.state.step % run_.config.steps_per_print == 0;
  const bool epoch_done = run_.state.batch == run_.session.steps_per_epoch();
  if (line || record_due || epoch_done) drain_losses();

  if (record_due) record();
  if (line || record_due)
    for (const auto& listener : run_.listeners) listener->show_step(loss_of_step());
  if (line) print_line();
  if (line || epoch_done) {
    run_.state.running_loss = 0;
    run_.state.running_images = 0;
  }
  if (epoch_done) {
    if (run_.state.epoch_images > 0) {
      const double mean = run_.state.epoch_loss / static_cast<double>(run_.state.epoch_images);
      run_.log.record({{"event", "epoch"}, {"step", run_.state.step}, {"epoch", run_.state.epoch + 1}, {"loss", mean}});
      for (const auto& listener : run_.listeners) listener->show_epoch(mean);
    }
    run_.state.epoch_loss = 0;
    run_.state.epoch_images = 0;
    run_.state.ema_loss = 0;
  }
  return line || record_due || epoch_done;
}

void StepReports::drain_losses() {
  const std::vector<double> losses = run_.session.engine().drain_losses();
  if (losses.empty()) return;
  for (double loss : losses) {
    if (!std::isfinite(loss)) continue;  // of a skipped step
    run_.state.running_loss += loss;
    run_.state.running_images += run_.session.batch().micro;
    run_.state.epoch_loss += loss;
    run_.state.epoch_images += run_.session.batch().micro;
  }
  const int64_t micros = run_.session.distribution().micro_batches(), batch = run_.session.batch().train;
  int64_t samples = run_.state.samples - static_cast<int64_t>(losses.size()) / micros * batch;
  if (const std::vector<double> balances = run_.session.engine().drain_balances(); !balances.empty())
    balance_ = std::accumulate(balances.end() - micros, balances.end(), 0.0) / static_cast<double>(micros);
  for (auto step = losses.begin(); step != losses.end(); step += micros) {
    step_losses_.assign(step, step + micros);
    const double loss = loss_of_step();
    if (std::isfinite(loss)) run_.state.ema_loss = next_ema_loss(run_.state.ema_loss, loss);
    for (const auto& listener : run_.listeners) listener->show_loss(samples, loss);
    samples += batch;
  }
}

double StepReports::loss_of_step() const {
  return std::accumulate(step_losses_.begin(), step_losses_.end(), 0.0) /
         static_cast<double>(run_.session.batch().train);
}

void StepReports::record() {
  const Outcome& latest = run_.session.engine().latest();
  const StepScalars& scalars = latest.scalars;
  const double elapsed = std::max(run_.clock.seconds() - window_.begun, 1e-9);
  const double waited = run_.session.waited() - window_.waited;
  const int64_t steps = run_.state.step - window_.step;
  const double images = static_cast<double>(steps * run_.session.batch().train);
  const std::optional<Breakdown> breakdown = take_breakdown(steps, elapsed, waited);
  Json record = {{"event", "step"},
                 {"step", run_.state.step},
                 {"epoch", run_.state.epoch + 1},
                 {"loss", loss_of_step()},
                 {"lr", scalars.lr},
                 {"grad_norm", scalars.norm},
                 {"loss_scale", run_.session.program().loss_scale == kNone ? 1 : latest.loss_scale.scale},
                 {"skipped", scalars.skipped},
                 {"samples", run_.state.samples},
                 {"samples_per_sec", images / elapsed},
                 {"wait_fraction", waited / elapsed}};
  if (const auto left = run_.clock.seconds_left()) record["seconds_left"] = *left;
  if (breakdown) record["time_ms"] = to_json(*breakdown);
  if (balance_) record["l_aux"] = *balance_;
  run_.log.record(record);
  for (const auto& listener : run_.listeners)
    listener->show_window({.steps = steps, .timed = elapsed - waited, .breakdown = breakdown});
  report_waiting(waited / elapsed);
  window_ = {run_.clock.seconds(), run_.session.waited(), run_.state.step};
}

std::optional<Breakdown> StepReports::take_breakdown(int64_t steps, double elapsed, double waited) {
  if (!run_.config.wall_clock_breakdown) return std::nullopt;
  const double factor = 1000 / static_cast<double>(steps);
  Breakdown breakdown{run_.session.engine().bound().take_phases(), waited * factor, elapsed * factor};
  for (double& phase : breakdown.phases) phase *= factor;
  return breakdown;
}

/// Warns, once, where the loader's threads do not keep up.
void StepReports::report_waiting(double fraction) {
  constexpr double kMuch = 0.3, kSettled = 2;  // of the time; seconds until it is worth saying
  const int workers = run_.session.pipeline().workers();
  if (told_of_waiting_ || workers == 0 || fraction < kMuch || run_.clock.seconds() < kSettled) return;
  told_of_waiting_ = true;
  run_.log.warn(str("training waits for data ", percent(fraction, 0), " of the time; data.workers is ", workers,
                    " a rank: raise it, or keep the data on a faster disk"));
}

}  // namespace ct
