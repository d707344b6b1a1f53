#include "train/progress_lines.h"

#include <fmt/format.h>

#include <algorithm>

namespace ct {

void ProgressLines::show_window(const StepWindow& window) {
  constexpr double kSeconds = 0.5;
  Console& console = run_.log.console();
  if (!console.speaks()) return;
  const double now = run_.clock.wall_seconds();
  const bool aloud = !console.shows_progress() && (shown_ < 0 || now - shown_ >= kSeconds);
  if (aloud) shown_ = now;
  const auto say = [&](const std::string& line) { aloud ? console.note(line) : console.detail(line); };

  const StepScalars& scalars = run_.session.engine().scalars();
  const int64_t applied = std::max<int64_t>(scalars.applied - (scalars.skip == 0), 0);
  say(step_line(run_.state.step, scalars.skipped, rates_.lr(applied), rates_.momenta(applied)));
  const double recent = throughputs_.of(window.steps, window.timed);
  say(fmt::format("samples/s: {:.1f} end to end, {:.1f} in the timed region, {:.1f} in the last {} step{}",
                  throughputs_.of(throughputs_.steps(), run_.clock.seconds_since_setup()),
                  throughputs_.is_warm() ? throughputs_.running() : recent, recent, window.steps,
                  window.steps == 1 ? "" : "s"));
  if (window.breakdown) say(to_line(*window.breakdown));
}

}  // namespace ct
