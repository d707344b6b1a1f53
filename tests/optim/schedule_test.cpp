#include "optim/schedule.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ct::optim {
namespace {

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

TEST(WarmupLr, FewerThanTwoStepsCountAsTwo) {
  const LrSchedule s = WarmupLr{.warmup_num_steps = 0};
  EXPECT_EQ(rate(s, 1), 0);
  EXPECT_TRUE(std::isfinite(rate(s, 2)));
  EXPECT_EQ(rate(s, 3), 1e-3);
}

TEST(StepLr, FallsEveryStepSizeSteps) {
  const LrSchedule s = StepLr{.step_size = 3, .gamma = 0.5};
  for (int64_t step = 0; step < 10; ++step) EXPECT_EQ(rate(s, step, 0.8), 0.8 / (1 << (step / 3))) << step;
  EXPECT_EQ(rate(StepLr{.step_size = 1, .gamma = 0}, 0), 0.1);
  EXPECT_EQ(rate(StepLr{.step_size = 1, .gamma = 0}, 1), 0);
  EXPECT_TRUE(StepLr().fault());  // PyTorch has no default for step_size
}

TEST(Schedule, CoefficientsAreTheOptimizersInDouble) {
  const ScheduleRow adam = schedule_row(Constant(), AdamW{.lr = 0.5, .betas = {0.8, 0.999}}, 0);
  EXPECT_EQ(adam.lr, 0.5);
  EXPECT_EQ(adam.coefficients[ct::Adam::beta1], 0.8);
  EXPECT_DOUBLE_EQ(adam.coefficients[ct::Adam::bias_correction1], 0.2);
  EXPECT_DOUBLE_EQ(adam.coefficients[ct::Adam::bias_correction2], 0.001);
  EXPECT_EQ(schedule_row(Constant(), Sgd{.momentum = 0.9}, 7).coefficients[ct::Sgd::momentum], 0.9);
}

}  // namespace
}  // namespace ct::optim
