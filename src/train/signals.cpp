#include "train/signals.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>

namespace ct {
namespace {

constexpr std::array kSignals = {SIGUSR1, SIGUSR2, SIGXCPU, SIGTERM, SIGINT, SIGHUP};

// A signal handler can reach nothing but globals.
std::atomic<int> first_signal{0};
std::atomic<int> terminations{0};
std::array<struct sigaction, kSignals.size()> earlier;

void on_signal(int signal) {
  int none = 0;
  first_signal.compare_exchange_strong(none, signal);
  if ((signal == SIGTERM || signal == SIGINT) && terminations.fetch_add(1) >= 1) _exit(128 + signal);
}

}  // namespace

StopSignals::StopSignals() {
  first_signal = 0;
  terminations = 0;
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], &action, &earlier[i]);
    if (kSignals[i] == SIGHUP && earlier[i].sa_handler == SIG_IGN) sigaction(SIGHUP, &earlier[i], nullptr);  // nohup
  }
}

StopSignals::~StopSignals() {
  for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &earlier[i], nullptr);
}

int StopSignals::requested() { return first_signal; }

}  // namespace ct
