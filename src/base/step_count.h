// A number of optimizer steps that a configuration may give as epochs or as a share of the run.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace ct {

struct RunLength {
  int64_t steps = 0, steps_per_epoch = 0;
};

/// Converts to its steps, which are 0 until settle() if it was given in another unit.
class StepCount {
 public:
  enum class Unit : uint8_t { steps, epochs, percent };
  static constexpr int64_t kMost = int64_t{1} << 53;  // which doubles count, and schedules may add up

  StepCount(int64_t steps = 0) : steps_(steps) {}
  static StepCount of(double amount, Unit unit) {
    StepCount count;
    count.amount_ = amount;
    count.unit_ = unit;
    return count;
  }

  operator int64_t() const { return steps_; }
  Unit unit() const { return unit_; }
  /// In its unit, unless that is steps.
  double amount() const { return amount_; }
  /// Is it 0 in its unit too?
  bool is_zero() const { return unit_ == Unit::steps && steps_ == 0; }

  /// Becomes the nearest number of steps, from 1 to kMost.
  void settle(const RunLength& run) {
    if (unit_ == Unit::steps) return;
    const auto whole = static_cast<double>(unit_ == Unit::epochs ? run.steps_per_epoch : run.steps);
    const double steps = amount_ * whole / (unit_ == Unit::percent ? 100 : 1);
    steps_ = std::max<int64_t>(1, std::llround(std::min<double>(steps, kMost)));
    unit_ = Unit::steps;
  }

 private:
  int64_t steps_ = 0;
  double amount_ = 0;
  Unit unit_ = Unit::steps;
};

}  // namespace ct
