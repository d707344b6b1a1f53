#include "optim/schedule.h"

#include <algorithm>
#include <cmath>

namespace ct {
namespace {

double rate(const ConstantLr& s, int64_t) { return s.lr; }

double rate(const WarmupLr& s, int64_t step) {
  const int64_t it = step - 1, warmup = std::max<int64_t>(2, s.steps);
  if (it < 0) return s.min_lr;
  double gamma = 1;
  if (it < warmup)
    gamma = s.type == WarmupType::logarithmic
                ? std::log(static_cast<double>(it + 1)) * (1.0 / std::log(static_cast<double>(warmup)))
                : static_cast<double>(it) / static_cast<double>(warmup);
  return s.min_lr + (s.max_lr - s.min_lr) * gamma;
}

}  // namespace

double learning_rate(const LrSchedule& schedule, int64_t step) {
  return std::visit([&](const auto& s) { return rate(s, step); }, schedule);
}

ScheduleRow schedule_row(const LrSchedule& schedule, const UpdateRule& rule, int64_t step) {
  ScheduleRow row{.lr = learning_rate(schedule, step)};
  if (const auto* adam = std::get_if<AdamRule>(&rule.optimizer)) {
    const double t = static_cast<double>(step + 1);
    row.bias_correction1 = 1 - std::pow(adam->beta1, t);
    row.bias_correction2 = 1 - std::pow(adam->beta2, t);
  }
  return row;
}

}  // namespace ct
