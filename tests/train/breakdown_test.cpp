#include "train/breakdown.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace ct {
namespace {

Breakdown sample() {
  Breakdown b{.data = 0.5, .step = 16};
  b.phases[StepPhase::forward] = 2;
  b.phases[StepPhase::backward] = 4;
  b.phases[StepPhase::exchange] = 1;
  b.phases[StepPhase::update] = 3;
  b.phases[StepPhase::update_exchange] = 0.25;
  return b;
}

TEST(Breakdown, InOurWords) {
  EXPECT_EQ(
      to_line(sample()),
      "time (ms) | forward: 2.00 | backward: 4.00 | communication: 1.25 | update: 3.00 | data: 0.50 | step: 16.00");
  EXPECT_EQ(to_json(sample()).dump(),
            R"({"forward":2.0,"backward":4.0,"communication":1.25,"update":3.0,"data":0.5,"step":16.0})");
}

TEST(PhaseClock, AddsUpWhatIsBetweenMarks) {
  const auto backend = make_cpu_backend();
  PhaseClock clock(*backend);
  const auto work = [] { std::this_thread::sleep_for(std::chrono::milliseconds(5)); };
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 2; ++i) {
    clock.enter(StepPhase::forward);
    work();
    clock.enter(std::nullopt);
    work();
    clock.enter(StepPhase::update);
    work();
    clock.leave();
    work();
  }
  const double whole = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const PhaseSeconds seconds = clock.take();
  EXPECT_GE(seconds[StepPhase::forward], 0.01);
  EXPECT_GE(seconds[StepPhase::update], 0.01);
  EXPECT_LE(seconds[StepPhase::forward] + seconds[StepPhase::update] + 0.02, whole);
  EXPECT_EQ(seconds[StepPhase::backward], 0);
  EXPECT_EQ(clock.take()[StepPhase::forward], 0) << "taken twice";
}

TEST(PhaseClock, KeepsSumsOfManyMarks) {
  const auto backend = make_cpu_backend();
  PhaseClock clock(*backend);
  for (int i = 0; i < 1000; ++i) {
    clock.enter(StepPhase::backward);
    if (i == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    clock.leave();
  }
  EXPECT_GE(clock.take()[StepPhase::backward], 0.005);
}

}  // namespace
}  // namespace ct
