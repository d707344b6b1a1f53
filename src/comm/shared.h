// Collectives of ranks that can read each other's memory: threads of one process and processes of one host alike.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/meeting.h"

namespace ct {

/// all_reduce: each rank sums one slice over all ranks' buffers, in tree order, straight into every rank's buffer.
/// What is left to derived classes is where memory comes from.
class SharedCommunicator : public Communicator {
 public:
  /// state: see Meeting; `keep` owns it.
  SharedCommunicator(std::shared_ptr<void> keep, MeetingState* state, int rank, int size)
      : keep_(std::move(keep)), meeting_(state, rank, size) {}

  int rank() const override { return meeting_.rank(); }
  int size() const override { return meeting_.size(); }
  std::byte* allocate(size_t bytes) override;
  std::unique_ptr<Collective> all_reduce(std::span<float> data) override;
  std::unique_ptr<Collective> reduce_scatter(std::span<float> data, ShardBounds bounds, TreeSum& mine,
                                             float* sum) override;
  std::unique_ptr<Collective> all_gather(std::span<float> data, ShardBounds bounds) override;
  void gather_all(std::span<const std::byte> mine, std::span<std::byte> all) override {
    meeting_.gather_all(mine, all);
  }
  void broadcast(std::span<std::byte> data, int root) override { meeting_.broadcast(data, root); }
  void barrier() override { meeting_.barrier(); }
  bool abort(int exit_code) noexcept override { return meeting_.abort(exit_code); }
  bool aborted() const noexcept override { return meeting_.aborted(); }
  void finish() override { meeting_.barrier(); }

 protected:
  /// Collective: where each rank's zeroed part of `bytes` lies in this rank's address space.
  virtual std::vector<std::byte*> share(size_t bytes) = 0;

  std::shared_ptr<void> keep_;
  Meeting meeting_;

 private:
  struct Segment {
    std::vector<std::byte*> parts;
    size_t bytes;
  };
  /// Collective: data's counterpart on every rank; checks that all ranks mean the same.
  std::vector<float*> counterparts(std::span<float> data);

  std::vector<Segment> segments_;
};

}  // namespace ct
