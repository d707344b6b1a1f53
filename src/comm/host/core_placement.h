// Ranks of one host, each on a core of its own where there are enough, without being bound to it.
//
// The kernel puts threads that wait for each other on one core, and leaves them there when another program keeps the
// other cores busy, however low its priority: each then computes half of the time. So ranks tell each other on which
// CPU they run, and one that shares its core with another moves to one that none of them uses. Nothing is pinned:
// afterwards the kernel may move the thread as before, and programs that know nothing of each other do not meet on one
// core.
#pragma once

#include <bitset>
#include <chrono>
#include <functional>
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

/// One rank's view. Used by the thread that computes.
class CorePlacement {
 public:
  /// fit: there are as many cores as ranks.
  CorePlacement(int rank, bool fit) : rank_(rank), fit_(fit) {}
  /// Is it time to look again? Each rank decides for itself.
  bool due();
  /// cpus: on which each rank was when it came to the last barrier. Moves this thread if it is its turn.
  void look(std::span<const int> cpus);

 private:
  int rank_;
  bool fit_;
  std::chrono::steady_clock::time_point next_{};
};

}  // namespace ct
