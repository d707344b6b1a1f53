#include "comm/host/core_placement.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace ct {
namespace {

using namespace std::chrono_literals;

// The kernel brings ranks together again within milliseconds. With more ranks than cores they must meet: then it is
// looked for seldom.
constexpr auto kInterval = 2ms, kIntervalOfMany = 50ms;

// Less is the unevenness of ranks and costs less than a move.
constexpr std::chrono::nanoseconds kPatience = 500us;
constexpr int kPatienceShare = 8;  // of the time since the last barrier
// As often as this, it is a program that takes its full share.
constexpr std::chrono::nanoseconds kAgain = 30ms;
constexpr int kAgainSteps = 4;  // or so many times the time since the last barrier

bool allow(pid_t thread, const std::bitset<kMaxCpus>& cpus) {
  std::array<cpu_set_t, kMaxCpus / CPU_SETSIZE> sets{};
  for (size_t i = 0; i < kMaxCpus; ++i)
    if (cpus[i]) CPU_SET_S(i, sizeof sets, sets.data());
  return sched_setaffinity(thread, sizeof sets, sets.data()) == 0;
}

void allow_again(pid_t thread, const std::bitset<kMaxCpus>& before) {
  if (!allow(thread, before)) allow(thread, std::bitset<kMaxCpus>().set());  // fewer have become allowed: all of those
}

/// What the kernel says of each CPU in one of its files, asked once: the number that the file begins with, of "3,67" or
/// "6-7" the first; the CPU itself where it says nothing.
class Topology {
 public:
  explicit Topology(const char* file) : file_(file) {}
  int of(int cpu) {
    cpu = std::clamp(cpu, 0, kMaxCpus - 1);
    std::atomic<int>& mine = known_[static_cast<size_t>(cpu)];
    if (mine.load(std::memory_order_relaxed) == 0) {
      int first = cpu;
      std::ifstream("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/" + file_) >> first;
      mine.store(first + 1, std::memory_order_relaxed);
    }
    return mine.load(std::memory_order_relaxed) - 1;
  }

 private:
  const char* file_;
  std::array<std::atomic<int>, kMaxCpus> known_{};  // the answer + 1; 0: not asked yet
};

int socket_of(size_t cpu) {
  static Topology sockets("physical_package_id");
  return sockets.of(static_cast<int>(cpu));
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
  static Topology cores("thread_siblings_list");
  return cores.of(cpu);
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

void CorePlacement::look(std::span<const int> cpus, std::atomic<bool>& moving) {
  const Move move = next_move(cpus, allowed_cpus(), core_of);
  if (move.rank != rank_) return;
  const KeptOn there(moving, move.cpus);
  if (!there.refused()) std::this_thread::sleep_for(1us);  // when it wakes, the kernel chooses an idle one of these
}

KeptOn::KeptOn(std::atomic<bool>& moving, const std::bitset<kMaxCpus>& cpus)
    : moving_(moving), before_(allowed_cpus()), refused_(!moving_.begun() || !allow(0, cpus)) {}
KeptOn::~KeptOn() {
  if (!refused_) allow_again(0, before_);
}

std::chrono::nanoseconds CorePlacement::patience(std::chrono::nanoseconds computed) {
  return std::max(kPatience, computed / kPatienceShare);
}

bool CorePlacement::held_up(std::chrono::nanoseconds computed) {
  const auto now = std::chrono::steady_clock::now();
  return now - std::exchange(held_up_, now) < std::max(kAgain, kAgainSteps * computed);
}

bool CorePlacement::change_places(std::span<const int> cpus, const Peer& peer, std::atomic<bool>& moving,
                                  std::optional<KeptOn>& kept) const {
  const auto here = static_cast<size_t>(cpus[static_cast<size_t>(rank_)]);
  const auto there = static_cast<size_t>(cpus[static_cast<size_t>(peer.rank)]);
  std::bitset<kMaxCpus> of_ranks;
  for (const int cpu : cpus) of_ranks.set(static_cast<size_t>(cpu));
  const Moving moves(peer.moving);
  if (!moves.begun()) return false;
  const std::bitset<kMaxCpus> mine = allowed_cpus(), its = cpus_of_thread(peer.thread);
  if (!fit_ || here == there || !mine[there] || !its[here] || (mine & ~of_ranks).any()) return false;
  if (socket_of(here) != socket_of(there)) return false;
  if (!allow(peer.thread, std::bitset<kMaxCpus>().set(here))) return false;
  allow_again(peer.thread, its);
  kept.emplace(moving, std::bitset<kMaxCpus>().set(there));
  return true;
}

}  // namespace ct
