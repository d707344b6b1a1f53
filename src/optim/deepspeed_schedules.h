// DeepSpeed's schedules.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "optim/keys.h"
#include "optim/rates.h"

namespace ct::optim {

/// DeepSpeed's iteration: the k-th applied step, k from 1, uses iteration k - 2; -1 is before the schedule's start.
inline int64_t deepspeed_iteration(int64_t step) { return step - 1; }

enum class WarmupType : uint8_t { log, linear };
constexpr auto words_of(WarmupType) { return std::to_array<std::string_view>({"log", "linear"}); }

/// The effective warmup_num_steps: 0 is no warm-up, other values are at least 2 (DeepSpeed used 2 for 0, and refuses 0
/// since 0.19).
inline int64_t warmup_steps(int64_t given) { return given == 0 ? 0 : std::max<int64_t>(2, given); }

/// Is the warm-up over at iteration `it`? Without a warm-up, always.
inline bool is_warm(int64_t it, int64_t steps) { return it >= steps || steps == 0; }

/// The warm-up's progress at iteration `it`, 0 <= it < steps: ln(it+1)/ln(steps) or it/steps.
inline double warmup_share(WarmupType type, int64_t it, int64_t steps) {
  const auto w = static_cast<double>(steps);
  switch (type) {
    case WarmupType::linear:
      return static_cast<double>(it) / w;
    case WarmupType::log:
      return std::log(static_cast<double>(it + 1)) * (1.0 / std::log(w));
  }
  return 0;
}

/// doubt() of schedules that decay after a warm-up.
inline std::string doubt_of_fall(const std::optional<StepCount>& total_num_steps, int64_t warmup) {
  if (!total_num_steps || *total_num_steps > warmup) return "";
  return str("total_num_steps ", *total_num_steps, " is not more than warmup_num_steps ", warmup,
             ": the rate is at its lowest immediately after the warm-up; lower warmup_num_steps");
}

/// WarmupLR. It ignores the optimizer's rate: lr = min + (max - min) gamma, where gamma is warmup_share() in the
/// warm-up, then 1. The first two steps use min.
struct WarmupLr {
  static constexpr std::string_view kType = "WarmupLR", kOverridesLr = "warmup_max_lr", kPeakLr = kOverridesLr;
  double warmup_min_lr = 0, warmup_max_lr = 1e-3;
  StepCount warmup_num_steps = 1000;
  WarmupType warmup_type = WarmupType::log;

  std::vector<ConfigKey> keys() {
    return {{"warmup_min_lr", &warmup_min_lr, "", kNotNegative},
            {"warmup_max_lr", &warmup_max_lr, "overrides the optimizer's lr", kNotNegative},
            {"warmup_num_steps", &warmup_num_steps, "optimizer steps", {.min = 0}},
            {"warmup_type", &warmup_type, "log | linear"}};
  }
  Rates at(Rates given, int64_t step) const {
    const int64_t it = deepspeed_iteration(step), warmup = warmup_steps(warmup_num_steps);
    const double gamma = is_warm(it, warmup) ? 1 : it < 0 ? 0 : warmup_share(warmup_type, it, warmup);
    given.lr = warmup_min_lr + (warmup_max_lr - warmup_min_lr) * gamma;
    return given;
  }
};

/// WarmupDecayLR: as WarmupLR, then linearly to warmup_min_lr at iteration total_num_steps, where it stays.
struct WarmupDecayLr : WarmupLr {
  static constexpr std::string_view kType = "WarmupDecayLR";
  std::optional<StepCount> total_num_steps;  // applied steps; absent: the run's

  std::vector<ConfigKey> keys() {
    std::vector<ConfigKey> keys = WarmupLr::keys();
    keys.insert(keys.begin(),
                {"total_num_steps", &total_num_steps, "optimizer steps; absent or auto: the run's", {.min = 0}});
    return keys;
  }
  std::string doubt() const { return doubt_of_fall(total_num_steps, warmup_steps(warmup_num_steps)); }
  /// Takes the length of the run where none was given.
  void fit_run(int64_t steps) { total_num_steps = total_num_steps.value_or(steps); }
  Rates at(Rates given, int64_t step) const {
    check(total_num_steps.has_value(), "WarmupDecayLR does not know how long the run is");
    const int64_t it = deepspeed_iteration(step), warmup = warmup_steps(warmup_num_steps);
    if (!is_warm(it, warmup)) return WarmupLr::at(given, step);
    // In DeepSpeed's order, for its very bits.
    const double left = static_cast<double>(*total_num_steps - it);
    const double fall = std::max(1.0, static_cast<double>(*total_num_steps - warmup));
    const double gamma = std::clamp(left / fall, 0.0, 1.0);
    given.lr = warmup_min_lr + (warmup_max_lr - warmup_min_lr) * gamma;
    return given;
  }
};

/// WarmupCosineLR: the optimizer's rate times a ratio, which rises from warmup_min_ratio to 1 and then falls along half
/// a cosine to cos_min_ratio at total_num_steps, where it stays (DeepSpeed's rises again). The first step's rate is 0.
struct WarmupCosineLr {
  static constexpr std::string_view kType = "WarmupCosineLR";
  std::optional<StepCount> total_num_steps;  // applied steps; absent: the run's
  double warmup_min_ratio = 0;
  StepCount warmup_num_steps = 1000;
  double cos_min_ratio = 1e-4;
  WarmupType warmup_type = WarmupType::log;
  bool rises_again = false;  // no key: continues along the cosine after total_num_steps, as in DeepSpeed

