#include "train/signals.h"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <thread>

namespace ct {
namespace {

constexpr int kAll[] = {SIGUSR1, SIGUSR2, SIGXCPU, SIGTERM, SIGINT, SIGHUP};

/// The handlers stay until the process ends, so the tests put back what they found.
class StopSignalsTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const int signal : kAll) {
      sigaction(signal, nullptr, &before_[signal]);
      std::signal(signal, SIG_DFL);  // whoever started this may ignore some
    }
  }
  void TearDown() override {
    StopSignals::install();  // forgets what was asked for
    for (const int signal : kAll) sigaction(signal, &before_[signal], nullptr);
  }
  struct sigaction before_[65];
};

TEST_F(StopSignalsTest, TheFirstSignalIsRemembered) {
  for (const int signal : kAll) {
    StopSignals::install();
    EXPECT_EQ(StopSignals::requested(), 0);
    EXPECT_FALSE(StopSignals::terminated());
    std::raise(signal);
    EXPECT_EQ(StopSignals::requested(), signal);
    EXPECT_EQ(StopSignals::terminated(), signal == SIGTERM || signal == SIGINT);
    std::raise(SIGUSR1);
    EXPECT_EQ(StopSignals::requested(), signal);
  }
}

TEST_F(StopSignalsTest, RepeatedWarningsChangeNothing) {
  StopSignals::install();
  for (int i = 0; i < 3; ++i) {
    for (const int signal : {SIGUSR1, SIGUSR2, SIGXCPU}) std::raise(signal);
  }
  EXPECT_EQ(StopSignals::requested(), SIGUSR1);
}

TEST_F(StopSignalsTest, WhatTheParentIgnoresOfATerminalStaysIgnored) {
  for (const int signal : {SIGHUP, SIGINT}) {
    std::signal(signal, SIG_IGN);
    StopSignals::install();
    StopSignals::install_again();
    std::raise(signal);
    EXPECT_EQ(StopSignals::requested(), 0);
  }
  std::signal(SIGTERM, SIG_IGN);
  StopSignals::install();
  std::raise(SIGTERM);
  EXPECT_EQ(StopSignals::requested(), SIGTERM);
}

TEST_F(StopSignalsTest, HandlersThatALibraryReplacedComeBack) {
  static volatile std::sig_atomic_t elsewhere = 0;
  const auto library = [](int) { elsewhere = elsewhere + 1; };
  StopSignals::install();
  std::raise(SIGUSR2);
  std::signal(SIGTERM, library);
  StopSignals::install_again();
  std::raise(SIGTERM);
  EXPECT_EQ(elsewhere, 0);
  EXPECT_TRUE(StopSignals::terminated());
  EXPECT_EQ(StopSignals::requested(), SIGUSR2) << "what came before MPI counts";
}

TEST_F(StopSignalsTest, TerminationsCanBeIgnored) {
  StopSignals::install();
  std::raise(SIGTERM);
  StopSignals::ignore_terminations();
  std::raise(SIGTERM);
  std::raise(SIGINT);
  EXPECT_EQ(StopSignals::requested(), SIGTERM);
}

TEST_F(StopSignalsTest, TwoTerminationsAtOnceAreOneRequest) {
  StopSignals::install();
  std::raise(SIGTERM);
  std::raise(SIGTERM);
  EXPECT_EQ(StopSignals::requested(), SIGTERM);
}

TEST(StopSignalsDeathTest, ALaterSecondTermOrInterruptEndsAtOnce) {
  const auto raise_both = [](int first, int second) {
    StopSignals::install();
    std::raise(SIGUSR2);  // a scheduler's warning does not count
    std::raise(first);
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    std::raise(second);
  };
  EXPECT_EXIT(raise_both(SIGTERM, SIGTERM), testing::ExitedWithCode(128 + SIGTERM), "");
  EXPECT_EXIT(raise_both(SIGTERM, SIGINT), testing::ExitedWithCode(128 + SIGINT), "");
}

}  // namespace
}  // namespace ct
