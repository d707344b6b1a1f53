// PyTorch's schedules. Steps are applied ones, "lr" is the optimizer's rate.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <optional>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "optim/keys.h"
#include "optim/rates.h"

namespace ct::optim {

/// ConstantLR: lr * factor in the first total_iters steps.
struct ConstantLr {
  static constexpr std::string_view kType = "ConstantLR";
  double factor = 1.0 / 3;
  StepCount total_iters = 5;

  std::vector<ConfigKey> keys() {
    return {{"factor", &factor, "factor of the optimizer's lr at first", kShare},
            {"total_iters", &total_iters, "optimizer steps until the factor is 1", {.min = 0}}};
  }
  Rates at(Rates given, int64_t step) const {
    if (step < total_iters) given.lr *= factor;
    return given;
  }
};

/// StepLR: lr * gamma ^ floor(step / step_size).
struct StepLr {
  static constexpr std::string_view kType = "StepLR";
  StepCount step_size = 0;  // 0: not given
  double gamma = 0.1;

  std::vector<ConfigKey> keys() {
    return {{"step_size", &step_size, "optimizer steps at one rate", {.min = 1}},
            {"gamma", &gamma, "factor applied to the rate every step_size steps", kNotNegative}};
  }
  std::optional<ConfigFault> fault() const {
    if (step_size.is_zero()) return ConfigFault{"step_size", "must be given: the optimizer steps at one rate"};
    return {};
  }
  Rates at(Rates given, int64_t step) const {
    given.lr *= std::pow(gamma, static_cast<double>(step / step_size));
    return given;
  }
};

/// MultiStepLR: lr times gamma at every milestone.
struct MultiStepLr {
  static constexpr std::string_view kType = "MultiStepLR";
  std::vector<StepCount> milestones;  // ascending
  double gamma = 0.1;

  std::vector<ConfigKey> keys() {
    return {{"milestones", &milestones, "optimizer steps, a list", {.min = 1}},
            {"gamma", &gamma, "factor of the rate at each milestone", kNotNegative}};
  }
  std::optional<ConfigFault> fault() const {
    if (milestones.empty())
      return ConfigFault{"milestones", "must be given: the optimizer steps at which the rate changes"};
    const bool in_steps =
        std::ranges::all_of(milestones, [](const StepCount& at) { return at.unit() == StepCount::Unit::steps; });
    if (in_steps && !std::ranges::is_sorted(milestones)) return ConfigFault{"milestones", "must be in ascending order"};
    return {};
  }
  Rates at(Rates given, int64_t step) const {
    const auto reached = std::ranges::upper_bound(milestones, StepCount(step)) - milestones.begin();
    given.lr *= std::pow(gamma, static_cast<double>(reached));
    return given;
  }
};

/// ExponentialLR: lr * gamma ^ step.
struct ExponentialLr {
  static constexpr std::string_view kType = "ExponentialLR";
  std::optional<double> gamma;

  std::vector<ConfigKey> keys() {
    return {{"gamma", &gamma, "factor of the rate at every optimizer step", kNotNegative}};
  }
  std::optional<ConfigFault> fault() const {
    if (!gamma) return ConfigFault{"gamma", "must be given: the factor of the rate at every optimizer step"};
    return {};
  }
  Rates at(Rates given, int64_t step) const {
    check(gamma.has_value(), "ExponentialLR has no gamma");
    given.lr *= std::pow(*gamma, static_cast<double>(step));
    return given;
  }
};

/// LinearLR: lr times a factor that changes linearly from start_factor to end_factor in total_iters steps and then
/// stays: a warm-up, or a decay if end_factor is smaller.
struct LinearLr {
  static constexpr std::string_view kType = "LinearLR";
  double start_factor = 1.0 / 3, end_factor = 1;
  StepCount total_iters = 5;