  std::vector<ConfigKey> keys() {
    return {{"total_num_steps", &total_num_steps, "optimizer steps; absent or auto: the run's", {.min = 0}},
            {"warmup_min_ratio", &warmup_min_ratio, "factor of the optimizer's lr at the start", kShare},
            {"warmup_num_steps", &warmup_num_steps, "optimizer steps", {.min = 0}},
            {"cos_min_ratio", &cos_min_ratio, "factor of the optimizer's lr at the end", kShare},
            {"warmup_type", &warmup_type, "log | linear"}};
  }
  std::string doubt() const { return doubt_of_fall(total_num_steps, warmup_steps(warmup_num_steps)); }
  /// Takes the length of the run where none was given.
  void fit_run(int64_t steps) { total_num_steps = total_num_steps.value_or(steps); }
  Rates at(Rates given, int64_t step) const {
    check(total_num_steps.has_value(), "WarmupCosineLR does not know how long the run is");
    const int64_t it = deepspeed_iteration(step), warmup = warmup_steps(warmup_num_steps);
    double ratio = 0;
    if (is_warm(it, warmup)) {
      const int64_t fallen = it - warmup + 1, fall = *total_num_steps - warmup;
      // In DeepSpeed's order, for its very bits.
      const double cosine = fallen < fall || (rises_again && fall > 0)
                                ? std::cos(std::numbers::pi * static_cast<double>(fallen) / static_cast<double>(fall))
                                : -1;
      ratio = cos_min_ratio + (1 - cos_min_ratio) * ((1 + cosine) / 2);
    } else if (it >= 0) {
      ratio = warmup_min_ratio + (1 - warmup_min_ratio) * warmup_share(warmup_type, it, warmup);
    }
    given.lr *= ratio;
    return given;
  }
};

/// OneCycle (after Smith & Topin, 2019): the rate changes linearly from cycle_min_lr to cycle_max_lr and back, the
/// momentum from cycle_max_mom to cycle_min_mom and back; then both decay. The schedule ignores the optimizer's rate
/// and, with cycle_momentum, its betas: the second beta is kBeta2. The first step uses both minima.
struct OneCycle {
  static constexpr std::string_view kType = "OneCycle", kOverridesLr = "cycle_min_lr", kPeakLr = "cycle_max_lr";
  static constexpr double kBeta2 = 0.99;
  std::optional<double> cycle_min_lr, cycle_max_lr;
  double decay_lr_rate = 0;
  StepCount cycle_first_step_size = 2000;
  std::optional<StepCount> cycle_second_step_size;  // absent: cycle_first_step_size
  StepCount decay_step_size = 0;
  bool cycle_momentum = true;
  double cycle_min_mom = 0.8, cycle_max_mom = 0.9, decay_mom_rate = 0;

