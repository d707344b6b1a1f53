// What modules make of their keys beside coefficients (schedule_test.cpp).
#include "optim/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace ct::optim {
namespace {

TEST(Optimizer, RefusesNothingByDefault) {
  for (const Optimizer& optimizer : all_of<Optimizer>()) EXPECT_FALSE(fault_of(optimizer)) << type_of(optimizer);
}

TEST(Optimizer, StatesAreNamedOnceAndInOrder) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(states_of(AdamW().rule()), (Names{"exp_avg", "exp_avg_sq"}));
  EXPECT_EQ(states_of(Sgd().rule()), Names{""});
  EXPECT_EQ(states_of(RmsProp{.centered = true}.rule()), (Names{"square_avg", "", "grad_avg"}));
  const rules::RmsProp::States<int> states{.square_avg = 0, .momentum_buffer = 1, .grad_avg = 2};
  EXPECT_EQ(rules::state<rules::RmsProp>("momentum_buffer"), static_cast<size_t>(states.momentum_buffer));
}

/// Every rule is some optimizer's, so that its test cases are walked.
TEST(Optimizer, EveryRuleHasAModule) {
  std::set<std::string_view> used;
  for (const Optimizer& optimizer : all_of<Optimizer>())
    used.insert(std::visit([](const auto& o) { return o.rule().kName; }, optimizer));
  for (const rules::Any& rule : all_of<rules::Any>()) {
    const std::string_view name = std::visit([](const auto& r) { return r.kName; }, rule);
    EXPECT_TRUE(used.contains(name)) << "no module of optim::Optimizer (optim/optimizer.h) has the rule " << name;
  }
}

TEST(Lars, TensorsWithoutDecayAdaptOnlyWhereThatIsWanted) {
  const std::vector<TrustRatios::Tensor> tensors{{.chunks = {0, 1}, .weight_decay = 0.1}, {.chunks = {1, 2}}};
  const TrustRatios plain = Lars{}.trust(tensors, 0, 1, 2, 3);
  EXPECT_TRUE(plain.tensors[0].adapts);
  EXPECT_FALSE(plain.tensors[1].adapts);
  EXPECT_TRUE(plain.of_gradients);
  EXPECT_FALSE(plain.by_rate);
  EXPECT_TRUE(std::isinf(plain.most));
  const TrustRatios all = Lars{.trust_clip = true, .always_adapt = true}.trust(tensors, 0, 1, 2, 3);
  EXPECT_TRUE(all.tensors[1].adapts && all.by_rate);
  EXPECT_EQ(all.most, 1);
  EXPECT_TRUE(Lars{.nesterov = true}.fault());
}

TEST(Lamb, LimitsItsRatiosAndCountsDecayOnce) {
  const TrustRatios ratios =
      Lamb{.max_coeff = 5, .min_coeff = 0.5}.trust({{.chunks = {0, 1}, .weight_decay = 0.1}}, 0, 1, 2, 3);
  EXPECT_EQ(ratios.least, 0.5);
  EXPECT_EQ(ratios.most, 5);
  EXPECT_EQ(ratios.tensors[0].weight_decay, 0);  // the update whose norm is taken has it
  EXPECT_FALSE(ratios.of_gradients);
  EXPECT_TRUE((Lamb{.max_coeff = 1, .min_coeff = 2}.fault()));
}

TEST(Muon, StepsAsLongAsPyTorchs) {
  EXPECT_EQ(Muon{}.ratio(128, 512), 1);
  EXPECT_EQ(Muon{}.ratio(512, 128), 2);
  const Muon rms{.adjust_lr_fn = AdjustLr::match_rms_adamw};
  EXPECT_DOUBLE_EQ(rms.ratio(64, 400), 4);
  EXPECT_DOUBLE_EQ(rms.ratio(400, 64), 4);
  EXPECT_EQ(Muon{}.orthogonalize({}, 512, 128).scale, 2);
  EXPECT_EQ(Muon{}.orthogonalize({}, 512, 128).steps, 5);
}

TEST(Muon, TheRestHasARateOfItsOwn) {
  EXPECT_EQ(Muon{}.adamw_share(), 1);
  EXPECT_EQ((Muon{.lr = 0.02, .adamw_lr = 0.01}.adamw_share()), 0.5);
  EXPECT_TRUE((Muon{.lr = 0, .adamw_lr = 0.01}.fault()));
  EXPECT_TRUE((Muon{.ns_coefficients = {1, 2}}.fault()));
}

}  // namespace
}  // namespace ct::optim
