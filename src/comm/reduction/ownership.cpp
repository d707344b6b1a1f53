#include "comm/reduction/ownership.h"

#include <algorithm>

#include "base/error.h"

namespace ct {

int64_t elements_of(const std::vector<ShardRange>& ranges) {
  int64_t elements = 0;
  for (const ShardRange& range : ranges) elements += range.elements;
  return elements;
}

int64_t bytes_of(const std::vector<ShardRange>& ranges) {
  int64_t bytes = 0;
  for (const ShardRange& range : ranges) bytes += range.bytes();
  return bytes;
}

Ownership tidy(Ownership ranges, int ranks, size_t whole_bytes, bool in_place) {
  check(ranges.size() == static_cast<size_t>(ranks), "ranges of ", ranges.size(), " ranks, not of ", ranks);
  std::vector<ShardRange> all;
  for (std::vector<ShardRange>& own : ranges) {
    std::ranges::sort(own, {}, &ShardRange::whole);
    std::vector<ShardRange> joined;
    for (const ShardRange& range : own) {
      check(range.elements >= 0 && range.element_bytes > 0 && range.whole >= 0 && range.shard >= 0 &&
                range.whole + range.bytes() <= static_cast<int64_t>(whole_bytes),
            "a range of ", range.elements, " elements at byte ", range.whole, " of ", whole_bytes);
      check(!in_place || range.whole == range.shard, "a range that is not at its place in a whole that is the shard");
      if (range.elements == 0) continue;
      if (!joined.empty()) {
        ShardRange& left = joined.back();
        const int64_t length = left.bytes();
        if (left.whole + length == range.whole && left.shard + length == range.shard &&
            left.element_bytes == range.element_bytes) {
          left.elements += range.elements;
          continue;
        }
      }
      joined.push_back(range);
    }
    own = std::move(joined);
    all.insert(all.end(), own.begin(), own.end());
  }
  std::ranges::sort(all, {}, &ShardRange::whole);
  for (size_t i = 1; i < all.size(); ++i) {
    check(all[i - 1].whole + all[i - 1].bytes() <= all[i].whole, "byte ", all[i].whole, " of a whole is owned twice");
  }
  return ranges;
}

void check_inside(const Ownership& ranges, size_t shard_bytes) {
  for (const std::vector<ShardRange>& own : ranges) {
    for (const ShardRange& range : own) {
      check(range.shard + range.bytes() <= static_cast<int64_t>(shard_bytes), "a range of ", range.elements,
            " elements at byte ", range.shard, " of a shard of ", shard_bytes);
    }
  }
}

Ownership even_slices(int ranks, int64_t numel) {
  Ownership slices;
  constexpr auto kBytes = static_cast<int64_t>(sizeof(float));
  // Whole cache lines, so that no line has two writers where ranks share memory.
  constexpr int64_t kLine = 64 / kBytes;
  const int64_t lines = (numel + kLine - 1) / kLine;
  for (int64_t r = 0; r < ranks; ++r) {
    const int64_t begin = std::min(numel, lines * r / ranks * kLine);
    const int64_t end = std::min(numel, lines * (r + 1) / ranks * kLine);
    slices.push_back({{.whole = begin * kBytes, .shard = begin * kBytes, .elements = end - begin}});
  }
  return slices;
}

PieceSums::PieceSums(const std::vector<ShardRange>& ranges, float* shard, int ranks, int64_t leaves, SumOrder order)
    : leaves_(static_cast<size_t>(ranks)), order_(order) {
  int64_t packed = 0;
  for (const ShardRange& range : ranges) {
    check(
        range.element_bytes == sizeof(float) && range.whole % alignof(float) == 0 && range.shard % alignof(float) == 0,
        "a sum of elements that are not f32");
    float* out = shard + range.shard / static_cast<int64_t>(sizeof(float));
    sums_.push_back({range, packed, out, TreeSum(range.elements, leaves), {}});
    packed += range.elements;
  }
}

void PieceSums::add(const FindLeaf& leaf, bool last) {
  const size_t ranks = leaves_.size();
  for (Sum& sum : sums_) {
    for (size_t r = 0; r < ranks; ++r) leaves_[r] = leaf(static_cast<int>(r), sum.range, sum.packed);
    if (order_ == SumOrder::canonical) {
      last ? sum.tree.finish(leaves_, sum.out) : sum.tree.push(leaves_);
      continue;
    }
    if (!last) sum.partial.resize(static_cast<size_t>(sum.range.elements));
    if (begun_) leaves_.push_back(sum.partial.data());
    TreeSum(sum.range.elements, static_cast<int64_t>(leaves_.size()))
        .finish(leaves_, last ? sum.out : sum.partial.data());
    leaves_.resize(ranks);
  }
  begun_ = !last;
}

size_t PieceSums::bytes() const {
  size_t bytes = 0;
  for (const Sum& sum : sums_) bytes += sum.tree.bytes() + sum.partial.size() * sizeof(float);
  return bytes;
}

Traffic traffic_of_all_reduce(const Ownership& slices, int rank) {
  const Traffic reduce = traffic_of_reduce_scatter(slices, rank), gather = traffic_of_all_gather(slices, rank);
  return {reduce.elements + gather.elements, reduce.bytes + gather.bytes};
}

Traffic traffic_of_reduce_scatter(const Ownership& ranges, int rank) {
  const auto peers = static_cast<int64_t>(ranges.size()) - 1;
  const std::vector<ShardRange>& mine = ranges[static_cast<size_t>(rank)];
  return {peers * elements_of(mine), peers * bytes_of(mine)};
}

Traffic traffic_of_all_gather(const Ownership& ranges, int rank) {
  Traffic traffic;
  for (size_t r = 0; r < ranges.size(); ++r) {
    if (r == static_cast<size_t>(rank)) continue;
    traffic.elements += elements_of(ranges[r]);
    traffic.bytes += bytes_of(ranges[r]);
  }
  return traffic;
}

}  // namespace ct
