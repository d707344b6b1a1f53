#include "train/loss_scale_report.h"

#include <gtest/gtest.h>

namespace ct {
namespace {

const LossScaleOptions kDefault, kWithoutHysteresis{.window = 500, .without_hysteresis = true};

TEST(LossScaleReport, TellsWhatAnOverflowDid) {
  const LossScaleState first{.scale = 65536, .step = 4, .hysteresis_left = 2},
      second{.scale = 65536, .step = 5, .last_overflow = 4, .hysteresis_left = 1},
      third{.scale = 32768, .step = 6, .last_overflow = 5, .hysteresis_left = 1};
  EXPECT_EQ(overflow_text(kDefault, first, second),
            "Attempted loss scale: 65536, but hysteresis is 2. Reducing hysteresis to 1");
  EXPECT_EQ(overflow_text(kDefault, second, third), "Attempted loss scale: 65536, reducing to 32768");
  EXPECT_EQ(overflow_text({.dynamic = false}, {.scale = 128}, {.scale = 128}), "the loss scale stays 128");
}

TEST(LossScaleReport, SaysHowAScaleMoves) {
  EXPECT_EQ(describe(kDefault),
            "dynamic loss scale from 65536, halved at 2 overflows down to 1, doubled after 1000 steps without any");
  EXPECT_EQ(describe(kWithoutHysteresis),
            "dynamic loss scale from 65536, halved at every overflow down to 1, doubled after 500 steps without any");
  EXPECT_EQ(describe({.dynamic = false, .initial = 0.5}), "loss scale 0.5");
}

}  // namespace
}  // namespace ct
