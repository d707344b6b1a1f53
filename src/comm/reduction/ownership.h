// The common parts of collectives over ranges, for every transport.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <vector>

#include "comm/communicator.h"
#include "comm/reduction/tree_sum.h"

namespace ct {

int64_t elements_of(const std::vector<ShardRange>& ranges);
int64_t bytes_of(const std::vector<ShardRange>& ranges);

/// Returns the same ownership: each rank's ranges are sorted by `whole`, adjacent ones joined, and empty ones removed.
/// Checks that each rank has a list, that ranges are inside `whole` and do not overlap, and, if `in_place` (the shard
/// is `whole` itself), that both have each range at the same offset.
Ownership tidy(Ownership ranges, int ranks, size_t whole_bytes, bool in_place);

/// Checks that every rank's ranges are inside its shard.
void check_inside(const Ownership& ranges, size_t shard_bytes);

/// Equal, contiguous slices of `numel` floats, for a buffer that is both shard and whole.
Ownership even_slices(int ranks, int64_t numel);

/// The sums of the f32 ranges that one rank owns.
class PieceSums {
 public:
  /// Returns the leaf of `rank` for this range, which begins at element `packed` of the rank's concatenated ranges.
  using FindLeaf = std::function<const float*(int rank, const ShardRange& range, int64_t packed)>;

  PieceSums(const std::vector<ShardRange>& ranges, float* shard, int ranks, int64_t leaves, SumOrder order);
  void push(const FindLeaf& leaf) { add(leaf, false); }
  void finish(const FindLeaf& leaf) { add(leaf, true); }
  size_t bytes() const;

 private:
  struct Sum {
    ShardRange range;
    int64_t packed;
    float* out;
    TreeSum tree;
    std::vector<float> partial;  // SumOrder::any: the sum so far
  };
  void add(const FindLeaf& leaf, bool last);

  std::vector<Sum> sums_;
  std::vector<const float*> leaves_;  // of one range, by rank
  SumOrder order_;
  bool begun_ = false;
};

/// Counters of traffic by kind. The launching thread counts; any thread may read.
class TrafficCounters {
 public:
  class Counter {
   public:
    void add(const Traffic& more) {
      elements_.fetch_add(more.elements, std::memory_order_relaxed);
      bytes_.fetch_add(more.bytes, std::memory_order_relaxed);
    }
    Traffic read() const { return {elements_.load(std::memory_order_relaxed), bytes_.load(std::memory_order_relaxed)}; }

   private:
    std::atomic<int64_t> elements_{0}, bytes_{0};
  };
  Counter& operator[](TrafficKind kind) { return counters_[static_cast<size_t>(kind)]; }
  const Counter& operator[](TrafficKind kind) const { return counters_[static_cast<size_t>(kind)]; }

 private:
  std::array<Counter, 2> counters_;
};

/// The traffic that `rank` counts for one launch, on every transport.
Traffic traffic_of_all_reduce(const Ownership& slices, int rank);
Traffic traffic_of_reduce_scatter(const Ownership& ranges, int rank);
Traffic traffic_of_all_gather(const Ownership& ranges, int rank);

}  // namespace ct
