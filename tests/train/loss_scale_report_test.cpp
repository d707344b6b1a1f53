#include "train/loss_scale_report.h"

#include <gtest/gtest.h>

namespace ct {
namespace {

using Lines = std::vector<std::string>;

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

// DeepSpeed's lines, byte for byte.

TEST(LossScaleReport, ConsoleOfStages1To3) {
  const LossScaleState first{.scale = 4294967296, .hysteresis_left = 2},
      second{.scale = 4294967296, .step = 1, .last_overflow = 0, .hysteresis_left = 1},
      third{.scale = 2147483648, .step = 2, .last_overflow = 1, .hysteresis_left = 1};
  EXPECT_EQ(deepspeed_lines(kDefault, first, second, true),
            Lines{"[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 4294967296, but hysteresis is 2. "
                  "Reducing hysteresis to 1"});
  EXPECT_EQ(deepspeed_lines(kDefault, second, third, true),
            Lines{"[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 4294967296, reducing to "
                  "2147483648"});
  EXPECT_EQ(deepspeed_lines(kDefault, third, {.scale = 4294967296, .step = 3}, false), Lines{});
  EXPECT_EQ(deepspeed_lines({.dynamic = false}, first, first, true), Lines{});
}

TEST(LossScaleReport, ConsoleOfStage0) {
  const LossScaleState before{.scale = 32768, .step = 7}, lowered{.scale = 16384, .step = 8, .last_overflow = 7};
  EXPECT_EQ(deepspeed_lines(kWithoutHysteresis, before, lowered, true),
            (Lines{"Grad overflow on iteration 7", "Reducing dynamic loss scale from 32768 to 16384",
                   "Overflow detected. Skipping step. Attempted loss scale: 32768, reducing to 16384"}));
  EXPECT_EQ(deepspeed_lines(kWithoutHysteresis, before, {.scale = 65536, .step = 8}, false),
            (Lines{"No Grad overflow for 500 iterations", "Increasing dynamic loss scale from 32768 to 65536"}));
  EXPECT_EQ(deepspeed_lines(kWithoutHysteresis, before, {.scale = 32768, .step = 8}, false), Lines{});
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
