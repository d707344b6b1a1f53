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
std::atomic<bool> installed{false};

void on_signal(int signal) {
  int none = 0;
  first_signal.compare_exchange_strong(none, signal);
  if ((signal == SIGTERM || signal == SIGINT) && terminations.fetch_add(1) >= 1) _exit(128 + signal);
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
  terminations = 0;
  installed = true;
  install_handlers();
}

int StopSignals::requested() { return first_signal; }

bool StopSignals::terminated() { return terminations > 0; }

void StopSignals::install_again() {
  if (installed) install_handlers();
}

void StopSignals::ignore_terminations() {
  for (const int signal : {SIGTERM, SIGINT}) std::signal(signal, SIG_IGN);
}

}  // namespace ct
