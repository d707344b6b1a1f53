// Collectives of ranks that can read each other's memory: threads of one process, or processes of one host.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/host/shared_board.h"
#include "comm/reduction/ownership.h"

namespace ct {

/// all_reduce: each rank sums one slice over all ranks' buffers, in tree order, and writes it directly into every
/// rank's buffer; this costs no more than any other order. The other collectives read directly from the other ranks'
/// memory. Derived classes provide the memory.
class SharedCommunicator : public Communicator {
 public:
  /// board: see BoardView; `keep` owns it.
  SharedCommunicator(std::shared_ptr<void> keep, SharedBoard* board, int rank, int size)
      : keep_(std::move(keep)), view_(board, rank, size) {}

  int rank() const override { return view_.rank(); }
  int size() const override { return view_.size(); }
  std::byte* allocate(size_t bytes) override;
  std::unique_ptr<Collective> all_reduce(std::span<float> data, SumOrder order) override;
  std::unique_ptr<Reduction> reduce_scatter(std::span<float> whole, float* shard, Ownership ranges, int64_t leaves,
                                            SumOrder order) override;
  std::unique_ptr<Collective> all_gather(std::span<std::byte> whole, std::span<std::byte> shard, Ownership ranges,
                                         TrafficKind kind) override;
  Traffic traffic(TrafficKind kind) const override { return traffic_[kind].read(); }
  bool overlaps() const override { return false; }  // the core itself moves the bytes
  size_t allocated_bytes() const override;
  void gather_all(std::span<const std::byte> mine, std::span<std::byte> all) override { view_.gather_all(mine, all); }
  void broadcast(std::span<std::byte> data, int root) override { view_.broadcast(data, root); }
  void barrier() override { view_.barrier(); }
  Heartbeat& heartbeat() override { return view_.heartbeat(); }
  bool abort(int exit_code) noexcept override { return view_.abort(exit_code); }
  bool aborted() const noexcept override { return view_.aborted(); }
  void finish() override { view_.barrier(); }
  std::shared_ptr<SharedBoard> board() override { return {keep_, &view_.board()}; }

 protected:
  /// Collective: the addresses, in this rank's address space, of each rank's zeroed part of `bytes`.
  virtual std::vector<std::byte*> share(size_t bytes) = 0;

  std::shared_ptr<void> keep_;
  BoardView view_;

 private:
  struct Segment {
    std::vector<std::byte*> parts;
    size_t bytes;
  };
  /// Collective: the start of each rank's memory that corresponds to `mine`; checks that all ranks pass the same
  /// buffer.
  std::vector<std::byte*> counterparts(std::span<std::byte> mine);

  std::vector<Segment> segments_;
  TrafficCounters traffic_;
};

}  // namespace ct
