// Ranks of one host, each on a core of its own where there are enough, without being bound to it.
//
// The kernel puts threads that wait for each other on one core, and leaves them there when another program keeps the
// other cores busy, however low its priority: each then computes half of the time. So ranks tell each other on which
// CPU they run, and one that shares its core with another moves to one that none of them uses.
//
// Where every CPU has a rank, another program of the same priority takes half of one CPU, and all other ranks wait for
// the rank there. So a rank that waits for long changes places with the rank that it waits for: that one computes on,
// and the next turn of the other program falls into the time that the first one would have waited anyway.
//
// Nothing is pinned: afterwards the kernel may move the threads as before, and programs that know nothing of each other
// do not meet on one core.
#pragma once

#include <sys/types.h>

#include <bitset>
#include <chrono>
#include <functional>
#include <optional>
#include <span>

#include "base/cores.h"

namespace ct {

/// The first logical CPU of the core that `cpu` belongs to: hardware threads of one core have one answer.
int core_of(int cpu);

struct Move {
  int rank = -1;               // none
  std::bitset<kMaxCpus> cpus;  // where it should go
};
/// Who should move, by the CPUs on which all ranks run: the first rank that shares its core with an earlier one while
/// an allowed one has no rank; else the first that shares its CPU while an allowed one has none. One at a time: the
/// others' turn is at the next look.
Move next_move(std::span<const int> cpus, const std::bitset<kMaxCpus>& allowed, const std::function<int(int)>& core);

/// The calling thread stays on some CPUs while this lives.
class KeptOn {
 public:
  explicit KeptOn(const std::bitset<kMaxCpus>& cpus);
  ~KeptOn();
  KeptOn(const KeptOn&) = delete;
  KeptOn& operator=(const KeptOn&) = delete;
  /// The kernel has refused, and nothing has changed.
  bool refused() const { return refused_; }

 private:
  std::bitset<kMaxCpus> before_;
  bool refused_;
};

/// One rank's view. Used by the thread that computes.
class CorePlacement {
 public:
  /// fit: there are as many cores as ranks.
  CorePlacement(int rank, bool fit) : rank_(rank), fit_(fit) {}
  /// Is it time to look again? Each rank decides for itself.
  bool due();
  /// cpus: on which each rank was when it came to the last barrier. Moves this thread if it is its turn.
  void look(std::span<const int> cpus);
  /// How long this rank waits for another, after it has computed for so long, before it calls held_up(): ranks whose
  /// work is uneven need not move at every barrier.
  static std::chrono::nanoseconds patience(std::chrono::nanoseconds computed);
  /// A rank that this one waits for is late. True: it was so a moment ago, too. A single time is nothing to act on: a
  /// program of low priority takes a turn now and then, and a move costs as much.
  bool held_up(std::chrono::nanoseconds computed);
  /// `cpus` as in look(), with this rank's of now. Moves `thread`, with which `peer` computes, here, and this thread to
  /// the peer's CPU until `kept` goes. Does nothing where a CPU has no rank (the kernel finds it by itself), between
  /// sockets (memory stays where it is) and where somebody bound the ranks. True: done.
  bool change_places(std::span<const int> cpus, int peer, pid_t thread, std::optional<KeptOn>& kept) const;

 private:
  int rank_;
  bool fit_;
  std::chrono::steady_clock::time_point next_{}, held_up_{};
};

}  // namespace ct
