#include "train/step_reports.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"

namespace ct {

bool StepReports::after_step() {
  const int64_t micros = run_.state.batch * run_.session.distribution().micro_batches();
  const int64_t micros_before = micros - run_.session.distribution().micro_batches();
  const int64_t interval = run_.config.train.log_interval;
  const bool line = interval > 0 && micros / interval > micros_before / interval;
  const bool record_due = run_.config.steps_per_print > 0 && run_.state.step % run_.config.steps_per_print == 0;
  const bool epoch_done = run_.state.batch == run_.session.steps_per_epoch();
  if (line || record_due || epoch_done) drain_losses();

  if (record_due) record();
  if ((line || record_due) && run_.events.shows())
    run_.events.show_step(run_.state.step, run_.state.epoch + 1, loss_of_step(),
                          run_.session.engine().latest().scalars.lr);
  if (run_.log.console().shows_progress() && !step_losses_.empty()) show_progress();
  if (line) {
    const double mean = run_.state.running_images > 0
                            ? run_.state.running_loss / static_cast<double>(run_.state.running_images)
                            : std::numeric_limits<double>::quiet_NaN();
    run_.log.console().data(tutorial_loss_line(run_.state.epoch + 1, micros, mean));
  }
  if (line || epoch_done) {
    run_.state.running_loss = 0;
    run_.state.running_images = 0;
  }
  if (epoch_done) {
    if (run_.state.epoch_images > 0) {
      const double mean = run_.state.epoch_loss / static_cast<double>(run_.state.epoch_images);
      run_.log.record({{"event", "epoch"}, {"step", run_.state.step}, {"epoch", run_.state.epoch + 1}, {"loss", mean}});
      run_.events.show_epoch(run_.state, mean);
    }
    run_.state.epoch_loss = 0;
    run_.state.epoch_images = 0;
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
  step_losses_.assign(losses.end() - run_.session.distribution().micro_batches(), losses.end());
}

double StepReports::loss_of_step() const {
  return std::accumulate(step_losses_.begin(), step_losses_.end(), 0.0) /
         static_cast<double>(run_.session.batch().train);
}

/// A few times a second: where the run is, its latest known loss, its speed so far.
void StepReports::show_progress() {
  constexpr double kSeconds = 0.2;
  const double now = run_.clock.wall_seconds();
  if (now - shown_ < kSeconds) return;
  shown_ = now;
  const double per_step = run_.clock.seconds_a_step(run_.state.step);
  char text[160];
  std::snprintf(text, sizeof text, "epoch %ld/%ld  step %ld/%ld  loss %.3f  %.0f images/s  %s left",
                run_.state.epoch + 1, run_.config.train.epochs, run_.state.step, total_steps_, loss_of_step(),
                static_cast<double>(run_.session.batch().train) / per_step,
                duration(per_step * static_cast<double>(total_steps_ - run_.state.step)).c_str());
  run_.log.console().progress(text);
}

void StepReports::record() {
  const Outcome& latest = run_.session.engine().latest();
  const StepScalars& scalars = latest.scalars;
  const double elapsed = std::max(run_.clock.seconds() - window_.begun, 1e-9);
  const double waiting = run_.session.take_waited() / elapsed;
  const double images = static_cast<double>((run_.state.step - window_.step) * run_.session.batch().train);
  run_.log.record({{"event", "step"},
                   {"step", run_.state.step},
                   {"epoch", run_.state.epoch + 1},
                   {"loss", loss_of_step()},
                   {"lr", scalars.lr},
                   {"grad_norm", scalars.norm},
                   {"loss_scale", run_.session.program().loss_scale == kNone ? 1 : latest.loss_scale.scale},
                   {"skipped", scalars.skipped},
                   {"samples", run_.state.samples},
                   {"samples_per_sec", images / elapsed},
                   {"wait_fraction", waiting}});
  tell_of_waiting(waiting);
  window_ = {run_.clock.seconds(), run_.state.step};
}

/// Warns, once, where the loader's threads do not keep up.
void StepReports::tell_of_waiting(double fraction) {
  constexpr double kMuch = 0.3, kSettled = 2;  // of the time; seconds until it is worth saying
  const int workers = run_.session.pipeline().workers();
  if (told_of_waiting_ || workers == 0 || fraction < kMuch || run_.clock.seconds() < kSettled) return;
  told_of_waiting_ = true;
  run_.log.warn(str("training waits for data ", static_cast<int>(100 * fraction), " % of the time; data.workers is ",
                    workers, " a rank: raise it, or keep the data on a faster disk"));
}

}  // namespace ct
