#include "comm/host/shared_board.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bit>
#include <climits>
#include <cstring>

#include "base/error.h"

namespace ct {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr Clock::duration kSpin = 60us, kYield = 2ms, kLongestSleep = 20ms, kProbeInterval = 100ms;

/// Of the lower half of `word`, which the kernel knows by its place in memory, whichever process looks at it.
void futex(std::atomic<uint64_t>& word, int operation, uint32_t value, const timespec* timeout) {
  static_assert(sizeof word == sizeof(uint64_t) && std::endian::native == std::endian::little);
  syscall(SYS_futex, &word, operation, value, timeout, nullptr, 0);
}

void pause_core() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

BoardView::BoardView(SharedBoard* board, int rank, int size) : board_(board), rank_(rank), size_(size) {
  SharedBoard::Rank& mine = board_->ranks()[rank_];
  const std::bitset<kMaxCpus> cpus = allowed_cpus();
  for (size_t cpu = 0; cpu < kMaxCpus; ++cpu) {
    if (cpus[cpu]) mine.cpus[cpu / 64].fetch_or(uint64_t{1} << (cpu % 64), std::memory_order_relaxed);
  }
  gethostname(mine.host, sizeof mine.host - 1);
  mine.pid.store(getpid(), std::memory_order_release);
  peers_.resize(static_cast<size_t>(size_));
  barrier();

  // mpirun may bind each rank to a core of its own: only together do they tell how many cores the ranks share.
  std::bitset<kMaxCpus> all;
  for (int r = 0; r < size_; ++r) {
    SharedBoard::Rank& peer = board_->ranks()[r];
    for (size_t cpu = 0; cpu < kMaxCpus; ++cpu) {
      if (peer.cpus[cpu / 64].load(std::memory_order_relaxed) >> (cpu % 64) & 1) all.set(cpu);
    }
    const pid_t pid = peer.pid.load(std::memory_order_acquire);
    if (pid != getpid()) peers_[static_cast<size_t>(r)] = PeerProcess(pid);
  }
  const bool fit = size_ <= available_cores(all, cpu_quota());
  if (fit) spin_ = kSpin;
  if (size_ > 1) placement_.emplace(rank_, fit);
}

void BoardView::barrier() {
  ++barriers_;
  Heartbeat& mine = heartbeat();
  mine.collectives.store(barriers_, std::memory_order_relaxed);
  mine.waiting.store(1, std::memory_order_relaxed);
  SharedBoard::Rank& me = board_->ranks()[rank_];
  thread_local const pid_t thread = gettid();
  me.thread.store(thread, std::memory_order_relaxed);
  me.cpu.store(sched_getcpu(), std::memory_order_relaxed);
  me.arrived.store(barriers_, std::memory_order_seq_cst);
  if (me.sleepers.load(std::memory_order_seq_cst) != 0) futex(me.arrived, FUTEX_WAKE, INT_MAX, nullptr);
  for (int r = 0; r < size_; ++r) {
    if (!arrived(r)) wait_for(r);
  }
  mine.waiting.store(0, std::memory_order_relaxed);
  if (placement_ && placement_->due()) placement_->look(cpus_of_ranks(), me.moving);
  computes_since_ = Clock::now();
}

std::vector<int> BoardView::cpus_of_ranks() {
  std::vector<int> cpus;
  for (int r = 0; r < size_; ++r) cpus.push_back(board_->ranks()[r].cpu.load(std::memory_order_relaxed));
  return cpus;
}

void BoardView::help(int peer, std::optional<KeptOn>& kept) {
  SharedBoard::Rank& other = board_->ranks()[peer];
  uint64_t last = other.helped.load(std::memory_order_relaxed);
  if (last >= barriers_ || !other.helped.compare_exchange_strong(last, barriers_)) return;  // one helper is enough
  SharedBoard::Rank& me = board_->ranks()[rank_];
  me.cpu.store(sched_getcpu(), std::memory_order_relaxed);
  if (placement_->change_places(cpus_of_ranks(), {peer, other.thread.load(std::memory_order_relaxed), other.moving},
                                me.moving, kept))
    me.cpu.store(sched_getcpu(), std::memory_order_relaxed);
}

void BoardView::wait_for(int peer) {
  const auto begin = Clock::now();
  auto next_probe = begin + kProbeInterval;
  const auto computed = begin - computes_since_;
  auto helps = placement_ ? begin + CorePlacement::patience(computed) : Clock::time_point::max();
  std::optional<KeptOn> kept;
  while (!arrived(peer)) {
    if (aborted()) probe();
    const auto now = Clock::now();
    if (now - begin < spin_) {
      for (int i = 0; i < 8 && !arrived(peer); ++i) pause_core();
    } else if (spin_ == spin_.zero() && now - begin < kYield) {  // whom it waits for may want this core
      sched_yield();
    } else if (now >= helps) {
      if (placement_->held_up(computed)) help(peer, kept);
      helps = Clock::time_point::max();
    } else {
      sleep_for(board_->ranks()[peer], std::min<Clock::duration>(helps - now, kLongestSleep));
    }
    if (now >= next_probe) {
      probe();
      next_probe = now + kProbeInterval;
    }
  }
}

void BoardView::sleep_for(SharedBoard::Rank& peer, std::chrono::nanoseconds longest) {
  // The peer looks for sleepers after it has arrived, and a sleeper for the peer's arrival after it is counted.
  peer.sleepers.fetch_add(1, std::memory_order_seq_cst);
  const uint64_t now = peer.arrived.load(std::memory_order_seq_cst);
  const timespec timeout{.tv_sec = 0, .tv_nsec = longest.count()};
  if (now < barriers_) futex(peer.arrived, FUTEX_WAIT, static_cast<uint32_t>(now), &timeout);
  peer.sleepers.fetch_sub(1, std::memory_order_relaxed);
}

bool BoardView::gone(int peer) const {
  return board_->ranks()[peer].left.load(std::memory_order_acquire) != 0 || peers_[static_cast<size_t>(peer)].dead();
}

void BoardView::probe() {
  if (const int64_t failure = board_->failure.load(std::memory_order_acquire); failure != 0) {
    fail(static_cast<ExitCode>((failure & 0xffffffff) - 1), "rank ", failure >> 32, " failed");
  }
  // Of all that are missing, not of this one alone: rank 0 may wait for rank 1, which waits for a dead rank 2.
  for (int r = 0; r < size_; ++r) {
    // It may have arrived just before it left: then it was not missing.
    if (arrived(r) || !gone(r) || arrived(r)) continue;
    const SharedBoard::Rank& who = board_->ranks()[r];
    const pid_t pid = who.pid.load(std::memory_order_acquire);
    if (pid == getpid()) fail(ExitCode::peer, "rank ", r, " left while others waited for it");
    fail(ExitCode::peer, "rank ", r, " (pid ", pid, ", host ", who.host, ") was lost");
  }
}

void BoardView::gather_all(std::span<const std::byte> mine, std::span<std::byte> all) {
  check(all.size() == mine.size() * static_cast<size_t>(size_), "gather_all of ", mine.size(), " bytes into ",
        all.size());
  for (size_t at = 0; at < mine.size(); at += SharedBoard::kMessageBytes) {
    const size_t bytes = std::min(SharedBoard::kMessageBytes, mine.size() - at);
    const size_t turn = messages_++ % 2;
    std::memcpy(board_->ranks()[rank_].message[turn], mine.data() + at, bytes);
    barrier();
    for (int r = 0; r < size_; ++r) {
      std::memcpy(all.data() + static_cast<size_t>(r) * mine.size() + at, board_->ranks()[r].message[turn], bytes);
    }
  }
}

void BoardView::broadcast(std::span<std::byte> data, int root) {
  for (size_t at = 0; at < data.size(); at += SharedBoard::kMessageBytes) {
    const size_t bytes = std::min(SharedBoard::kMessageBytes, data.size() - at);
    const size_t turn = messages_++ % 2;
    if (rank_ == root) std::memcpy(board_->ranks()[root].message[turn], data.data() + at, bytes);
    barrier();
    if (rank_ != root) std::memcpy(data.data() + at, board_->ranks()[root].message[turn], bytes);
  }
}

bool abort_job(SharedBoard& board, int rank, int exit_code) noexcept {
  int64_t none = 0;
  return board.failure.compare_exchange_strong(none, int64_t{rank} << 32 | (int64_t{exit_code} + 1));
}

}  // namespace ct
