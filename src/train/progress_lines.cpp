#include "train/progress_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/paths.h"
#include "base/text.h"
#include "metrics/log_format.h"
#include "train/run_summary.h"

namespace ct {

ProgressLines::ProgressLines(const ListenerSetup& setup, bool whole_lines)
    : run_(setup.run),
      total_steps_(setup.total_steps),
      epochs_((total_steps_ + run_.session.steps_per_epoch() - 1) / run_.session.steps_per_epoch()),
      whole_lines_(whole_lines),
      rates_(run_.config, {setup.total_steps}),
      throughputs_(run_) {
  if (setup.goes_on && setup.files != nullptr) read_records(setup.folder);
}

/// The best evaluation so far, and the loss of an epoch that ended just now.
void ProgressLines::read_records(const Path& folder) {
  const std::string split = run_.session.data().validation().empty() ? "test" : "val";
  for (const auto& [step, accuracy] : recorded_accuracies(folder, split)) best_ = std::max(best_, accuracy);
  if (run_.state.batch == 0) epoch_loss_ = recorded_loss(folder, run_.state.step);
}

void ProgressLines::start() { throughputs_.start(); }

void ProgressLines::show_loss(int64_t, double loss) {
  constexpr double kKept = 0.98;
  if (!std::isfinite(loss)) return;  // of a skipped step
  smoothed_ = kKept * smoothed_ + (1 - kKept) * loss;
  weight_ = kKept * weight_ + (1 - kKept);
}

void ProgressLines::show_step(double) { lr_ = run_.session.engine().latest().scalars.lr; }

std::string ProgressLines::best_text() const { return best_ < 0 ? "" : fmt::format("  best {}", percent(best_, 1)); }

std::string ProgressLines::left_text() const {
  const auto left = run_.clock.seconds_left();
  return left ? "  " + duration(*left) + " left" : "";
}

void ProgressLines::before_step() {
  run_.log.console().advance([&] {
    std::string line =
        fmt::format("epoch {}/{}  step {}/{}", run_.state.epoch + 1, epochs_, run_.state.step + 1, total_steps_);
    if (weight_ > 0) line += fmt::format("  loss {:.3f}  lr {:.3g}", smoothed_ / weight_, lr_);
    line += best_text();
    if (run_.state.step == run_.clock.first_step()) return line;
    const double a_step = run_.clock.seconds_a_step(run_.state.step);
    return line + fmt::format("  {:.0f} images/s", static_cast<double>(run_.session.batch().train) / a_step) +
           left_text();
  });
}

void ProgressLines::show_evaluating(const std::string& split, int64_t images, int64_t of) {
  run_.log.console().advance(
      [&] { return fmt::format("evaluating: {} image {}/{}{}{}", split, images, of, best_text(), left_text()); });
}

void ProgressLines::show_window(const StepWindow& window) {
  Console& console = run_.log.console();
  if (!console.speaks() || !whole_lines_) return;
  const StepScalars& scalars = run_.session.engine().scalars();
  const int64_t applied = std::max<int64_t>(scalars.applied - (scalars.skip == 0), 0);
  console.detail(step_line(run_.state.step, scalars.skipped, rates_.lr(applied), rates_.momenta(applied)));
  const double recent = throughputs_.of(window.steps, window.timed);
  console.detail(
      fmt::format("samples/s: {:.1f} end to end, {:.1f} in the timed region, {:.1f} in the last {}",
                  throughputs_.of(run_.state.step - run_.clock.first_step(), run_.clock.seconds_since_setup()),
                  throughputs_.is_warm() ? throughputs_.running() : recent, recent, counted(window.steps, "step")));
  if (!window.breakdown) return;
  constexpr double kSeconds = 0.5;  // short steps print few lines
  const double now = run_.clock.wall_seconds();
  const bool aloud = breakdown_shown_ < 0 || now - breakdown_shown_ >= kSeconds;
  if (aloud) breakdown_shown_ = now;
  aloud ? console.note(to_line(*window.breakdown)) : console.detail(to_line(*window.breakdown));
}

// ---- epochs

void ProgressLines::show_epoch(double loss) {
  epoch_loss_ = loss;
  const int64_t interval = run_.config.train.eval_interval;
  const bool evaluates = interval == 0 || run_.state.step % interval == 0 || run_.state.step == total_steps_;
  if (!evaluates) print_epoch(/*evaluation=*/nullptr);
}

void ProgressLines::show_evaluation(const Evaluation& first, const Evaluation&, bool ends_epoch) {
  best_ = std::max(best_, first.accuracy());
  if (ends_epoch && run_.state.step > run_.clock.first_step()) print_epoch(&first);
}

void ProgressLines::print_epoch(const Evaluation* evaluation) {
  const RunState& s = run_.state;
  if (!epoch_loss_ && s.epoch_images > 0)
    epoch_loss_ = s.epoch_loss / static_cast<double>(s.epoch_images);  // cut short
  std::string line = fmt::format("epoch {}/{}  train ", s.epoch + (s.batch > 0), epochs_) +
                     (epoch_loss_ ? fmt::format("{:.3f}", *epoch_loss_) : "-");
  if (evaluation != nullptr)
    line += fmt::format("  {} {:.3f} {} (best {:.1f})", evaluation->split, evaluation->loss,
                        percent(evaluation->accuracy(), 1), 100 * best_);
  line += fmt::format("  step {}  lr {:.3g}  {}", s.step, run_.session.engine().latest().scalars.lr,
                      duration(run_.clock.epoch_seconds()));
  if (s.step < total_steps_) line += left_text();
  if (whole_lines_) run_.log.console().dated_note(line);
  run_.clock.begin_epoch();
  epoch_loss_.reset();
}

}  // namespace ct
