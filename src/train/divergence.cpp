#include "train/divergence.h"

#include "base/error.h"

namespace ct {

std::string tell_of_skipped_steps(const RunContext& run) {
  const std::vector<Outcome> recent = run.session.engine().drain_outcomes();
  const bool scaled = run.session.program().loss_scale != kNone, dynamic = scaled && run.config.fp16.loss_scale == 0;
  int64_t step = run.state.step - static_cast<int64_t>(recent.size());
  for (const Outcome& o : recent) {
    ++step;
    if (o.scalars.skip == 0) continue;
    const std::string end = scaled ? str("; the loss scale is now ", o.loss_scale.scale) : "";
    run.log.warn(str("step ", step, " was skipped on all ranks: its loss or gradient is not finite", end));
    if (dynamic && o.loss_scale.diverged > 0)
      return str("diverged: step ", step, " overflowed at the smallest loss scale, ", o.loss_scale.scale);
    if (!dynamic && o.scalars.bad_streak >= run.config.train.max_bad_steps)
      return str("diverged: the loss or gradient was not finite in ", o.scalars.bad_streak,
                 " steps in a row, up to step ", step);
  }
  return "";
}

void fail_diverged(const std::string& why, const Path& finite) {
  const std::string back = finite.empty()
                               ? "no checkpoint is all finite"
                               : str("the newest checkpoint that is all finite is ", in_quotes(finite.native()));
  const std::string from_there =
      finite.empty() ? ""
                     : str(", or from there with --init ", in_quotes((finite / "weights.safetensors").native()),
                           " and another --output");
  fail(ExitCode::diverged, why, "; ", back,
       ": lower optimizer.params.lr or set gradient_clipping, and train again with --reset", from_there);
}

}  // namespace ct
