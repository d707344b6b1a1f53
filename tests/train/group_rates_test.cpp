#include "train/group_rates.h"

#include <gtest/gtest.h>

#include "train/config/load.h"

namespace ct {
namespace {

GroupRates rates_of(const std::string& optimizer, const std::string& rest = "") {
  return {load_config_text("train_batch_size: 4\noptimizer: " + optimizer + "\n" + rest, "test.yaml"), {1000}};
}

std::string line(const GroupRates& rates, int64_t step) {
  return step_line(step, 0, rates.lr(step), rates.momenta(step));
}

TEST(GroupRates, AreThoseOfTheScheduleByGroup) {
  EXPECT_EQ(line(rates_of("{type: SGD, params: {lr: 0.1, momentum: 0.9}}"), 3),
            "step=3, skipped=0, lr=[0.1], mom=[0.9]");
  EXPECT_EQ(line(rates_of("{type: AdamW, params: {lr: 0.5, betas: [0.8, 0.99]}, groups: [{pattern: \"fc*\", "
                          "lr_scale: 0.5}]}"),
                 3),
            "step=3, skipped=0, lr=[0.25, 0.5], mom=[[0.8, 0.99], [0.8, 0.99]]");
  EXPECT_EQ(line(rates_of("{type: Muon, params: {lr: 0.02, adamw_lr: 0.01}}"), 3),
            "step=3, skipped=0, lr=[0.02, 0.01], mom=[0.95, [0.9, 0.999]]");
}

/// DeepSpeed's logs of a warm-up in a run that skipped 19 steps before its first update.
TEST(GroupRates, GoldenCosine) {
  const std::string cosine =
      "scheduler: {type: WarmupCosineLR, params: {total_num_steps: 128, warmup_num_steps: 10}}\ncompat: seed\n";
  const GroupRates rates = rates_of("{type: AdamW, params: {lr: 0.001}}", cosine);
  const auto lr = [&](int64_t step, int64_t skipped) { return rates.lr(step - skipped).front(); };
  EXPECT_EQ(lr(10, 10), 0.001);
  EXPECT_EQ(lr(20, 19), 0);
  EXPECT_DOUBLE_EQ(lr(30, 19), 0.00099982282328117);
  EXPECT_DOUBLE_EQ(lr(40, 20), 0.0009823856960138172);
  EXPECT_DOUBLE_EQ(lr(60, 20), 0.0008488308789914356);
  EXPECT_DOUBLE_EQ(lr(120, 20), 0.0001326996632760096);
}

TEST(GroupRates, OneCycleMovesTheMomentum) {
  const GroupRates rates = rates_of(
      "{type: AdamW, params: {lr: 1.0e-4}}",
      "scheduler: {type: OneCycle, params: {cycle_min_lr: 1.0e-4, cycle_max_lr: 4.0e-3, cycle_first_step_size: 10}}\n");
  EXPECT_LT(rates.momenta(10).front().first, 0.81);
  EXPECT_EQ(rates.momenta(10).front().second, 0.99);
}

}  // namespace
}  // namespace ct
