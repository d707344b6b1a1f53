// A board in memory that all ranks share: barrier, abort flag and small messages.
//
// The board is initially a block of zeros in shared memory (threads: the heap; processes: a mapped file). Every word
// has one writer, except the abort word, the count of sleepers and `helped`. A barrier is one counter per rank: a rank
// increments its own and waits for the others.
#pragma once

#include <array>
#include <atomic>
#include <bitset>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/cores.h"
#include "base/peer_process.h"
#include "comm/host/core_placement.h"
#include "comm/watchdog/heartbeat.h"

namespace ct {

struct SharedBoard {
  static constexpr size_t kMessageBytes = 4096;
  static constexpr size_t kHostBytes = 64;

  struct alignas(64) Rank {
    std::atomic<uint64_t> arrived;   // barriers that this rank has reached
    std::atomic<uint32_t> sleepers;  // ranks that sleep until this rank reaches the next barrier
    std::atomic<uint32_t> left;      // 1: its communicator is destroyed
    std::atomic<int32_t> pid;
    char host[kHostBytes];
    std::array<std::atomic<uint64_t>, kMaxCpus / 64> cpus;  // its allowed CPUs
    // cpu, thread: where this rank was at its last barrier. moving: see core_placement.h. helped: number of the last
    // barrier before which a waiting rank gave its CPU to this one.
    std::atomic<int32_t> cpu, thread;
    std::atomic<bool> moving;
    std::atomic<uint64_t> helped;
    alignas(64) Heartbeat heartbeat;
    // Two messages, used in turn: the next one is written while a slow reader still reads the previous one.
    alignas(64) std::byte message[2][kMessageBytes];
  };
  alignas(64) std::atomic<int64_t> failure;  // 0: none; otherwise rank << 32 | exit code + 1

  static size_t bytes(int ranks) { return sizeof(SharedBoard) + static_cast<size_t>(ranks) * sizeof(Rank); }
  Rank* ranks() { return reinterpret_cast<Rank*>(this + 1); }
};

/// Records the job's failure; returns true for the first, see Communicator::abort.
bool abort_job(SharedBoard& board, int rank, int exit_code) noexcept;

/// One rank's view of a board. All ranks construct it together. Not thread-safe, except abort() and aborted().
class BoardView {
 public:
  /// board: SharedBoard::bytes(size) bytes, zero before the first rank uses them; must outlive this.
  BoardView(SharedBoard* board, int rank, int size);
  ~BoardView() { board_->ranks()[rank_].left.store(1, std::memory_order_release); }
  BoardView(const BoardView&) = delete;
  BoardView& operator=(const BoardView&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  SharedBoard& board() { return *board_; }
  Heartbeat& heartbeat() { return board_->ranks()[rank_].heartbeat; }
  void barrier();
  /// all: size() parts of mine.size() bytes, in rank order.
  void gather_all(std::span<const std::byte> mine, std::span<std::byte> all);
  void broadcast(std::span<std::byte> data, int root);
  bool abort(int exit_code) noexcept { return abort_job(*board_, rank_, exit_code); }
  bool aborted() const noexcept { return board_->failure.load(std::memory_order_relaxed) != 0; }

 private:
  void wait_for(int peer);
  /// Sleeps until `peer` arrives at a barrier, at most `longest`.
  void sleep_for(SharedBoard::Rank& peer, std::chrono::nanoseconds longest);
  /// The CPU of each rank at its last barrier.
  std::vector<int> cpus_of_ranks();
  /// Gives this rank's CPU to `peer`, for which this rank has waited long.
  void help(int peer, std::optional<KeptOn>& kept);
  /// Throws if the job has failed, or if a rank that has not arrived is gone.
  void probe();
  bool gone(int peer) const;
  bool arrived(int peer) const { return board_->ranks()[peer].arrived.load(std::memory_order_acquire) >= barriers_; }

  SharedBoard* board_;
  int rank_, size_;
  uint64_t barriers_ = 0, messages_ = 0;
  std::chrono::nanoseconds spin_{0};        // how long to spin before yielding the core
  std::optional<CorePlacement> placement_;  // none: this rank is alone
  std::chrono::steady_clock::time_point computes_since_{};
  std::vector<PeerProcess> peers_;  // none for ranks of this process
};

}  // namespace ct