  std::vector<ConfigKey> keys() {
    const ConfigRule part{.min = 0, .max = 1, .above_min = true};
    return {{"start_factor", &start_factor, "factor of the optimizer's lr at the first step", part},
            {"end_factor", &end_factor, "factor from step total_iters on", kShare},
            {"total_iters", &total_iters, "optimizer steps from start_factor to end_factor", {.min = 1}}};
  }
  Rates at(Rates given, int64_t step) const {
    const double share = static_cast<double>(std::min<int64_t>(step, total_iters)) / static_cast<double>(total_iters);
    given.lr *= start_factor + (end_factor - start_factor) * share;
    return given;
  }
};

/// PolynomialLR: lr * (1 - step / total_iters) ^ power, then 0.
struct PolynomialLr {
  static constexpr std::string_view kType = "PolynomialLR";
  StepCount total_iters = 5;
  double power = 1;

  std::vector<ConfigKey> keys() {
    return {{"total_iters", &total_iters, "optimizer steps until the rate is 0", {.min = 1}},
            {"power", &power, "1: linear decay", kPositive}};
  }
  Rates at(Rates given, int64_t step) const {
    const double left =
        1 - static_cast<double>(std::min<int64_t>(step, total_iters)) / static_cast<double>(total_iters);
    given.lr *= std::pow(left, power);
    return given;
  }
};

/// A cosine from `high` at share 0 to `low` at 1, back to `high` at 2, and so on.
inline double along_cosine(double high, double low, double share) {
  return low + (high - low) * (1 + std::cos(std::numbers::pi * share)) / 2;
}

/// CosineAnnealingLR (Loshchilov & Hutter, 2017, without restarts): along half a cosine from lr to eta_min at step
/// T_max; then, as in PyTorch, the rate rises and falls again.
struct CosineAnnealingLr {
  static constexpr std::string_view kType = "CosineAnnealingLR";
  std::optional<StepCount> t_max;  // absent: the run's
  double eta_min = 0;

  std::vector<ConfigKey> keys() {
    return {{"T_max", &t_max, "optimizer steps to the lowest rate; absent or auto: the run's", {.min = 1}},
            {"eta_min", &eta_min, "the lowest rate", kNotNegative}};
  }
  /// Sets T_max to the length of the run, if it is absent.
  void fit_run(int64_t steps) { t_max = t_max.value_or(steps > 0 ? steps : 1); }
  Rates at(Rates given, int64_t step) const {
    check(t_max.has_value(), "CosineAnnealingLR does not know how long the run is");
    given.lr = along_cosine(given.lr, eta_min, static_cast<double>(step) / static_cast<double>(*t_max));
    return given;
  }
};

/// CosineAnnealingWarmRestarts (SGDR; Loshchilov & Hutter, 2017): along half a cosine from lr towards eta_min in T_0
/// steps, then again, in T_mult times as many steps each time.
struct CosineAnnealingWarmRestarts {
  static constexpr std::string_view kType = "CosineAnnealingWarmRestarts";
  StepCount t_0 = 0;  // 0: not given
  int64_t t_mult = 1;
  double eta_min = 0;

  std::vector<ConfigKey> keys() {
    return {{"T_0", &t_0, "optimizer steps to the first restart", {.min = 1}},
            {"T_mult", &t_mult, "factor of the interval at every restart", {.min = 1}},
            {"eta_min", &eta_min, "the lowest rate", kNotNegative}};
  }
  std::optional<ConfigFault> fault() const {
    if (t_0.is_zero()) return ConfigFault{"T_0", "must be given: the optimizer steps to the first restart"};
    return {};
  }
  Rates at(Rates given, int64_t step) const {
    int64_t begin = 0, length = t_0;  // of the step's period
    if (t_mult == 1) begin = step / length * length;
    while (step - begin >= length) {  // one turn for each digit of the step in base T_mult
      begin += length;
      if (__builtin_mul_overflow(length, t_mult, &length)) length = std::numeric_limits<int64_t>::max();
    }
    given.lr = along_cosine(given.lr, eta_min, static_cast<double>(step - begin) / static_cast<double>(length));
    return given;
  }
};

}  // namespace ct::optim
