#include "train/signals.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <ctime>

namespace ct {
namespace {

constexpr std::array kSignals = {SIGUSR1, SIGUSR2, SIGXCPU, SIGTERM, SIGINT, SIGHUP};

// A signal handler can reach nothing but globals.
std::atomic<int> first_signal{0};
std::atomic<int64_t> terminated_at{0};  // ns, of the first TERM or INT; 0: none
std::atomic<bool> installed{false};

/// One request may come twice: coreutils' `timeout` signals its command, and then the command's group.
constexpr int64_t kSameRequest = 200'000'000;  // ns

void on_signal(int signal) {
  int none = 0;
  first_signal.compare_exchange_strong(none, signal);
  if (signal != SIGTERM && signal != SIGINT) return;
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  const int64_t now = int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
  int64_t first = 0;
  if (!terminated_at.compare_exchange_strong(first, now) && now - first > kSameRequest) _exit(128 + signal);
}

void install_handlers() {
  struct sigaction action {
  }, before{};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (const int signal : kSignals) {
    sigaction(signal, nullptr, &before);
    // nohup, trap '' INT, a script's &: what the terminal sends is not meant for this process.
    const bool not_meant = (signal == SIGHUP || signal == SIGINT) && before.sa_handler == SIG_IGN;
    if (!not_meant) sigaction(signal, &action, nullptr);
  }
}

}  // namespace

void StopSignals::install() {
  first_signal = 0;
  terminated_at = 0;
  installed = true;
  install_handlers();
}

int StopSignals::requested() { return first_signal; }

bool StopSignals::terminated() { return terminated_at != 0; }

void StopSignals::install_again() {
  if (installed) install_handlers();
}

void StopSignals::ignore_terminations() {
  for (const int signal : {SIGTERM, SIGINT}) std::signal(signal, SIG_IGN);
}

}  // namespace ct
