#include "comm/host/core_placement.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace ct {
namespace {

using namespace std::chrono_literals;

// The kernel brings ranks together again within milliseconds. With more ranks than cores they must meet: then it is
// looked for seldom.
constexpr auto kInterval = 2ms, kIntervalOfMany = 50ms;

bool allow(const std::bitset<kMaxCpus>& cpus) {
  std::array<cpu_set_t, kMaxCpus / CPU_SETSIZE> sets{};
  for (size_t i = 0; i < kMaxCpus; ++i)
    if (cpus[i]) CPU_SET_S(i, sizeof sets, sets.data());
  return sched_setaffinity(0, sizeof sets, sets.data()) == 0;
}

/// By the rule of next_move(), for things of which each CPU has one.
Move next_move_apart(std::span<const int> cpus, const std::bitset<kMaxCpus>& allowed,
                     const std::function<int(int)>& thing) {
  std::vector<int> taken;
  Move found;
  for (size_t rank = 0; rank < cpus.size(); ++rank) {
    const int its = thing(cpus[rank]);
    const bool shared = std::ranges::find(taken, its) != taken.end();
    if (shared && found.rank < 0) found.rank = static_cast<int>(rank);
    if (!shared) taken.push_back(its);
  }
  if (found.rank < 0) return {};
  for (int cpu = 0; cpu < kMaxCpus; ++cpu)
    if (allowed[static_cast<size_t>(cpu)] && std::ranges::find(taken, thing(cpu)) == taken.end())
      found.cpus.set(static_cast<size_t>(cpu));
  return found.cpus.any() ? found : Move{};
}

}  // namespace

int core_of(int cpu) {
  static std::array<std::atomic<int>, kMaxCpus> known;  // the answer + 1; 0: not asked yet
  cpu = std::clamp(cpu, 0, kMaxCpus - 1);
  std::atomic<int>& mine = known[static_cast<size_t>(cpu)];
  if (mine.load(std::memory_order_relaxed) == 0) {
    int first = cpu;  // where the file is not there
    std::ifstream("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list") >> first;
    mine.store(first + 1, std::memory_order_relaxed);  // of "3,67" or "6-7" the first
  }
  return mine.load(std::memory_order_relaxed) - 1;
}

Move next_move(std::span<const int> cpus, const std::bitset<kMaxCpus>& allowed, const std::function<int(int)>& core) {
  Move found = next_move_apart(cpus, allowed, core);
  return found.rank >= 0 ? found : next_move_apart(cpus, allowed, [](int cpu) { return cpu; });
}

bool CorePlacement::due() {
  const auto now = std::chrono::steady_clock::now();
  if (now < next_) return false;
  next_ = now + (fit_ ? kInterval : kIntervalOfMany);
  return true;
}

void CorePlacement::look(std::span<const int> cpus) {
  const std::bitset<kMaxCpus> allowed = allowed_cpus();
  const Move move = next_move(cpus, allowed, core_of);
  if (move.rank != rank_ || !allow(move.cpus)) return;
  std::this_thread::sleep_for(1us);                           // when it wakes, the kernel chooses an idle one of these
  if (!allow(allowed)) allow(std::bitset<kMaxCpus>().set());  // fewer have become allowed: all of those
}

}  // namespace ct
