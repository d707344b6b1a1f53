// The communication between watchdogs: through memory that the ranks share, or through their own connections.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>

#include "comm/communicator.h"
#include "comm/watchdog/watchdog_rules.h"

namespace ct {

/// A watchdog's connection to the others. Only its thread uses it, except for construction.
class WatchdogWire {
 public:
  static constexpr std::chrono::milliseconds kBeat{100};

  virtual ~WatchdogWire() = default;
  /// Sends heartbeats and receives others', until the time is over, a rank is lost, or the file descriptor `wake` is
  /// readable.
  virtual void exchange(std::chrono::milliseconds time) = 0;
  /// The signs of life of the ranks that this watchdog judges, by rank; all others are marked as ended.
  virtual std::span<const Signs> signs() const = 0;
  virtual RankPlace place(int rank) const = 0;
  /// The exit code of the job once it has failed.
  virtual std::optional<int> failure() const = 0;
  /// Records the job's failure; returns true for the first in the whole job, whose error is printed.
  virtual bool claim(int exit_code) = 0;
  /// Makes this process's ranks leave their waits.
  virtual void release(int exit_code) = 0;
  /// Sends the last message, at a normal end and after a failure; returns when the other ranks have received it or had
  /// time to.
  virtual void close() = 0;
  /// Are all ranks in this process?
  virtual bool in_process() const { return false; }
};

/// Ranks of one host: heartbeats are on their board; the operating system reports dead processes.
std::unique_ptr<WatchdogWire> make_shared_wire(std::shared_ptr<SharedBoard> board, int rank, int size, int wake);

/// Ranks on any hosts: rank 0 has a TCP connection (IPv4) to each other rank. At every beat each rank sends its
/// heartbeat to rank 0 and receives those of all ranks. A closed connection means a dead process. Rank 0 decides which
/// claim is the first; if rank 0 itself is lost, the lowest other rank reports it. Collective. Throws the same
/// Error(peer) on every rank if one of them cannot reach rank 0.
std::unique_ptr<WatchdogWire> make_star_wire(Communicator& comm, int wake);

}  // namespace ct
