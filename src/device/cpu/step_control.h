// The scalars of one update, from the norm to the decision to skip.
#pragma once

#include <cmath>
#include <span>

#include "plan/step_scalars.h"

namespace ct::cpu {

/// norm = |sum of gradients| / S for S leaves that are not divided yet; clip factor min(1, clip / (norm + 1e-6)), as in
/// torch.nn.utils.clip_grad_norm_. A non-finite norm skips the step and changes only the counts of skips; lr is set as
/// in an applied step.
inline void step_control(StepScalars& s, std::span<const double> chunk_square_sums, const ScheduleRow* schedule,
                         double clip, int64_t micro_batches, double predivided = 1) {
  double total = 0;
  for (double sum : chunk_square_sums) total += sum;
  const double leaves = static_cast<double>(micro_batches) / predivided;
  s.norm = std::sqrt(total) / leaves;
  s.skip = !std::isfinite(s.norm);
  const ScheduleRow& row = schedule[s.applied - s.window_begin];
  s.lr = row.lr;
  if (s.skip) {
    ++s.skipped;
    ++s.bad_streak;
    return;
  }
  const double factor = clip > 0 ? std::fmin(1.0, clip / (s.norm + 1e-6)) : 1.0;
  s.grad_scale = factor / leaves;
  s.coefficients = row.coefficients;
  s.bad_streak = 0;
  ++s.applied;
}

}  // namespace ct::cpu
