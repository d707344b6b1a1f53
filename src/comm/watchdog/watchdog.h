// Supervision: in each process of a job a thread sends heartbeats, monitors the other ranks, and ends the job when one
// is lost.
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

/// When a rank is lost (comm/watchdog/watchdog_rules.h), one watchdog of the job prints one error line. Then each
/// watchdog marks the job as failed, so that its rank leaves its waits with an Error, and ends the process with the
/// exit code of the failure if stop() is not called within kGrace. From that moment TERM and INT are ignored, because
/// the launcher sends them to all processes as soon as one is dead, and the reason must be printed first.
class Watchdog {
 public:
  static constexpr std::chrono::milliseconds kGrace{400};
  enum class Wire : uint8_t { automatic, sockets };

  /// One for each process, constructed by all processes together; ranks that are threads of one process share rank 0's.
  /// It may outlive comm. Throws the same Error(peer) on every rank if watchdogs cannot reach each other.
  Watchdog(Communicator& comm, Supervision supervision, Wire wire = Wire::automatic);
  /// Calls stop().
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// Claims that this rank has failed with that code. Returns true if it is the first in the job; the caller then
  /// prints the error. Must be called by the thread that calls stop(), before or after stop(). If the failure is a lost
  /// rank, the call waits so that a watchdog can report it more precisely.
  bool claim(int exit_code);
  /// The job's exit code, once the job has failed and this watchdog knows it.
  std::optional<int> failure() const;
  /// Ends supervision. At a normal end, all ranks pass a barrier before any of them calls it.
  void stop();

 private:
  void run();
  /// The job has failed: ensures that this process ends.
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
  std::thread thread_;  // declared after all members that it uses
};

}  // namespace ct
