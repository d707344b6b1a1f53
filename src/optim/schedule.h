// Learning-rate schedules: pure functions of the number of applied steps, in double.
#pragma once

#include <cstdint>
#include <variant>

#include "plan/lower.h"
#include "plan/step_scalars.h"

namespace ct {

struct ConstantLr {
  double lr = 1e-3;
};

enum class WarmupType : uint8_t { logarithmic, linear };

/// DeepSpeed's WarmupLR. The k-th applied step (k from 1) uses the value at it = k - 2: gamma = ln(it+1)/ln(W) or it/W
/// below W, then 1; lr = min + (max - min) gamma. The first two steps use min_lr.
struct WarmupLr {
  double min_lr = 0, max_lr = 1e-3;
  int64_t steps = 1000;  // at least 2 are used
  WarmupType type = WarmupType::logarithmic;
};

using LrSchedule = std::variant<ConstantLr, WarmupLr>;

/// The rate of applied step number `step`, counted from 0.
double learning_rate(const LrSchedule& schedule, int64_t step);

/// Rate and Adam's bias corrections for applied step number `step`, counted from 0.
ScheduleRow schedule_row(const LrSchedule& schedule, const UpdateRule& rule, int64_t step);

}  // namespace ct
