// Each flag of `compat` brings back one surprise of the reference; the values are the reference's own.
#include <gtest/gtest.h>

#include "base/error.h"
#include "train/config/load.h"
#include "train/config/print.h"
#include "train/setup.h"

namespace ct {
namespace {

Config config(const std::string& flags, const std::string& rest) {
  return load_config_text("train_batch_size: 4\ncompat: " + flags + "\n" + rest, "test.yaml");
}

const std::string kTutorialsAdam = "optimizer: {type: Adam, params: {lr: 0.001, betas: [0.8, 0.999]}}\n";
const std::string kCosine = "scheduler: {type: WarmupCosineLR, params: {total_num_steps: 128, warmup_num_steps: 10}}\n";

double rate(const Config& c, int64_t optimizer_step) { return step_schedule(c, {1000})(optimizer_step - 1).lr; }

TEST(Compat, IsAListOfFlagsOrAllOfThem) {
  EXPECT_TRUE(config("[]", kTutorialsAdam).compat.empty());
  const Config all = config("seed", kTutorialsAdam), some = config("[adam_t, first_step]", kTutorialsAdam);
  for (const std::string_view word : words_of(CompatFlag{}))
    EXPECT_TRUE(all.compat.has(of_word(word, CompatFlag::console))) << word;
  EXPECT_TRUE(some.compat.has(CompatFlag::adam_t));
  EXPECT_TRUE(some.compat.has(CompatFlag::first_step));
  EXPECT_FALSE(some.compat.has(CompatFlag::console));
  EXPECT_NE(to_yaml(some).find("compat: [first_step, adam_t]\n"), std::string::npos) << to_yaml(some);
  EXPECT_EQ(to_yaml(config("[]", kTutorialsAdam)).find("compat"), std::string::npos);
  for (const Config* c : {&all, &some}) EXPECT_TRUE(load_config_text(to_yaml(*c), "again") == *c);
  const auto error = [](const std::string& flags) {
    try {
      config(flags, kTutorialsAdam);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  EXPECT_NE(error("[cosine_rise]").find("did you mean cosine_rises?"), std::string::npos) << error("[cosine_rise]");
  EXPECT_NE(error("sed").find("compat expects seed or a list of first_step, "), std::string::npos) << error("sed");
  EXPECT_NE(error("[1]").find("test.yaml:2:10: compat"), std::string::npos) << error("[1]");
}

TEST(Compat, FirstStepIsOneOfTheOptimizersOwnRate) {
  const Config c = config("[first_step]", kTutorialsAdam + kCosine);
  EXPECT_EQ(rate(c, 1), 0.001);
  EXPECT_EQ(rate(c, 2), 0);
  EXPECT_EQ(rate(c, 3), 0.00030102999566398113);
  EXPECT_EQ(rate(c, 12), 0.00099982282328117);
  EXPECT_EQ(rate(config("[]", kTutorialsAdam + kCosine), 1), 0);
  const std::string cycle = "scheduler: {type: OneCycle, params: {cycle_min_lr: 0.5, cycle_max_lr: 1}}\n";
  EXPECT_EQ(rate(config("[first_step]", kTutorialsAdam + cycle), 1), 0.5);  // which sets its rate as it begins
}

TEST(Compat, CosineRisesAfterItsEnd) {
  const Config c = config("[cosine_rises]", kTutorialsAdam + kCosine), without = config("[]", kTutorialsAdam + kCosine);
  EXPECT_EQ(rate(c, 129), 1.0000000000000001e-07);
  EXPECT_EQ(rate(c, 130), 2.7717671882985936e-07);
  EXPECT_EQ(rate(c, 140), 2.1386851920915372e-05);
  EXPECT_EQ(rate(without, 140), 1.0000000000000001e-07);
}

LossScaleOptions scale(const std::string& flags, int stage, const std::string& fp16 = "") {
  const Config c = config(flags, kTutorialsAdam + "fp16: {enabled: true" + fp16 +
                                     "}\nzero_optimization: {stage: " + std::to_string(stage) + "}\n");
  return update_rule(c).loss_scale.value();
}

TEST(Compat, ScalerBIsStage0Alone) {
  EXPECT_TRUE(scale("[scaler_b]", 0).without_hysteresis);
  EXPECT_FALSE(scale("[scaler_b]", 1).without_hysteresis);
  EXPECT_FALSE(scale("[]", 0).without_hysteresis);
}

TEST(Compat, Scale2To32IsOfAnFp16BlockThatSaysNothing) {
  for (const int stage : {1, 2, 3}) {
    const LossScaleOptions options = scale("[scale_2_32]", stage);
    EXPECT_EQ(options.initial, 4294967296.0);
    EXPECT_EQ(options.hysteresis, 1);
  }
  EXPECT_EQ(scale("[scale_2_32]", 0).initial, 65536);
  EXPECT_EQ(scale("[]", 2).initial, 65536);
  for (const char* key : {", hysteresis: 2", ", loss_scale_window: 1000", ", min_loss_scale: 1",
                          ", initial_scale_power: 16", ", consecutive_hysteresis: false"})
    EXPECT_EQ(scale("[scale_2_32]", 2, key).initial, 65536) << key;
  EXPECT_EQ(scale("[scale_2_32]", 2, ", loss_scale: 128").initial, 128);
  // What is really used is printed, and is read back as it was.
  const Config c = config("[scale_2_32]", kTutorialsAdam + "fp16: {enabled: true}\nzero_optimization: {stage: 2}\n");
  EXPECT_NE(to_yaml(c).find("initial_scale_power: 32\n"), std::string::npos);
  EXPECT_TRUE(load_config_text(to_yaml(c), "again") == c);
}

TEST(Compat, ScaleFirstDividesByTheDoubledScale) {
  for (const int stage : {0, 2}) {
    EXPECT_TRUE(scale("[scale_first]", stage).unscale_by_new);
    EXPECT_FALSE(scale("[]", stage).unscale_by_new);
  }
}

TEST(Compat, AdamTCountsFromTwo) {
  const auto correction = [](const std::string& flags, const std::string& rest) {
    return rules::coefficients_in<rules::Adam>(
               step_schedule(config(flags, kTutorialsAdam + rest), {10})(0).coefficients)
        .bias_correction1;
  };
  const std::string fp16 = "fp16: {enabled: true}\n";
  EXPECT_DOUBLE_EQ(correction("[adam_t]", fp16), 1 - 0.8 * 0.8);
  EXPECT_DOUBLE_EQ(correction("[]", fp16), 1 - 0.8);
  EXPECT_DOUBLE_EQ(correction("[adam_t]", ""), 1 - 0.8);
  EXPECT_DOUBLE_EQ(correction("[adam_t]", fp16 + "zero_optimization: {stage: 1}\n"), 1 - 0.8);
  EXPECT_EQ(step_schedule(config("[adam_t]", kTutorialsAdam + fp16), {10})(0).lr, 0.001);
}

TEST(Compat, FixedOrderIsEveryEpochs) {
  const BatchSizes batch{4, 4, 1};
  const auto options = [&](const std::string& flags) {
    const Config c = config(flags, kTutorialsAdam);
    return pipeline_options(c, batch, distribution(c, batch, {0, 1}), 0);
  };
  EXPECT_TRUE(options("[fixed_order]").same_order);
  EXPECT_FALSE(options("[]").same_order);
}

}  // namespace
}  // namespace ct
