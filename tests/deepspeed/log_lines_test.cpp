#include "deepspeed/log_lines.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>

namespace ct {
namespace {

// Expected texts are Python's.

TEST(DeepSpeedLines, Momenta) {
  EXPECT_EQ(tuple_text({0.8, 0.999}), "(0.8, 0.999)");
  EXPECT_EQ(tuple_text({0.9, {}}), "0.9");
  EXPECT_EQ(tuple_text({0, {}}), "0");
}

TEST(DeepSpeedLines, Throughput) {
  EXPECT_EQ(throughput_line({.micro_steps = 80,
                             .steps = 20,
                             .running = 3862.5,
                             .current = 3930.25,
                             .bytes = int64_t{154} << 20,
                             .most_bytes = int64_t{12646} << 20}),
            "epoch=0/micro_step=80/global_step=20, RunningAvgSamplesPerSec=3862.5, CurrSamplesPerSec=3930.25, "
            "MemAllocated=0.15GB, MaxMemAllocated=12.35GB");
}

TEST(DeepSpeedLines, WhatAStepsTimeWentTo) {
  PhaseSeconds phases{};
  phases[StepPhase::forward] = 2;
  phases[StepPhase::backward] = 4;
  phases[StepPhase::exchange] = 1;
  phases[StepPhase::update] = 3;
  phases[StepPhase::update_exchange] = 0.25;
  const DeepSpeedTimes times(phases);
  EXPECT_EQ(step_time_line(times),
            "time (ms) | fwd: 2.00 | bwd: 5.00 | bwd_inner: 4.00 | bwd_allreduce: 1.00 | step: 3.25");
  EXPECT_EQ(micro_step_time_line(times, 2),
            "time (ms) | fwd_microstep: 1.00 | bwd_microstep: 2.50 | bwd_inner_microstep: 2.00 | "
            "bwd_allreduce_microstep: 0.50 | step_microstep: 3.25");
  EXPECT_EQ(optimizer_time_line(times),
            "time (ms) | optimizer_allgather: 0.25 | optimizer_gradients: 0.00 | optimizer_step: 3.00");
}

using Lines = std::vector<std::string>;

TEST(DeepSpeedLines, LossScaleOfStages1To3) {
  const LossScaleState first{.scale = 4294967296, .hysteresis_left = 2},
      second{.scale = 4294967296, .step = 1, .last_overflow = 0, .hysteresis_left = 1},
      third{.scale = 2147483648, .step = 2, .last_overflow = 1, .hysteresis_left = 1};
  EXPECT_EQ(loss_scale_lines(LossScaleOptions{}, first, second, true),
            Lines{"[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 4294967296, but hysteresis is 2. "
                  "Reducing hysteresis to 1"});
  EXPECT_EQ(loss_scale_lines(LossScaleOptions{}, second, third, true),
            Lines{"[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 4294967296, reducing to "
                  "2147483648"});
  EXPECT_EQ(loss_scale_lines(LossScaleOptions{}, third, {.scale = 4294967296, .step = 3}, false), Lines{});
  EXPECT_EQ(loss_scale_lines({.dynamic = false}, first, first, true), Lines{});
}

TEST(DeepSpeedLines, LossScaleOfStage0) {
  const LossScaleOptions kWithout{.window = 500, .without_hysteresis = true};
  const LossScaleState before{.scale = 32768, .step = 7}, lowered{.scale = 16384, .step = 8, .last_overflow = 7};
  EXPECT_EQ(loss_scale_lines(kWithout, before, lowered, true),
            (Lines{"Grad overflow on iteration 7", "Reducing dynamic loss scale from 32768 to 16384",
                   "Overflow detected. Skipping step. Attempted loss scale: 32768, reducing to 16384"}));
  EXPECT_EQ(loss_scale_lines(kWithout, before, {.scale = 65536, .step = 8}, false),
            (Lines{"No Grad overflow for 500 iterations", "Increasing dynamic loss scale from 32768 to 65536"}));
  EXPECT_EQ(loss_scale_lines(kWithout, before, {.scale = 32768, .step = 8}, false), Lines{});
}

TEST(DeepSpeedLines, BeginWithTimeAndPlace) {
  const auto at = std::chrono::system_clock::from_time_t(1740139541) + std::chrono::milliseconds(7);
  const std::time_t seconds = 1740139541;
  char day[32];
  std::strftime(day, sizeof day, "%Y-%m-%d %H:%M:%S", std::localtime(&seconds));
  EXPECT_EQ(log_dist_line("step=1", at),
            "[" + std::string(day) + ",007] [INFO] [logging.py:128:log_dist] [Rank 0] step=1");
  EXPECT_EQ(log_line(kThroughputTimer, "epoch=0", at),
            "[" + std::string(day) + ",007] [INFO] [timer.py:264:stop] epoch=0");
}

}  // namespace
}  // namespace ct
