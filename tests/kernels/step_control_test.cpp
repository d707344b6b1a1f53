#include "step_control.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>

#include "buffer.h"
#include "device/cpu/step_control.h"
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
  for (float x : numbers(n, which)) sums.push_back(std::exp(8 * static_cast<double>(x)));
  return sums;
}

/// Of four micro-batches, without clipping.
void control(const std::vector<double>& sums, const std::vector<ScheduleRow>& schedule, StepScalars& scalars,
             LossScaleState& state, const LossScaleOptions& options) {
  const Operand<double> operands(sums.begin(), sums.end());
  const Operand<ScheduleRow> rows(schedule.begin(), schedule.end());
  Buffer<StepScalars> on_device(1);
  on_device.at(0) = scalars;
  Buffer<LossScaleState> states(1);
  states.at(0) = state;
  ASSERT_EQ(step_control({.sums = operands.data(),
                          .count = static_cast<int64_t>(sums.size()),
                          .schedule = rows.data(),
                          .scalars = on_device.data(),
                          .clip = 0,
                          .micro_batches = 4,
                          .loss_scale = states.data(),
                          .loss_scale_options = options},
                         nullptr),
            cudaSuccess);
  scalars = on_device.at(0);
  state = states.at(0);
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
      control(sums, schedule, scalars, state, options);
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

/// Two steps by a launch each and by one of both: of no chunk, one and many, whichever block is the last.
void expect_same_by_one_launch(int64_t count) {
  SCOPED_TRACE(count);
  const auto schedule = some_schedule();
  const Operand<ScheduleRow> rows(schedule.begin(), schedule.end());
  constexpr int64_t kLength = 7;
  Buffer<float> grads(numbers(static_cast<size_t>(count * kLength), 5));
  Operand<SquareChunk> chunks;
  for (int64_t i = 0; i < count; ++i) chunks.push_back({i * kLength, (i + 1) * kLength, count - 1 - i});
  const size_t places = static_cast<size_t>(count) + 2;  // the last of which are sums of other ranks
  Buffer<double> sums(places), sums2(places);
  for (size_t i = 0; i < places; ++i) sums.at(i) = sums2.at(i) = 0.5;
  Buffer<StepScalars> scalars(1), scalars2(1);
  scalars.at(0) = scalars2.at(0) = StepScalars{};
  Buffer<unsigned> tickets(1);
  tickets.at(0) = 0;
  const SquareSumsArgs squares{.grads = grads.data(), .chunks = chunks.data(), .count = count, .sums = sums.data()};
  const StepControlArgs decide{.sums = sums.data(),
                               .count = static_cast<int64_t>(places),
                               .schedule = rows.data(),
                               .scalars = scalars.data(),
                               .clip = 0.25,
                               .micro_batches = 4};
  NormAndControlArgs both{.squares = squares, .control = decide, .tickets = tickets.data()};
  // What the step has decided leaves by a ring, and a byte of another ring comes, by the same launch.
  Buffer<StepScalars> results(2);
  Buffer<unsigned char> row(1), rows_to_come(3);
  Buffer<int32_t> turns(2);
  for (unsigned char i = 0; i < 3; ++i) rows_to_come.at(i) = static_cast<unsigned char>(10 + i);
  turns.at(0) = turns.at(1) = 0;
  both.control.copies = {.count = 2,
                         .at = {{.value = scalars2.data(),
                                 .ring = results.data(),
                                 .to_ring = true,
                                 .bytes = sizeof(StepScalars),
                                 .slots = 2,
                                 .turn = turns.data()},
                                {.value = row.data(),
                                 .ring = rows_to_come.data(),
                                 .to_ring = false,
                                 .bytes = 1,
                                 .slots = 3,
                                 .turn = turns.data() + 1}}};
  both.control.sums = both.squares.sums = sums2.data();
  both.control.scalars = scalars2.data();
  for (int step = 0; step < 2; ++step) {
    ASSERT_EQ(square_sums(squares, nullptr), cudaSuccess);
    ASSERT_EQ(step_control(decide, nullptr), cudaSuccess);
    ASSERT_EQ(norm_and_control(both, nullptr), cudaSuccess);
    EXPECT_EQ(sums2.bytes(), sums.bytes());
    EXPECT_EQ(scalars2.bytes(), scalars.bytes());
    EXPECT_EQ(tickets.at(0), 0u);
    const std::vector<unsigned char> kept = results.bytes(), now = scalars2.bytes();
    EXPECT_TRUE(std::equal(now.begin(), now.end(), kept.begin() + step * static_cast<std::ptrdiff_t>(now.size())));
    EXPECT_EQ(row[0], 10 + step);
    EXPECT_EQ(turns[0], (step + 1) % 2);
    EXPECT_EQ(turns[1], step + 1);
    for (size_t i = 0; i < grads.size(); ++i) grads.at(i) *= 2;
  }
}

TEST(NormAndControl, HasTheBitsOfALaunchEach) {
  for (const int64_t count : {0, 1, 5, 40}) on_host::in_all_orders([=] { expect_same_by_one_launch(count); });
#ifndef __SANITIZE_THREAD__         // it takes a minute there, and has no other races
  expect_same_by_one_launch(1030);  // more than one tile of sums
#endif
}

}  // namespace
}  // namespace ct::kernels
