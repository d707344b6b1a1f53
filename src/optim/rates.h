// The numbers of an update that change from step to step.
#pragma once

#include <array>
#include <cstdint>

namespace ct {

/// What a schedule decides: the rate, and Adam's betas; the momentum of others is the first of these (BetasAre).
struct Rates {
  double lr = 0;
  std::array<double, 2> betas = {};
};

/// What an optimizer makes of its rates' betas.
enum class BetasAre : uint8_t {
  nothing,
  momentum,    // the first is its momentum
  pair,        // both decay; a schedule may change them (OneCycle's cycle_momentum)
  fixed_pair,  // the same, of a part of the parameters, and no schedule changes them
};

/// What the host computes in double for one applied step. The coefficients are those of the optimizer's rule, in their
/// order (graph/optimizer_rules.h).
inline constexpr int kCoefficients = 4;
struct ScheduleRow {
  double lr = 0;
  std::array<double, kCoefficients> coefficients = {};
};

}  // namespace ct
