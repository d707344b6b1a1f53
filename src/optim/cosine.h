// The curve that PyTorch's cosine schedules have in common.
#pragma once

#include <cmath>
#include <numbers>

namespace ct::optim {

/// From `high` at 0 along half a cosine to `low` at 1, up again to 2, and so on.
inline double along_cosine(double high, double low, double share) {
  return low + (high - low) * (1 + std::cos(std::numbers::pi * share)) / 2;
}

}  // namespace ct::optim
