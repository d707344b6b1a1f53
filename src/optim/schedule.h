// The table of schedules: pure functions of the number of applied steps, in double. A module is a struct of its keys
// and what they mean: kType, keys() and fault() as an optimizer's (optim/optimizer.h), and
//   at()          the rates of applied step number `step`, counted from 0, from those that the optimizer was given
//   kOverridesLr  of those that have it: the key that is the rate in place of the optimizer's
//   fit_run()     of those that depend on it: is told how many steps the run has, before at() is called
//   doubt()       of those that may have one: what was hardly meant, "KEY ...: the remedy"; "" where there is nothing
//   fault_of_run()     of those that may have one: what is wrong with them in a run of so many steps
//   overrides_betas()  of those that may: what an optimizer's betas are in their place, for people; "": they stay
#pragma once

#include "optim/deepspeed_schedules.h"
#include "optim/optimizer.h"
#include "optim/pytorch_schedules.h"
#include "optim/table.h"

namespace ct::optim {

/// No scheduler.
struct Constant {
  static constexpr std::string_view kType = "";
  std::vector<ConfigKey> keys() { return {}; }
  Rates at(const Rates& given, int64_t) const { return given; }
};

using LrSchedule =
    std::variant<Constant, WarmupLr, WarmupDecayLr, WarmupCosineLr, OneCycle, LrRangeTest, ConstantLr, StepLr,
                 MultiStepLr, ExponentialLr, LinearLr, PolynomialLr, CosineAnnealingLr, CosineAnnealingWarmRestarts>;

/// Tells the schedule how many steps the run has.
inline void fit_run(LrSchedule& schedule, int64_t steps) {
  std::visit(
      [steps](auto& s) {
        if constexpr (requires { s.fit_run(steps); }) s.fit_run(steps);
      },
      schedule);
}

/// kOverridesLr of those that have it; empty: the optimizer's rate counts.
inline std::string_view overrides_lr(const LrSchedule& schedule) {
  return std::visit(
      [](const auto& s) -> std::string_view {
        if constexpr (requires { s.kOverridesLr; }) return s.kOverridesLr;
        return {};
      },
      schedule);
}
/// What was hardly meant, for a warning; empty: nothing.
inline std::string doubt_of(const LrSchedule& schedule) {
  return std::visit(
      [](const auto& s) -> std::string {
        if constexpr (requires { s.doubt(); }) return s.doubt();
        return {};
      },
      schedule);
}
/// overrides_betas() of those that have it.
inline std::string overrides_betas(const LrSchedule& schedule) {
  return std::visit(
      [](const auto& s) -> std::string {
        if constexpr (requires { s.overrides_betas(); }) return s.overrides_betas();
        return {};
      },
      schedule);
}
inline bool has_betas(const Optimizer& optimizer) {
  return std::visit([]<class O>(const O&) { return O::kBetas == BetasAre::pair; }, optimizer);
}

/// fault_of_run() of those that have it, and whose betas the optimizer has.
inline std::optional<ConfigFault> fault_of_run(const LrSchedule& schedule, const Optimizer& optimizer, int64_t steps) {
  if (!has_betas(optimizer)) return {};
  return std::visit(
      [steps](const auto& s) -> std::optional<ConfigFault> {
        if constexpr (requires { s.fault_of_run(steps); }) return s.fault_of_run(steps);
        return {};
      },
      schedule);
}

/// What applied step number `step`, counted from 0, uses.
inline Rates rates_at(const LrSchedule& schedule, const Optimizer& optimizer, int64_t step) {
  return std::visit(
      [step]<class O>(const auto& s, const O& o) {
        Rates rates = s.at(o.rates(), step);
        if constexpr (O::kBetas != BetasAre::pair) rates.betas = o.rates().betas;  // momentum is cycled in betas alone
        return rates;
      },
      schedule, optimizer);
}

/// What the optimizer makes of them; its own count is `ahead` of the steps.
inline ScheduleRow schedule_row(const Rates& rates, const Optimizer& optimizer, int64_t step, int64_t ahead = 0) {
  return std::visit([&](const auto& o) { return row_of(o, rates, step + ahead); }, optimizer);
}
inline ScheduleRow schedule_row(const LrSchedule& schedule, const Optimizer& optimizer, int64_t step,
                                int64_t ahead = 0) {
  return schedule_row(rates_at(schedule, optimizer, step), optimizer, step, ahead);
}

}  // namespace ct::optim
