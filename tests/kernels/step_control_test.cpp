#include "step_control.h"

#include <array>
#include <cmath>
#include <limits>
#include <random>

#include "buffer.h"
#include "device/cpu/step_control.h"
#include "plan/step_scalars.h"
#include "reference/loss_scale.h"
#include "run.h"

namespace ct::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

constexpr int64_t kRows = 64;

std::vector<ScheduleRow> some_schedule() {
  std::vector<ScheduleRow> rows;
  for (int64_t i = 0; i < kRows; ++i)
    rows.push_back({.lr = 0.1 / static_cast<double>(i + 1),
                    .coefficients = {0.9, 0.999, 1 - std::pow(0.9, i + 1), 1 - std::pow(0.999, i + 1)}});
  return rows;
}

std::vector<double> some_sums(size_t n, uint32_t which) {
  std::vector<double> sums;
  for (float x : numbers(n, which)) sums.push_back(std::exp(8 * static_cast<double>(x)));  // far apart: order shows
  return sums;
}

void control(const std::vector<double>& sums, const std::vector<ScheduleRow>& schedule, StepScalars& scalars,
             double clip, int64_t micro_batches, LossScaleState* state = nullptr,
             const LossScaleOptions& options = {}) {
  const Operand<double> operands(sums.begin(), sums.end());
  const Operand<ScheduleRow> rows(schedule.begin(), schedule.end());
  Buffer<StepScalars> on_device(1);
  on_device.at(0) = scalars;
  Buffer<LossScaleState> states(1);
  states.at(0) = state ? *state : LossScaleState();
  ASSERT_EQ(step_control({.sums = operands.data(),
                          .count = static_cast<int64_t>(sums.size()),
                          .schedule = rows.data(),
                          .scalars = on_device.data(),
                          .clip = clip,
                          .micro_batches = micro_batches,
                          .loss_scale = state ? states.data() : nullptr,
                          .loss_scale_options = options},
                         nullptr),
            cudaSuccess);
  scalars = on_device.at(0);
  if (state) *state = states.at(0);
}

void expect_same(const StepScalars& got, const StepScalars& expected) {
  EXPECT_EQ(got.applied, expected.applied);
  EXPECT_EQ(got.skipped, expected.skipped);
  EXPECT_EQ(got.bad_streak, expected.bad_streak);
  EXPECT_EQ(got.window_begin, expected.window_begin);
  EXPECT_TRUE(got.norm == expected.norm || (std::isnan(got.norm) && std::isnan(expected.norm)));
  EXPECT_EQ(got.grad_scale, expected.grad_scale);
  EXPECT_EQ(got.lr, expected.lr);
  EXPECT_EQ(got.coefficients, expected.coefficients);
  EXPECT_EQ(got.skip, expected.skip);
}

TEST(StepControl, GivesTheBitsOfTheCpu) {
  const auto schedule = some_schedule();
  for (const size_t count : {0u, 1u, 7u, 1023u, 1024u, 1025u, 2048u, 3100u})
    for (const double clip : {0.0, 0.5, 1e9}) {
      const auto body = [&] {
        const auto sums = some_sums(count, static_cast<uint32_t>(count));
        StepScalars got{.applied = 17, .skipped = 2, .bad_streak = 2, .window_begin = 11};
        StepScalars expected = got;
        cpu::step_control(expected, sums, schedule.data(), clip, /*micro_batches=*/3);
        control(sums, schedule, got, clip, /*micro_batches=*/3);
        expect_same(got, expected);
      };
      if (clip == 0.5)
        on_host::in_all_orders(body);
      else
        body();
    }
}

TEST(StepControl, AForcedSkipAdvancesNothing) {
  const auto schedule = some_schedule();
  std::mt19937 random(5);
  StepScalars got, expected;
  int64_t skips = 0;
  for (int step = 0; step < 60; ++step) {
    auto sums = some_sums(70, static_cast<uint32_t>(step));
    const bool skip = random() % 3 == 0;
    if (skip) sums[random() % sums.size()] = random() % 2 == 0 ? kInfinity : std::nan("");
    const StepScalars before = got;
    cpu::step_control(expected, sums, schedule.data(), /*clip=*/1, /*micro_batches=*/2);
    control(sums, schedule, got, /*clip=*/1, /*micro_batches=*/2);
    expect_same(got, expected);
    EXPECT_EQ(got.skip, skip ? 1 : 0);
    EXPECT_EQ(got.applied, before.applied + (skip ? 0 : 1));
    skips += skip ? 1 : 0;
  }
  EXPECT_EQ(got.skipped, skips);
  EXPECT_GT(got.skipped, 5);
}

LossScaleOptions random_options(std::mt19937& random) {
  return {.dynamic = random() % 8 != 0,
          .initial = std::ldexp(1.0, static_cast<int>(random() % 6)),
          .min = random() % 2 == 0 ? 1 : 0.75,
          .window = 1 + static_cast<int64_t>(random() % 4),
          .hysteresis = 1 + static_cast<int64_t>(random() % 3),
          .consecutive_hysteresis = random() % 2 == 0,
          .without_hysteresis = random() % 4 == 0,
          .unscale_by_new = random() % 2 == 0};
}

TEST(LossScale, FollowsTheProgramsMachineOverRandomOverflows) {
  const auto schedule = some_schedule();
  std::mt19937 random(7);
  std::array<int, 5> seen = {};
  for (int run = 0; run < 30; ++run) {
    const LossScaleOptions options = random_options(random);
    LossScaleState expected = initial_loss_scale(options);
    LossScaleState state = expected;
    StepScalars scalars, unscaled;
    int64_t diverged = 0;
    const uint32_t rarity = 2 + random() % 5;
    for (int step = 0; step < 20; ++step) {
      auto sums = some_sums(3, static_cast<uint32_t>(100 * run + step));
      if (random() % rarity == 0) sums[random() % 3] = kInfinity;
      const bool overflow = std::isinf(sums[0] + sums[1] + sums[2]);
      const LossScaleStep next = next_loss_scale(options, expected, overflow);
      expected = next.state;
      diverged += next.change == LossScaleChange::diverged ? 1 : 0;
      ++seen[static_cast<size_t>(next.change)];
      control(sums, schedule, scalars, /*clip=*/0, /*micro_batches=*/4, &state, options);
      cpu::step_control(unscaled, sums, schedule.data(), /*clip=*/0, /*micro_batches=*/4);
      ASSERT_EQ(state, expected) << "run " << run << " step " << step;
      ASSERT_EQ(state.diverged, diverged);
      ASSERT_EQ(scalars.skip != 0, next.skip);
      ASSERT_EQ(scalars.norm, unscaled.norm / next.unscale);
      if (!next.skip) {
        ASSERT_EQ(scalars.grad_scale, 1.0 / 4 / next.unscale);
      }
      ASSERT_EQ(scalars.applied, unscaled.applied);
      ASSERT_EQ(scalars.skipped, unscaled.skipped);
      ASSERT_EQ(scalars.lr, unscaled.lr);
    }
  }
  for (int times : seen) EXPECT_GT(times, 5);
}

TEST(LossScale, ClipsTheUnscaledGradient) {
  StepScalars scalars;
  LossScaleState state{.scale = 1024};
  control({1024.0 * 1024 * 9 * 16}, some_schedule(), scalars, /*clip=*/1, /*micro_batches=*/4, &state);
  EXPECT_EQ(scalars.norm, 3);
  EXPECT_EQ(scalars.grad_scale, 1 / (3 + 1e-6) / 4 / 1024);
}

}  // namespace
}  // namespace ct::kernels
