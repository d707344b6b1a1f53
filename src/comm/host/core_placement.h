// Keeps the ranks of one host on different cores, if there are enough, without binding them.
//
// The kernel puts threads that wait for each other on one core, and leaves them there while another program, even of
// low priority, keeps the other cores busy: each then computes half of the time. Therefore ranks publish the CPU on
// which they run, and a rank that shares its core with another moves to a core without ranks.
//
// If every CPU has a rank, another program of the same priority takes half of one CPU, and all other ranks wait for the
// rank there. Therefore a rank that waits long swaps CPUs with the rank that it waits for. That rank continues to
// compute, and the other program's next time slice falls into time in which the waiting rank is idle.
//
// Threads are not bound: the kernel can move them afterwards, so independent programs do not share a core.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <bitset>
#include <chrono>
#include <functional>
#include <optional>
#include <span>

#include "base/cores.h"

namespace ct {

/// The first logical CPU of `cpu`'s core, which is the same for all hardware threads of the core.
int core_of(int cpu);

struct Move {
  int rank = -1;               // none
  std::bitset<kMaxCpus> cpus;  // the target CPUs
};
/// The next move, from the CPUs on which all ranks run: the first rank that shares its core with an earlier one while
/// an allowed core has no rank; otherwise the first rank that shares its CPU while an allowed CPU has no rank. One rank
/// moves at a time; others may move after the next look().
Move next_move(std::span<const int> cpus, const std::bitset<kMaxCpus>& allowed, const std::function<int(int)>& core);

/// Two ranks may want to move one thread. The flag of its rank is set meanwhile, so that neither takes the other's
/// passing binding for the thread's own, and restores it for ever.
class Moving {
 public:
  explicit Moving(std::atomic<bool>& flag) : flag_(flag), begun_(!flag.exchange(true, std::memory_order_acquire)) {}
  ~Moving() {
    if (begun_) flag_.store(false, std::memory_order_release);
  }
  Moving(const Moving&) = delete;
  Moving& operator=(const Moving&) = delete;
  /// False: somebody else is moving the thread.
  bool begun() const { return begun_; }

 private:
  std::atomic<bool>& flag_;
  const bool begun_;
};

/// Binds the calling thread to CPUs for the lifetime of this object.
class KeptOn {
 public:
  /// moving: the flag of this thread's rank.
  KeptOn(std::atomic<bool>& moving, const std::bitset<kMaxCpus>& cpus);
  ~KeptOn();
  KeptOn(const KeptOn&) = delete;
  KeptOn& operator=(const KeptOn&) = delete;
  /// The kernel refused, or another rank is moving this thread; the binding did not change.
  bool refused() const { return refused_; }

 private:
  Moving moving_;
  std::bitset<kMaxCpus> before_;
  bool refused_;
};

/// The placement of one rank. Used by its computing thread.
class CorePlacement {
 public:
  /// fit: there are as many cores as ranks.
  CorePlacement(int rank, bool fit) : rank_(rank), fit_(fit) {}
  /// Is the next look() due? Each rank decides independently.
  bool due();
  /// cpus: the CPU of each rank at the last barrier; moving: this rank's flag. Moves this thread if next_move() selects
  /// this rank.
  void look(std::span<const int> cpus, std::atomic<bool>& moving);
  /// How long this rank waits for another, after it has computed for `computed`, before it calls held_up(). This avoids
  /// moves at every barrier if work is uneven.
  static std::chrono::nanoseconds patience(std::chrono::nanoseconds computed);
  /// Reports that a rank for which this one waits is late. Returns true if this was the case shortly before, too. A
  /// single delay causes no move: programs of low priority occasionally run for a time slice, and a move costs as much.
  bool held_up(std::chrono::nanoseconds computed);
  /// The computing thread of another rank, and that rank's flag.
  struct Peer {
    int rank;
    pid_t thread;
    std::atomic<bool>& moving;
  };
  /// `cpus` and `moving` as in look(), with this rank's current CPU. Moves the peer's thread to this CPU, and this
  /// thread to the peer's CPU for the lifetime of `kept`. Returns false and does nothing if a CPU has no rank (the
  /// kernel then uses it itself), if the CPUs are on different sockets (memory does not move), or if the ranks are
  /// bound or being moved.
  bool change_places(std::span<const int> cpus, const Peer& peer, std::atomic<bool>& moving,
                     std::optional<KeptOn>& kept) const;

 private:
  int rank_;
  bool fit_;
  std::chrono::steady_clock::time_point next_{}, held_up_{};
};

}  // namespace ct
