// Supervision: a thread beside each process of a job that beats, watches its peers, and ends the job when one is lost.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "comm/communicator.h"
#include "comm/watchdog/supervision.h"
#include "comm/watchdog/watchdog_wire.h"

namespace ct {

/// When a peer is lost (comm/watchdog/watchdog_rules.h), one watchdog of the job prints one line of error; then each
/// marks the job as failed, so that its rank leaves its waits with an Error, and ends the process with the exit code of
/// the failure after kGrace if stop() was not called by then. From that moment TERM and INT are ignored: the launcher
/// sends them to all as soon as one process is dead, and the reason must be told first.
class Watchdog {
 public:
  static constexpr std::chrono::milliseconds kGrace{400};
  enum class Wire : uint8_t { automatic, sockets };

  /// One for each process, made by all at the same time; ranks that are threads of one process share rank 0's,
  /// which may outlive comm. Throws Error(peer) where watchdogs cannot reach each other, the same on every rank.
  Watchdog(Communicator& comm, Supervision supervision, Wire wire = Wire::automatic);
  /// Calls stop().
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// Claims that this rank has failed with that code: true if it is the first in the job, so that its error is to be
  /// printed. To be called by the thread that calls stop(), before or after it. Where the failure is a lost peer, the
  /// watchdogs get the time to say it better.
  bool claim(int exit_code);
  /// The job's exit code once it has failed and this watchdog knows.
  std::optional<int> failure() const;
  /// The end of supervision. Where all is well, every rank has come so far (a barrier) before one calls it.
  void stop();

 private:
  void run();
  /// The job has failed: takes care that this process ends.
  void leave(int exit_code);
  void answer(bool granted);
  bool stopping() const;
  std::optional<int> asked() const;
  void wake() const;

  Supervision supervision_;
  int wake_;  // an eventfd
  std::unique_ptr<WatchdogWire> wire_;

  mutable std::mutex mutex_;
  std::condition_variable answered_;
  bool stopping_ = false;
  std::optional<int> asked_, failure_;
  std::optional<bool> answer_;
  std::thread thread_;  // after all that it uses
};

}  // namespace ct