  std::vector<ConfigKey> keys() {
    return {
        {"cycle_min_lr", &cycle_min_lr, "rate at the beginning and the end of the cycle; overrides the optimizer's lr",
         kNotNegative},
        {"cycle_max_lr", &cycle_max_lr, "rate at the peak of the cycle", kNotNegative},
        {"decay_lr_rate", &decay_lr_rate, "after the cycle: min / (1 + this * steps / decay_step_size)", kNotNegative},
        {"cycle_first_step_size", &cycle_first_step_size, "optimizer steps to the peak", {.min = 1}},
        {"cycle_second_step_size",
         &cycle_second_step_size,
         "optimizer steps from the peak back; absent: as many",
         {.min = 0}},
        {"decay_step_size", &decay_step_size, "0: no decay after the cycle", {.min = 0}},
        {"cycle_momentum", &cycle_momentum, "overrides the optimizer's betas", {}},
        {"cycle_min_mom", &cycle_min_mom, "the first beta at the peak of the rate", kFraction},
        {"cycle_max_mom", &cycle_max_mom, "the first beta at the lowest rate", kFraction},
        {"decay_mom_rate", &decay_mom_rate, "after the cycle: max * (1 + this * steps / decay_step_size)",
         kNotNegative}};
  }
  std::optional<ConfigFault> fault() const {
    if (!cycle_min_lr)
      return ConfigFault{"cycle_min_lr", "must be given: the rate at the beginning and the end of the cycle"};
    if (!cycle_max_lr) return ConfigFault{"cycle_max_lr", "must be given: the rate at the cycle's peak"};
    return {};
  }
  std::string doubt() const {
    if (!cycle_min_lr || !cycle_max_lr || *cycle_max_lr >= *cycle_min_lr) return "";
    return str("cycle_max_lr ", *cycle_max_lr, " is less than cycle_min_lr ", *cycle_min_lr,
               ": the rate falls where it should rise; lower cycle_min_lr");
  }
  std::optional<ConfigFault> fault_of_run(int64_t steps) const {
    const double last = steps > 0 && cycle_momentum ? at({}, steps - 1).betas[0] : 0;  // after the cycle it increases
    if (last < 1) return {};
    return ConfigFault{"decay_mom_rate",
                       str("takes the first of the optimizer's betas, which must stay below 1, to ", last, " by step ",
                           steps, ", the run's last: lower it, or raise decay_step_size")};
  }
  std::string overrides_betas() const {
    return cycle_momentum
               ? str("the first falls from ", cycle_max_mom, " to ", cycle_min_mom, " and back, the second is ", kBeta2)
               : "";
  }
  Rates at(Rates given, int64_t step) const {
    check(cycle_min_lr && cycle_max_lr, "OneCycle has no rates");
    const int64_t first = cycle_first_step_size, second = cycle_second_step_size.value_or(first);
    const int64_t it = deepspeed_iteration(step), after = it - (first + second) + 1;
    double lr = *cycle_min_lr, momentum = cycle_min_mom;
    if (after > 0) {
      const double decay = decay_step_size > 0 ? static_cast<double>(after) / static_cast<double>(decay_step_size) : 0;
      lr /= 1 + decay_lr_rate * decay;
      momentum = cycle_max_mom * (1 + decay_mom_rate * decay);
    } else if (it >= 0) {
      const double scale = height(it, first, second);
      lr += (*cycle_max_lr - *cycle_min_lr) * scale;
      momentum = cycle_max_mom - (cycle_max_mom - cycle_min_mom) * scale;
    }
    given.lr = lr;
    if (cycle_momentum) given.betas = {momentum, kBeta2};
    return given;
  }
  /// The height of the cycle at iteration `it`, 0 <= it < first + second: from 0 to 1 and back. Computed in DeepSpeed's
  /// order, for the same bits.
  static double height(int64_t it, int64_t first, int64_t second) {
    const auto size = static_cast<double>(first + second);
    const double turns = 1 + static_cast<double>(it + 1) / size, x = turns - std::floor(turns);
    const double peak = static_cast<double>(first) / size;
    return x <= peak ? x / peak : (x - 1) / (peak - 1);
  }
};

/// LRRangeTest (Smith, 2017). It ignores the optimizer's rate: the rate starts at lr_range_test_min_lr and grows by
/// lr_range_test_step_rate times that rate every lr_range_test_step_size steps, linearly or in stairs.
struct LrRangeTest {
  static constexpr std::string_view kType = "LRRangeTest", kOverridesLr = "lr_range_test_min_lr";
  double lr_range_test_min_lr = 1e-3;
  StepCount lr_range_test_step_size = 2000;
  double lr_range_test_step_rate = 1;
  bool lr_range_test_staircase = false;

  std::vector<ConfigKey> keys() {
    return {
        {"lr_range_test_min_lr", &lr_range_test_min_lr, "the first rate; overrides the optimizer's lr", kNotNegative},
        {"lr_range_test_step_size", &lr_range_test_step_size, "optimizer steps", {.min = 1}},
        {"lr_range_test_step_rate", &lr_range_test_step_rate,
         "growth in lr_range_test_step_size steps, as a multiple of the first rate", kNotNegative},
        {"lr_range_test_staircase", &lr_range_test_staircase, "true: grows in stairs; false: linearly"}};
  }
  Rates at(Rates given, int64_t step) const {
    double stairs = static_cast<double>(step) / static_cast<double>(lr_range_test_step_size);
    if (lr_range_test_staircase) stairs = std::floor(stairs);
    given.lr = lr_range_test_min_lr * (1 + lr_range_test_step_rate * stairs);
    return given;
  }
};

}  // namespace ct::optim
