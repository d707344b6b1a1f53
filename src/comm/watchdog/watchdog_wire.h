// How watchdogs hear of each other: through memory that the ranks share, or through connections of their own.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>

#include "comm/communicator.h"
#include "comm/watchdog/watchdog_rules.h"

namespace ct {

/// A watchdog's way to the others, for its thread alone, but for construction.
class WatchdogWire {
 public:
  static constexpr std::chrono::milliseconds kBeat{100};

  virtual ~WatchdogWire() = default;
  /// Beats, and listens until the time is over, a peer is lost, or the file descriptor `wake` is readable.
  virtual void exchange(std::chrono::milliseconds time) = 0;
  /// Signs of life by rank, as far as this one may judge: those that others judge are marked as ended.
  virtual std::span<const Signs> signs() const = 0;
  virtual RankPlace place(int rank) const = 0;
  /// The exit code of the job once it has failed.
  virtual std::optional<int> failure() const = 0;
  /// Notes the job's failure: true for the first in the whole job, whose error is the one to print.
  virtual bool claim(int exit_code) = 0;
  /// Makes this process's ranks leave their waits.
  virtual void release(int exit_code) = 0;
  /// The last words, in the orderly end and after a failure alike; returns when peers have heard them or had the time
  /// to.
  virtual void close() = 0;
  /// Are all ranks in this process?
  virtual bool in_process() const { return false; }
};

/// Ranks of one host: heartbeats lie on their board, the operating system tells of dead processes.
std::unique_ptr<WatchdogWire> make_shared_wire(std::shared_ptr<SharedBoard> board, int rank, int size, int wake);

/// Ranks anywhere: rank 0 holds a TCP connection (IPv4) to each of the others. Their heartbeats go to it at every beat,
/// and those of all come back. A connection that ends is a process that has; rank 0 decides who claims first, and when
/// it is lost itself, the lowest of the others speaks. Collective; throws the same Error(peer) on every rank if one of
/// them cannot reach rank 0.
std::unique_ptr<WatchdogWire> make_star_wire(Communicator& comm, int wake);

}  // namespace ct
