// The table of schedules: pure functions of the number of applied steps, in double. A module is a struct of a
// schedule's keys, with kType, keys() and fault() as in optim/optimizer.h and the members
//   at()                 the rates of applied step number `step`, counted from 0, from the optimizer's rates
//   kOverridesLr         optional: the key that replaces the optimizer's rate
//   kPeakLr              optional: of such a schedule, the key of its largest rate
//   fit_run()            optional: takes the number of the run's steps; called before at()
//   doubt()              optional: a warning of a probable mistake, "KEY ...: the remedy"; "": none
//   fault_of_run(steps)  optional: the fault of its keys in a run of `steps` steps
//   overrides_betas()    optional: the values that replace the optimizer's betas, for messages; "": none
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

/// Turns durations into steps, and passes the number of the run's steps to the schedule.
inline void fit_run(LrSchedule& schedule, const RunLength& run) {
  const auto settle_all = [&](ConfigKey& key) {
    if (auto** const count = std::get_if<StepCount*>(&key.target)) (*count)->settle(run);
    if (auto** const count = std::get_if<std::optional<StepCount>*>(&key.target); count && **count)
      (**count)->settle(run);
    if (auto** const counts = std::get_if<std::vector<StepCount>*>(&key.target))
      for (StepCount& count : **counts) count.settle(run);
  };
  std::visit(
      [&](auto& s) {
        for (ConfigKey key : s.keys()) settle_all(key);
        if constexpr (requires { s.fit_run(run.steps); }) s.fit_run(run.steps);
      },
      schedule);
}

/// kOverridesLr of schedules that have it; empty: the optimizer's rate is used.
inline std::string_view overrides_lr(const LrSchedule& schedule) {
  return std::visit(
      [](const auto& s) -> std::string_view {
        if constexpr (requires { s.kOverridesLr; }) return s.kOverridesLr;
        return {};
      },
      schedule);
}
/// kPeakLr of schedules that have it; empty: the optimizer's rate, or no key, is the largest rate.
inline std::string_view peak_lr(const LrSchedule& schedule) {
  return std::visit(
      [](const auto& s) -> std::string_view {
        if constexpr (requires { s.kPeakLr; }) return s.kPeakLr;
        return {};
      },
      schedule);
}
/// The warning of a probable mistake; empty: none.
inline std::string doubt_of(const LrSchedule& schedule) {
  return std::visit(
      [](const auto& s) -> std::string {
        if constexpr (requires { s.doubt(); }) return s.doubt();
        return {};
      },
      schedule);
}
/// overrides_betas() of schedules that have it, else "".
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

/// fault_of_run() of schedules that have it; nullopt if the optimizer has no betas, which are all that it checks.
inline std::optional<ConfigFault> fault_of_run(const LrSchedule& schedule, const Optimizer& optimizer, int64_t steps) {
  if (!has_betas(optimizer)) return {};
  return std::visit(
      [steps](const auto& s) -> std::optional<ConfigFault> {
        if constexpr (requires { s.fault_of_run(steps); }) return s.fault_of_run(steps);
        return {};
      },
      schedule);
}

/// The rates of applied step number `step`, counted from 0.
inline Rates rates_at(const LrSchedule& schedule, const Optimizer& optimizer, int64_t step) {
  return std::visit(
      [step]<class O>(const auto& s, const O& o) {
        Rates rates = s.at(o.rates(), step);
        if constexpr (O::kBetas != BetasAre::pair) rates.betas = o.rates().betas;  // schedules cycle only betas
        return rates;
      },
      schedule, optimizer);
}

/// The rate and coefficients of an applied step; the optimizer's step count is `step` + `ahead`.
inline ScheduleRow schedule_row(const Rates& rates, const Optimizer& optimizer, int64_t step, int64_t ahead = 0) {
  return std::visit([&](const auto& o) { return row_of(o, rates, step + ahead); }, optimizer);
}
inline ScheduleRow schedule_row(const LrSchedule& schedule, const Optimizer& optimizer, int64_t step,
                                int64_t ahead = 0) {
  return schedule_row(rates_at(schedule, optimizer, step), optimizer, step, ahead);
}

}  // namespace ct::optim
