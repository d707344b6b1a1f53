// Rates and coefficients of a step.
#pragma once

#include <array>
#include <cstdint>

namespace ct {

/// A schedule's result: the rate and Adam's betas; other optimizers' momentum is betas[0] (BetasAre).
struct Rates {
  double lr = 0;
  std::array<double, 2> betas = {};
};

/// An optimizer's use of its rates' betas.
enum class BetasAre : uint8_t {
  nothing,
  momentum,    // betas[0] is the momentum
  pair,        // both decay; a schedule may change them (OneCycle's cycle_momentum)
  fixed_pair,  // both decay, for a part of the parameters; no schedule changes them
};

/// The rate and coefficients of an applied step, which the host computes in double. The coefficients are those of the
/// optimizer's rule, in its order (graph/optimizer_rules.h).
inline constexpr int kCoefficients = 4;
struct ScheduleRow {
  double lr = 0;
  std::array<double, kCoefficients> coefficients = {};
};

}  // namespace ct
