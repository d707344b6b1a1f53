#include "metrics/deepspeed_lines.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <ctime>
#include <limits>

namespace ct {
namespace {

// Expected texts are Python's.

TEST(DeepSpeedLines, NumbersAsPythonHasThem) {
  const std::pair<double, const char*> cases[] = {{0, "0.0"},
                                                  {1, "1.0"},
                                                  {0.001, "0.001"},
                                                  {0.0001, "0.0001"},
                                                  {1e-5, "1e-05"},
                                                  {3e-7, "3e-07"},
                                                  {1.25e-100, "1.25e-100"},
                                                  {65536, "65536.0"},
                                                  {4294967296, "4294967296.0"},
                                                  {1e15, "1000000000000000.0"},
                                                  {1e16, "1e+16"},
                                                  {0.00099982282328117, "0.00099982282328117"},
                                                  {1292.6400000000001, "1292.64"},
                                                  {-2.5, "-2.5"},
                                                  {std::numeric_limits<double>::quiet_NaN(), "nan"},
                                                  {-std::numeric_limits<double>::infinity(), "-inf"}};
  for (const auto& [value, text] : cases) EXPECT_EQ(python_number(value), text);
}

TEST(DeepSpeedLines, Steps) {
  const std::vector<double> lr = {0.001}, two = {1e-5, 0.02};
  const std::vector<GroupMomentum> betas = {{0.8, 0.999}}, momenta = {{0.9, {}}, {0, {}}};
  EXPECT_EQ(step_line(0, 0, lr, betas), "step=0, skipped=0, lr=[0.001], mom=[[0.8, 0.999]]");
  EXPECT_EQ(step_line(30, 19, lr, betas, Pairs::tuples), "step=30, skipped=19, lr=[0.001], mom=[(0.8, 0.999)]");
  EXPECT_EQ(step_line(4, 1, two, momenta), "step=4, skipped=1, lr=[1e-05, 0.02], mom=[0.9, 0.0]");
  EXPECT_EQ(step_line(4, 1, two, momenta, Pairs::tuples), "step=4, skipped=1, lr=[1e-05, 0.02], mom=[0.9, 0]");
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

TEST(DeepSpeedLines, Timers) {
  const std::array<std::pair<std::string_view, double>, 2> times{{{"fwd", 1.005}, {"bwd_allreduce", 0}}};
  EXPECT_EQ(timer_line(times), "time (ms) | fwd: 1.00 | bwd_allreduce: 0.00");
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
