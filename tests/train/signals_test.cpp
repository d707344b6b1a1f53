#include "train/signals.h"

#include <gtest/gtest.h>

#include <csignal>

namespace ct {
namespace {

TEST(StopSignals, TheFirstSignalIsRemembered) {
  for (const int signal : {SIGUSR1, SIGUSR2, SIGXCPU, SIGTERM, SIGINT, SIGHUP}) {
    const StopSignals signals;
    EXPECT_EQ(StopSignals::requested(), 0);
    std::raise(signal);
    EXPECT_EQ(StopSignals::requested(), signal);
    std::raise(SIGUSR1);
    EXPECT_EQ(StopSignals::requested(), signal);
  }
}

TEST(StopSignals, EarlierHandlersReturn) {
  static volatile std::sig_atomic_t reached = 0;
  const auto before = std::signal(SIGUSR1, [](int) { reached = 1; });
  { const StopSignals signals; }
  std::raise(SIGUSR1);
  EXPECT_EQ(reached, 1);
  std::signal(SIGUSR1, before);
}

TEST(StopSignalsDeathTest, ASecondTermOrInterruptEndsAtOnce) {
  const auto raise_both = [](int first, int second) {
    const StopSignals signals;
    std::raise(SIGUSR2);  // a scheduler's warning does not count
    std::raise(first);
    std::raise(second);
  };
  EXPECT_EXIT(raise_both(SIGTERM, SIGTERM), testing::ExitedWithCode(128 + SIGTERM), "");
  EXPECT_EXIT(raise_both(SIGTERM, SIGINT), testing::ExitedWithCode(128 + SIGINT), "");
}

}  // namespace
}  // namespace ct
