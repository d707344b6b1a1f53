// The numbers of an update that change from step to step.
#pragma once

#include <array>

namespace ct {

/// What a schedule decides: the rate, and Adam's betas; the momentum of others is the first of these.
struct Rates {
  double lr = 0;
  std::array<double, 2> betas = {};
};

/// What the host computes in double for one applied step. The coefficients mean what the optimizer's operation says
/// (its Coefficient in graph/ops.h).
inline constexpr int kCoefficients = 4;
struct ScheduleRow {
  double lr = 0;
  std::array<double, kCoefficients> coefficients = {};
};

}  // namespace ct
