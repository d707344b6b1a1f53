#include "train/divergence.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "train/loss_scale_report.h"
#include "train/setup.h"

namespace ct {

namespace {

/// Listeners may show what becomes of a dynamic loss scale in words of their own.
void report_step(const RunContext& run, const std::optional<LossScaleOptions>& scale, int64_t step,
                 const LossScaleState& before, const Outcome& now) {
  for (const auto& listener : run.listeners) listener->show_update(step, before, now);
  const auto replaces = [](const auto& listener) { return listener->replaces_lines(); };
  if (now.scalars.skip == 0 || (scale && scale->dynamic && std::ranges::any_of(run.listeners, replaces))) return;
  const std::string end = scale ? ". " + overflow_text(*scale, before, now.loss_scale) : "";
  run.log.warn(str("step ", step, " was skipped on all ranks: its loss or gradient is not finite", end));
}

}  // namespace

std::string report_skipped_steps(const RunContext& run) {
  const std::vector<Outcome> recent = run.session.engine().drain_outcomes();
  const std::optional<LossScaleOptions> scale = update_rule(run.config).loss_scale;
  const bool dynamic = scale && scale->dynamic;
  int64_t step = run.state.step - static_cast<int64_t>(recent.size());
  for (const Outcome& o : recent) {
    ++step;
    report_step(run, scale, step, std::exchange(run.state.loss_scale, o.loss_scale), o);
    if (o.scalars.skip == 0) continue;
    if (dynamic && o.loss_scale.diverged > 0)
      return str("diverged: step ", step, " overflowed at the smallest loss scale, ", o.loss_scale.scale,
                 " (Current loss scale already at minimum - cannot decrease scale anymore. Exiting run.)");
    if (!dynamic && o.scalars.bad_streak >= run.config.train.max_bad_steps)
      return str("diverged: the loss or gradient was not finite in ", o.scalars.bad_streak,
                 " steps in a row, up to step ", step);
  }
  return "";
}

void fail_diverged(const std::string& why, const Path& finite) {
  const std::string back = finite.empty() ? "no earlier checkpoint is finite"
                                          : str("the newest finite checkpoint is ", in_quotes(finite.native()));
  const std::string from_there =
      finite.empty() ? ""
                     : str(", or from there with --init ", in_quotes((finite / "weights.safetensors").native()),
                           " and another --output");
  fail(ExitCode::diverged, why, "; ", back,
       ": lower the learning rate (--lr), set gradient_clipping, or check what else was changed, and train again with "
       "--reset",
       from_there);
}

}  // namespace ct
