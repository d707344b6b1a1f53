#include "optim/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace ct::optim {
namespace {

template <class Rule>
typename Rule::Coefficients numbers(const ScheduleRow& row) {
  return rules::coefficients_in<Rule>(row.coefficients);
}

double rate(const LrSchedule& schedule, int64_t step, double given = 0.1) {
  return schedule_row(schedule, Sgd{.lr = given}, step).lr;
}

// DeepSpeed's own values: optimizer step (from 1) and the rate it uses.
struct Golden {
  int64_t step;
  double lr;
};

TEST(WarmupLr, LogarithmicGolden) {
  for (const Golden& g : {Golden{1, 0},
                          {2, 0},
                          {3, 0.00010034333188799373},
                          {4, 0.0001590404182398875},
                          {11, 0.0003333333333333334},
                          {101, 0.0006666666666666668},
                          {1000, 0.0009998551627419942},
                          {1001, 0.001},
                          {1002, 0.001},
                          {1101, 0.001}})
    EXPECT_EQ(rate(WarmupLr(), g.step - 1), g.lr) << g.step;
}

TEST(WarmupLr, LinearGolden) {
  for (const Golden& g : {Golden{1, 0}, {2, 0}, {3, 1e-6}, {501, 0.000499}, {1001, 0.000999}, {1002, 0.001}})
    EXPECT_EQ(rate(WarmupLr{.warmup_type = WarmupType::linear}, g.step - 1), g.lr) << g.step;
}

TEST(WarmupLr, OneStepCountsAsTwo) {
  const LrSchedule s = WarmupLr{.warmup_num_steps = 1};
  EXPECT_EQ(rate(s, 1), 0);
  EXPECT_TRUE(std::isfinite(rate(s, 2)));
  EXPECT_EQ(rate(s, 3), 1e-3);
}

TEST(WarmupLr, NoStepsAreNoWarmUp) {
  const LrSchedule constant = WarmupLr{.warmup_min_lr = 1e-4, .warmup_num_steps = 0};
  WarmupDecayLr line;
  line.warmup_num_steps = 0;
  line.total_num_steps = 4;
  const LrSchedule decay = line,
                   cosine = WarmupCosineLr{.total_num_steps = 4, .warmup_num_steps = 0, .cos_min_ratio = 0};
  for (const int64_t step : {0, 1, 2, 100}) EXPECT_EQ(rate(constant, step), 1e-3) << step;
  EXPECT_EQ(rate(decay, 0), 1e-3);
  EXPECT_EQ(rate(decay, 1), 1e-3);
  EXPECT_EQ(rate(decay, 3), 0.5e-3);
  EXPECT_EQ(rate(decay, 5), 0);
  EXPECT_EQ(rate(cosine, 0, 1e-3), 1e-3);
  EXPECT_NEAR(rate(cosine, 2, 1e-3), 0.5e-3, 1e-12);
  EXPECT_EQ(rate(cosine, 4, 1e-3), 0);
}

TEST(WarmupCosineLr, Golden) {
  for (const Golden& g : {Golden{1, 0},
                          {2, 0},
                          {3, 0.00030102999566398113},
                          {4, 0.0004771212547196624},
                          {10, 0.0009542425094393248},
                          {11, 0.0009999999999999998},
                          {12, 0.00099982282328117},
                          {13, 0.000999291418703597},
                          {61, 0.0006187014836005639},
                          {108, 7.622517277655903e-05},
                          {128, 2.7717671882985936e-07},
                          {129, 1.0000000000000001e-07},
                          {130, 1.0000000000000001e-07},  // DeepSpeed's rises again
                          {140, 1.0000000000000001e-07},
                          {100000, 1.0000000000000001e-07}})
    EXPECT_EQ(rate(WarmupCosineLr{.total_num_steps = 128, .warmup_num_steps = 10}, g.step - 1, 1e-3), g.lr) << g.step;
}

TEST(WarmupCosineLr, RatiosAreOfTheOptimizersRate) {
  const WarmupCosineLr s{.total_num_steps = 30,
                         .warmup_min_ratio = 0.5,
                         .warmup_num_steps = 10,
                         .cos_min_ratio = 0.25,
                         .warmup_type = WarmupType::linear};
  EXPECT_EQ(rate(s, 0, 0.8), 0);  // before DeepSpeed's schedule has begun
  EXPECT_EQ(rate(s, 1, 0.8), 0.4);
  EXPECT_DOUBLE_EQ(rate(s, 6, 0.8), 0.6);
  EXPECT_DOUBLE_EQ(rate(s, 20, 0.8), 0.8 * (0.25 + 0.75 / 2));
  EXPECT_DOUBLE_EQ(rate(s, 30, 0.8), 0.2);
}

TEST(WarmupCosineLr, FollowsTheRunUnlessALengthIsGiven) {
  LrSchedule open = WarmupCosineLr{.warmup_num_steps = 10}, given = WarmupCosineLr{.total_num_steps = 40};
  fit_run(open, {128});
  fit_run(given, {128});
  EXPECT_EQ(rate(open, 127, 1e-3), 2.7717671882985936e-07);
  EXPECT_EQ(std::get<WarmupCosineLr>(given).total_num_steps, 40);
}

TEST(WarmupCosineLr, RunsThatEndBeforeTheWarmUpDo) {
  for (const int64_t total : {0, 1, 2, 5}) {
    const LrSchedule s = WarmupCosineLr{.total_num_steps = total, .warmup_num_steps = 5};
    for (int64_t step = 0; step < 20; ++step) EXPECT_TRUE(rate(s, step) >= 0 && rate(s, step) <= 0.1) << step;
    EXPECT_EQ(rate(s, 6), 0.1 * 1e-4);
  }
}

/// As DeepSpeed warns of fewer steps than those of the warm-up.
TEST(WarmupCosineLr, AWarmUpThatTakesAllStepsIsDoubted) {
  const auto doubt = [](std::optional<int64_t> total, int64_t warmup) {
    return doubt_of(WarmupCosineLr{.total_num_steps = total, .warmup_num_steps = warmup});
  };
  EXPECT_EQ(doubt(11, 10), "");
  EXPECT_EQ(doubt(std::nullopt, 1000), "");
  EXPECT_EQ(doubt(10, 10).find("total_num_steps 10 is not more than warmup_num_steps 10: "), 0u);
  EXPECT_NE(doubt(0, 10), "");
  EXPECT_NE(doubt(2, 1), "");  // a warm-up has two steps at least
  EXPECT_EQ(doubt(2, 0), "");  // and 0 are none
  EXPECT_EQ(doubt_of(WarmupLr()), "");
}

// DeepSpeed's own values: optimizer step (from 1), the rate and the betas that it uses.
TEST(OneCycle, Golden) {
  const LrSchedule s = OneCycle{.cycle_min_lr = 1e-4, .cycle_max_lr = 4e-3};
  struct Row {
    int64_t step;
    double lr, beta1;
  };
  for (const Row& g : {Row{1, 0.0001, 0.8},
                       {2, 0.00010195000000000066, 0.89995},
                       {3, 0.00010389999999999957, 0.8999},
                       {1001, 0.00205, 0.8500000000000001},
                       {2000, 0.003998050000000001, 0.80005},
                       {2001, 0.004, 0.8},
                       {2002, 0.003998050000000001, 0.80005},
                       {3001, 0.00205, 0.8500000000000001},
                       {4000, 0.00010194999999999893, 0.89995},
                       {4001, 0.0001, 0.9},
                       {4002, 0.0001, 0.9},
                       {4201, 0.0001, 0.9}}) {
    const ScheduleRow row = schedule_row(s, AdamW{.lr = 0.5, .betas = {0.7, 0.999}}, g.step - 1);
    EXPECT_EQ(row.lr, g.lr) << g.step;
    EXPECT_EQ(numbers<rules::Adam>(row).beta1, g.beta1) << g.step;
    EXPECT_EQ(numbers<rules::Adam>(row).beta2, 0.99) << g.step;
  }
}

TEST(OneCycle, BothHalvesHaveTheirLengthAndThenItDecays) {
  const LrSchedule s = OneCycle{.cycle_min_lr = 1,
                                .cycle_max_lr = 5,
                                .decay_lr_rate = 2,
                                .cycle_first_step_size = 4,
                                .cycle_second_step_size = 8,
                                .decay_step_size = 10,
                                .decay_mom_rate = 0.1};
  const auto beta1 = [&](int64_t step) { return numbers<rules::Adam>(schedule_row(s, AdamW(), step)).beta1; };
  EXPECT_EQ(rate(s, 0), 1);
  for (int64_t step = 1; step <= 4; ++step) EXPECT_DOUBLE_EQ(rate(s, step), 1 + static_cast<double>(step)) << step;
  for (int64_t step = 4; step < 12; ++step)
    EXPECT_NEAR(rate(s, step), 5 - 0.5 * static_cast<double>(step - 4), 1e-12) << step;
  EXPECT_EQ(rate(s, 12), 1);
  EXPECT_DOUBLE_EQ(rate(s, 12 + 1), 1 / (1 + 2 * 0.1));
  EXPECT_DOUBLE_EQ(rate(s, 12 + 10), 1 / (1 + 2 * 1.0));
  EXPECT_DOUBLE_EQ(beta1(4), 0.8);
  EXPECT_DOUBLE_EQ(beta1(12), 0.9);
  EXPECT_DOUBLE_EQ(beta1(12 + 10), 0.9 * (1 + 0.1));
  const LrSchedule up =
      OneCycle{.cycle_min_lr = 1, .cycle_max_lr = 5, .cycle_first_step_size = 4, .cycle_second_step_size = 0};
  EXPECT_DOUBLE_EQ(rate(up, 3), 4);
  EXPECT_EQ(rate(up, 5), 1);
}

TEST(OneCycle, OnlyBetasAreCycledAndOnlyIfEnabled) {
  const OneCycle cycle{.cycle_min_lr = 1e-4, .cycle_max_lr = 4e-3};
  EXPECT_EQ(numbers<rules::Sgd>(schedule_row(cycle, Sgd{.momentum = 0.5}, 1000)).momentum, 0.5);
  EXPECT_EQ(schedule_row(cycle, Sgd{.momentum = 0.5}, 1000).lr, 0.00205);
  OneCycle still = cycle;
  still.cycle_momentum = false;
  const ScheduleRow row = schedule_row(still, AdamW{.betas = {0.7, 0.999}}, 1000);
  EXPECT_EQ(numbers<rules::Adam>(row).beta1, 0.7);
  EXPECT_EQ(numbers<rules::Adam>(row).beta2, 0.999);
  EXPECT_NE(overrides_betas(cycle), "");
  EXPECT_EQ(overrides_betas(still), "");
  EXPECT_EQ(overrides_betas(StepLr()), "");
  EXPECT_TRUE(OneCycle{.cycle_max_lr = 1}.fault());
  EXPECT_TRUE(OneCycle{.cycle_min_lr = 1}.fault());
  EXPECT_FALSE(cycle.fault());
}

/// The first beta of 0.9 grows by a tenth of itself in ten steps: it is 0.99 after them, and 1 after 11.1.
TEST(OneCycle, MomentumMustStayBelowOneWithinTheRun) {
  OneCycle grows{
      .cycle_min_lr = 1, .cycle_max_lr = 5, .cycle_first_step_size = 4, .decay_step_size = 10, .decay_mom_rate = 0.1};
  const int64_t after = 8 + 1;  // steps of the cycle, the first of which comes before it
  for (const int64_t steps : {int64_t{0}, int64_t{1}, after, after + 11})
    EXPECT_FALSE(grows.fault_of_run(steps)) << steps;
  for (const int64_t steps : {after + 12, after + 13, after + 1000}) {
    const auto fault = fault_of_run(grows, AdamW(), steps);
    ASSERT_TRUE(fault) << steps;
    EXPECT_EQ(fault->key, "decay_mom_rate");
    EXPECT_NE(fault->text.find("below 1"), std::string::npos);
    EXPECT_GE(grows.at({}, steps - 1).betas[0], 1);
    EXPECT_FALSE(fault_of_run(grows, Sgd(), steps)) << "its momentum is not cycled";
  }
  EXPECT_LT(grows.at({}, after + 11 - 1).betas[0], 1);
  grows.cycle_momentum = false;
  EXPECT_FALSE(fault_of_run(grows, AdamW(), after + 1000));
  EXPECT_FALSE(fault_of_run(StepLr(), AdamW(), 1000));
}

TEST(StepLr, FallsEveryStepSizeSteps) {
  const LrSchedule s = StepLr{.step_size = 3, .gamma = 0.5};
  for (int64_t step = 0; step < 10; ++step) EXPECT_EQ(rate(s, step, 0.8), 0.8 / (1 << (step / 3))) << step;
  EXPECT_EQ(rate(StepLr{.step_size = 1, .gamma = 0}, 0), 0.1);
  EXPECT_EQ(rate(StepLr{.step_size = 1, .gamma = 0}, 1), 0);
  EXPECT_TRUE(StepLr().fault());  // PyTorch has no default for step_size
}

TEST(WarmupDecayLr, Golden) {
  WarmupDecayLr s;
  s.total_num_steps = 2000;
  for (const Golden& g : {Golden{1, 0},
                          {2, 0},
                          {3, 0.00010034333188799373},
                          {1001, 0.001},
                          {1002, 0.001},
                          {1502, 0.0005},
                          {2002, 0},
                          {2051, 0},
                          {100000, 0}})
    EXPECT_EQ(rate(s, g.step - 1), g.lr) << g.step;
}

TEST(WarmupDecayLr, FollowsTheRunUnlessALengthIsGiven) {
  LrSchedule open = WarmupDecayLr{}, given = WarmupDecayLr{};
  std::get<WarmupDecayLr>(given).total_num_steps = 4000;
  for (LrSchedule* s : {&open, &given}) fit_run(*s, {2000});
  EXPECT_EQ(rate(open, 1501), 0.0005);
  EXPECT_GT(rate(given, 1501), 0.0008);
  std::get<WarmupDecayLr>(given).warmup_num_steps = 5000;
  EXPECT_EQ(doubt_of(given).find("total_num_steps 4000 is not more than warmup_num_steps 5000: "), 0u);
  std::get<WarmupDecayLr>(given).warmup_num_steps = 4000;
  EXPECT_NE(doubt_of(given), "");
  std::get<WarmupDecayLr>(given).warmup_num_steps = 3999;
  EXPECT_EQ(doubt_of(given), "");
  EXPECT_EQ(doubt_of(open), "");
  EXPECT_EQ(doubt_of(WarmupDecayLr{}), "");
}

TEST(LrRangeTest, Golden) {
  for (const Golden& g : {Golden{1, 0.001}, {2, 0.0010004999999999999}, {3, 0.001001}, {2001, 0.002}, {4001, 0.003}})
    EXPECT_EQ(rate(LrRangeTest{}, g.step - 1), g.lr) << g.step;
  for (const Golden& g : {Golden{1, 0.001}, {2, 0.001}, {2000, 0.001}, {2001, 0.002}, {4000, 0.002}, {4001, 0.003}})
    EXPECT_EQ(rate(LrRangeTest{.lr_range_test_staircase = true}, g.step - 1), g.lr) << g.step;
}

// Values of torch.optim.lr_scheduler, stepped after every optimizer step.

TEST(ConstantLr, IsAShareAtFirst) {
  const LrSchedule s = ConstantLr{.factor = 0.5, .total_iters = 4};
  for (int64_t step = 0; step < 8; ++step) EXPECT_EQ(rate(s, step, 0.05), step < 4 ? 0.025 : 0.05) << step;
  EXPECT_DOUBLE_EQ(rate(ConstantLr{}, 4, 0.3), 0.1);
  EXPECT_EQ(rate(ConstantLr{}, 5, 0.3), 0.3);
}

TEST(MultiStepLr, FallsAtEveryMilestone) {
  const LrSchedule s = MultiStepLr{.milestones = {30, 80, 80}, .gamma = 0.5};
  for (const Golden& g : {Golden{0, 0.8}, {29, 0.8}, {30, 0.4}, {79, 0.4}, {80, 0.1}, {1000, 0.1}})
    EXPECT_EQ(rate(s, g.step, 0.8), g.lr) << g.step;
  EXPECT_TRUE(MultiStepLr{}.fault());
  EXPECT_TRUE((MultiStepLr{.milestones = {80, 30}}.fault()));
  EXPECT_FALSE((MultiStepLr{.milestones = {30, 80, 80}}.fault()));
}

TEST(ExponentialLr, FallsAtEveryStep) {
  for (int64_t step = 0; step < 10; ++step)
    EXPECT_EQ(rate(ExponentialLr{.gamma = 0.5}, step, 0.8), 0.8 / (1 << step)) << step;
  EXPECT_TRUE(ExponentialLr{}.fault());
}

TEST(LinearLr, GoesFromOneFactorToTheOther) {
  const LrSchedule up = LinearLr{.start_factor = 0.5, .end_factor = 1, .total_iters = 4};
  for (const Golden& g : {Golden{0, 0.025}, {1, 0.03125}, {2, 0.0375}, {3, 0.04375}, {4, 0.05}, {50, 0.05}})
    EXPECT_DOUBLE_EQ(rate(up, g.step, 0.05), g.lr) << g.step;
  const LrSchedule to_a_floor = LinearLr{.start_factor = 1, .end_factor = 0.1, .total_iters = 9};
  for (int64_t step = 0; step < 20; ++step)
    EXPECT_NEAR(rate(to_a_floor, step, 1), std::max(0.1, 1 - 0.1 * static_cast<double>(step)), 1e-15) << step;
}

TEST(PolynomialLr, FallsToZero) {
  const LrSchedule line = PolynomialLr{.total_iters = 4};
  for (const Golden& g : {Golden{0, 0.05}, {1, 0.0375}, {2, 0.025}, {3, 0.0125}, {4, 0}, {50, 0}})
    EXPECT_DOUBLE_EQ(rate(line, g.step, 0.05), g.lr) << g.step;
  EXPECT_DOUBLE_EQ(rate(PolynomialLr{.total_iters = 4, .power = 2}, 2, 0.8), 0.2);
}

TEST(CosineAnnealingLr, FallsAlongHalfACosineAndComesBack) {
  const LrSchedule s = CosineAnnealingLr{.t_max = 4, .eta_min = 0.1};
  const double quarter = 0.1 + 0.8 * (1 + std::sqrt(0.5)) / 2;
  for (const Golden& g : {Golden{0, 0.9}, {1, quarter}, {2, 0.5}, {4, 0.1}, {6, 0.5}, {8, 0.9}})
    EXPECT_NEAR(rate(s, g.step, 0.9), g.lr, 1e-15) << g.step;
  LrSchedule open = CosineAnnealingLr{};
  fit_run(open, {100});
  EXPECT_NEAR(rate(open, 50, 1), 0.5, 1e-15);
  EXPECT_NEAR(rate(open, 100, 1), 0, 1e-15);
  LrSchedule nothing = CosineAnnealingLr{};
  fit_run(nothing, {0});
  EXPECT_EQ(rate(nothing, 0, 1), 1);
}

TEST(CosineAnnealingWarmRestarts, BeginsAgain) {
  const auto share = [](int64_t step, const CosineAnnealingWarmRestarts& s) { return rate(s, step, 1); };
  const auto half_cosine = [](double x) { return (1 + std::cos(M_PI * x)) / 2; };
  for (int64_t step = 0; step < 40; ++step) {
    EXPECT_NEAR(share(step, {.t_0 = 10}), half_cosine(static_cast<double>(step % 10) / 10), 1e-15) << step;
    // Periods of 10, 20, 40: 0-9, 10-29, 30-69.
    const int64_t begin = step < 10 ? 0 : step < 30 ? 10 : 30, length = step < 10 ? 10 : step < 30 ? 20 : 40;
    EXPECT_NEAR(share(step, {.t_0 = 10, .t_mult = 2}),
                half_cosine(static_cast<double>(step - begin) / static_cast<double>(length)), 1e-15)
        << step;
  }
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  for (const int64_t t_mult : {int64_t{1}, int64_t{2}, kMost}) {
    const double last = share(kMost - 1, {.t_0 = 1, .t_mult = t_mult});
    EXPECT_TRUE(last >= 0 && last <= 1) << t_mult;
  }
  EXPECT_TRUE(CosineAnnealingWarmRestarts{}.fault());
}

TEST(StepCount, SettlesToTheNearestNumberOfSteps) {
  const auto settled = [](double amount, StepCount::Unit unit) {
    StepCount count = StepCount::of(amount, unit);
    count.settle({.steps = 1000, .steps_per_epoch = 31});
    return int64_t{count};
  };
  EXPECT_EQ(settled(2.5, StepCount::Unit::epochs), 78);
  EXPECT_EQ(settled(1e-9, StepCount::Unit::epochs), 1);
  EXPECT_EQ(settled(10, StepCount::Unit::percent), 100);
  for (const double huge : {3e17, 1e300}) EXPECT_EQ(settled(huge, StepCount::Unit::epochs), StepCount::kMost);
}

TEST(Schedule, CoefficientsAreTheOptimizersInDouble) {
  const ScheduleRow adam = schedule_row(Constant(), AdamW{.lr = 0.5, .betas = {0.8, 0.999}}, 0);
  EXPECT_EQ(adam.lr, 0.5);
  EXPECT_EQ(numbers<rules::Adam>(adam).beta1, 0.8);
  EXPECT_DOUBLE_EQ(numbers<rules::Adam>(adam).bias_correction1, 0.2);
  EXPECT_DOUBLE_EQ(numbers<rules::Adam>(adam).bias_correction2, 0.001);
  EXPECT_EQ(numbers<rules::Sgd>(schedule_row(Constant(), Sgd{.momentum = 0.9}, 7)).momentum, 0.9);
  AdamW uncorrected;
  uncorrected.bias_correction = false;
  EXPECT_EQ(numbers<rules::Adam>(schedule_row(Constant(), uncorrected, 0)).bias_correction1, 1);
  EXPECT_EQ(numbers<rules::Adam>(schedule_row(Constant(), uncorrected, 0)).bias_correction2, 1);
  EXPECT_EQ(numbers<rules::Lion>(schedule_row(Constant(), Lion{}, 3)).beta2, 0.99);
  EXPECT_EQ(numbers<rules::Adagrad>(schedule_row(Constant(), Adagrad{.lr_decay = 0.5}, 0)).rate_factor, 1);
  EXPECT_EQ(numbers<rules::Adagrad>(schedule_row(Constant(), Adagrad{.lr_decay = 0.5}, 6)).rate_factor, 0.25);
  const ScheduleRow lamb = schedule_row(Constant(), Lamb{.betas = {0.8, 0.96}}, 0);
  EXPECT_DOUBLE_EQ(numbers<rules::Lamb>(lamb).rate_factor, std::sqrt(0.04) / 0.2);
  EXPECT_EQ(numbers<rules::Lamb>(schedule_row(Constant(), Lamb{.bias_correction = false}, 0)).rate_factor, 1);
}

}  // namespace
}  // namespace ct::optim
