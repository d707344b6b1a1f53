#include "comm/watchdog/watchdog.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.h"

namespace ct {
namespace {

using Clock = std::chrono::steady_clock;

double seconds() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

/// Prints without stdio, whose locks the main thread may hold for ever, unless nobody reads.
void print_error(const std::string& message) {
  constexpr int kPatience = 2000;  // ms
  const std::string line = str("error: ", message, '\n');
  for (size_t at = 0; at < line.size();) {
    pollfd room{STDERR_FILENO, POLLOUT, 0};
    if (poll(&room, 1, kPatience) == 0) return;
    const ssize_t written = write(STDERR_FILENO, line.data() + at, line.size() - at);
    if (written < 0) return;
    at += static_cast<size_t>(written);
  }
}

std::unique_ptr<WatchdogWire> make_wire(Communicator& comm, int wake, Watchdog::Wire wire) {
  std::shared_ptr<SharedBoard> board = comm.board();
  if (board == nullptr || wire == Watchdog::Wire::sockets) return make_star_wire(comm, wake);
  return make_shared_wire(std::move(board), comm.rank(), comm.size(), wake);
}

}  // namespace

Watchdog::Watchdog(Communicator& comm, Supervision supervision, Wire wire)
    : supervision_(supervision), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), wire_(make_wire(comm, wake_, wire)) {
  sigset_t all, before;  // signals are for the main thread
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread(&Watchdog::run, this);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Watchdog::~Watchdog() {
  stop();
  close(wake_);
}

void Watchdog::run() {
  pthread_setname_np(pthread_self(), "watchdog");
  WatchdogRules rules(static_cast<int>(wire_->signs().size()), supervision_, seconds());
  std::optional<double> asked_at;
  while (!stopping()) {
    wire_->exchange(WatchdogWire::kBeat);
    uint64_t woken = 0;
    [[maybe_unused]] const ssize_t drained = ::read(wake_, &woken, sizeof woken);
    const double now = seconds();

    // A rank that fails as a thread of this process is the business of those who run the threads.
    if (const auto failure = wire_->failure(); failure && !wire_->in_process()) return leave(*failure);
    if (const auto finding = rules.look(now, wire_->signs())) {
      constexpr int code = static_cast<int>(ExitCode::peer);
      if (wire_->claim(code) || wire_->in_process()) {
        const auto rank = static_cast<size_t>(finding->rank);
        print_error(text_of(*finding, wire_->signs()[rank], wire_->place(finding->rank)));
      }
      return leave(code);
    }
    if (const auto code = asked()) {
      if (!asked_at) asked_at = now;
      const bool may_be_found = *code == static_cast<int>(ExitCode::peer) && now - *asked_at < 0.5;
      if (!may_be_found) {
        const bool granted = wire_->claim(*code);
        answer(granted);
        while (!stopping()) wire_->exchange(WatchdogWire::kBeat);  // it prints, and peers hear of it
      }
    }
  }
  wire_->close();
}

void Watchdog::leave(int exit_code) {
  signal(SIGTERM, SIG_IGN);
  signal(SIGINT, SIG_IGN);
  {
    std::lock_guard lock(mutex_);
    failure_ = exit_code;
  }
  wire_->release(exit_code);
  answer(false);
  for (const auto end = Clock::now() + kGrace; !stopping() && Clock::now() < end;) {
    wire_->exchange(std::chrono::milliseconds(20));
  }
  wire_->close();
  if (!stopping()) _exit(exit_code);
}

bool Watchdog::claim(int exit_code) {
  if (!thread_.joinable()) return wire_->claim(exit_code);
  std::unique_lock lock(mutex_);
  asked_ = exit_code;
  wake();
  answered_.wait(lock, [&] { return answer_.has_value(); });
  return *answer_;
}

void Watchdog::answer(bool granted) {
  std::lock_guard lock(mutex_);
  if (!answer_) answer_ = granted;
  answered_.notify_all();
}

std::optional<int> Watchdog::failure() const {
  std::lock_guard lock(mutex_);
  return failure_;
}

std::optional<int> Watchdog::asked() const {
  std::lock_guard lock(mutex_);
  return asked_;
}

bool Watchdog::stopping() const {
  std::lock_guard lock(mutex_);
  return stopping_;
}

void Watchdog::wake() const { eventfd_write(wake_, 1); }

void Watchdog::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake();
  if (thread_.joinable()) thread_.join();
}

}  // namespace ct
