#include "metrics/step_line.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <vector>

namespace ct {
namespace {

// Expected texts are Python's.

TEST(StepLine, NumbersAsPythonHasThem) {
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

TEST(StepLine, Steps) {
  const std::vector<double> lr = {0.001}, two = {1e-5, 0.02};
  const std::vector<GroupMomentum> betas = {{0.8, 0.999}}, momenta = {{0.9, {}}, {0, {}}};
  EXPECT_EQ(step_line(0, 0, lr, betas), "step=0, skipped=0, lr=[0.001], mom=[[0.8, 0.999]]");
  EXPECT_EQ(step_line(4, 1, two, momenta), "step=4, skipped=1, lr=[1e-05, 0.02], mom=[0.9, 0.0]");
}

TEST(StepLine, Timers) {
  const std::array<std::pair<std::string_view, double>, 2> times{{{"fwd", 1.005}, {"bwd_allreduce", 0}}};
  EXPECT_EQ(timer_line(times), "time (ms) | fwd: 1.00 | bwd_allreduce: 0.00");
}

}  // namespace
}  // namespace ct
