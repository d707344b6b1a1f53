#include <poll.h>
#include <unistd.h>

#include <vector>

#include "base/peer_process.h"
#include "comm/host/shared_board.h"
#include "comm/watchdog/watchdog_wire.h"

namespace ct {
namespace {

class SharedWire : public WatchdogWire {
 public:
  SharedWire(std::shared_ptr<SharedBoard> board, int rank, int size, int wake)
      : owner_(std::move(board)),
        board_(*owner_),
        rank_(rank),
        size_(size),
        peers_(static_cast<size_t>(size)),
        signs_(static_cast<size_t>(size)) {
    events_.push_back({wake, POLLIN, 0});
    for (int r = 0; r < size; ++r) {
      const pid_t pid = board_.ranks()[r].pid.load(std::memory_order_acquire);
      if (pid == getpid()) continue;
      in_process_ = false;
      peers_[static_cast<size_t>(r)] = PeerProcess(pid);
      events_.push_back({peers_[static_cast<size_t>(r)].fd(), POLLIN, 0});
    }
  }

  void exchange(std::chrono::milliseconds time) override {
    const pid_t here = getpid();
    for (int r = 0; r < size_; ++r) {
      if (board_.ranks()[r].pid.load(std::memory_order_relaxed) == here)
        board_.ranks()[r].heartbeat.beats.fetch_add(1, std::memory_order_relaxed);
    }
    poll(events_.data(), events_.size(), static_cast<int>(time.count()));
    for (pollfd& event : events_) {
      if (&event != events_.data() && event.revents != 0) event.fd = -1;  // heard once, it would wake us for ever
    }
    for (int r = 0; r < size_; ++r) {
      const auto i = static_cast<size_t>(r);
      // Death first: what the dead said last is then complete.
      const bool dead = peers_[i].dead();
      signs_[i] = signs_of(board_.ranks()[r].heartbeat);
      signs_[i].gone = dead;
    }
  }

  std::span<const Signs> signs() const override { return signs_; }
  RankPlace place(int rank) const override { return {board_.ranks()[rank].pid, board_.ranks()[rank].host}; }

  std::optional<int> failure() const override {
    const int64_t failure = board_.failure.load(std::memory_order_acquire);
    if (failure == 0) return std::nullopt;
    return static_cast<int>(failure & 0xffffffff) - 1;
  }
  bool claim(int exit_code) override { return abort_job(board_, rank_, exit_code); }
  void release(int exit_code) override { claim(exit_code); }
  void close() override {
    if (!in_process_) board_.ranks()[rank_].heartbeat.ended.store(1, std::memory_order_release);
  }
  bool in_process() const override { return in_process_; }

 private:
  std::shared_ptr<SharedBoard> owner_;
  SharedBoard& board_;
  int rank_, size_;
  bool in_process_ = true;
  std::vector<PeerProcess> peers_;
  std::vector<pollfd> events_;
  std::vector<Signs> signs_;
};

}  // namespace

std::unique_ptr<WatchdogWire> make_shared_wire(std::shared_ptr<SharedBoard> board, int rank, int size, int wake) {
  return std::make_unique<SharedWire>(std::move(board), rank, size, wake);
}

}  // namespace ct
