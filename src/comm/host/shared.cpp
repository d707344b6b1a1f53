#include "comm/host/shared.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/error.h"

namespace ct {
namespace {

using Counter = TrafficCounters::Counter;

class AllReduceShared : public Collective {
 public:
  AllReduceShared(BoardView& view, Counter& counter, const std::vector<std::byte*>& buffers, int64_t numel)
      : view_(view), counter_(counter), leaves_(buffers.size()) {
    for (std::byte* buffer : buffers) buffers_.push_back(reinterpret_cast<float*>(buffer));
    const Ownership slices = even_slices(view.size(), numel);
    const ShardRange& mine = slices[static_cast<size_t>(view.rank())][0];
    begin_ = mine.whole / static_cast<int64_t>(sizeof(float));
    end_ = begin_ + mine.elements;
    traffic_ = traffic_of_all_reduce(slices, view.rank());
  }

  void launch() override {
    const auto mine = static_cast<size_t>(view_.rank());
    if (buffers_.size() == 1) return;
    view_.barrier();
    for (int64_t at = begin_; at < end_; at += kBlock) {
      const int64_t length = std::min(kBlock, end_ - at);
      for (size_t r = 0; r < buffers_.size(); ++r) leaves_[r] = buffers_[r] + at;
      float* sum = buffers_[mine] + at;
      TreeSum(length, static_cast<int64_t>(leaves_.size())).finish(leaves_, sum);
      for (size_t r = 0; r < buffers_.size(); ++r) {
        if (r != mine) std::memcpy(buffers_[r] + at, sum, static_cast<size_t>(length) * sizeof(float));
      }
    }
    view_.barrier();
    counter_.add(traffic_);
  }

 private:
  static constexpr int64_t kBlock = 1024;  // a block of the sum is still in the cache when it is copied

  BoardView& view_;
  Counter& counter_;
  std::vector<float*> buffers_;
  std::vector<const float*> leaves_;
  int64_t begin_, end_;
  Traffic traffic_;
};

class ReductionShared : public Reduction {
 public:
  ReductionShared(BoardView& view, Counter& counter, std::vector<std::byte*> wholes, PieceSums sums, Traffic traffic)
      : view_(view), counter_(counter), wholes_(std::move(wholes)), sums_(std::move(sums)), traffic_(traffic) {}
  void push() override {
    add([&](const auto& leaf) { sums_.push(leaf); });
  }
  void finish() override {
    add([&](const auto& leaf) { sums_.finish(leaf); });
  }
  size_t bytes() const override { return sums_.bytes(); }

 private:
  template <class Add>
  void add(Add to_sums) {
    view_.barrier();
    to_sums([&](int rank, const ShardRange& range, int64_t) {
      return reinterpret_cast<const float*>(wholes_[static_cast<size_t>(rank)] + range.whole);
    });
    view_.barrier();
    counter_.add(traffic_);
  }

  BoardView& view_;
  Counter& counter_;
  std::vector<std::byte*> wholes_;
  PieceSums sums_;
  Traffic traffic_;
};

class AllGatherShared : public Collective {
 public:
  AllGatherShared(BoardView& view, Counter& counter, std::byte* whole, const std::vector<std::byte*>& shards,
                  const Ownership& ranges)
      : view_(view), counter_(counter), traffic_(traffic_of_all_gather(ranges, view.rank())) {
    const auto mine = static_cast<size_t>(view.rank()), ranks = shards.size();
    for (size_t i = 1; i <= ranks; ++i) {
      const size_t r = (mine + i) % ranks;  // each rank begins with another owner
      if (shards[r] == whole) continue;
      for (const ShardRange& range : ranges[r]) {
        copies_.push_back({shards[r] + range.shard, whole + range.whole, static_cast<size_t>(range.bytes())});
      }
    }
  }

  void launch() override {
    view_.barrier();
    for (const Copy& copy : copies_) std::memcpy(copy.to, copy.from, copy.bytes);
    view_.barrier();
    counter_.add(traffic_);
  }

 private:
  struct Copy {
    const std::byte* from;
    std::byte* to;
    size_t bytes;
  };
  BoardView& view_;
  Counter& counter_;
  std::vector<Copy> copies_;
  Traffic traffic_;
};

}  // namespace

std::byte* SharedCommunicator::allocate(size_t bytes) {
  const size_t rounded = (std::max<size_t>(bytes, 1) + 63) / 64 * 64;
  segments_.push_back({share(rounded), rounded});
  return segments_.back().parts[static_cast<size_t>(rank())];
}

size_t SharedCommunicator::allocated_bytes() const {
  size_t bytes = 0;
  for (const Segment& segment : segments_) bytes += segment.bytes;
  return bytes;
}

std::vector<std::byte*> SharedCommunicator::counterparts(std::span<std::byte> mine) {
  if (size() == 1) return {mine.data()};
  std::array<int64_t, 3> where{-1, 0, static_cast<int64_t>(mine.size())};  // segment, offset, length
  for (size_t s = 0; s < segments_.size(); ++s) {
    const std::byte* part = segments_[s].parts[static_cast<size_t>(rank())];
    if (mine.data() >= part && mine.data() + mine.size() <= part + segments_[s].bytes) {
      where[0] = static_cast<int64_t>(s);
      where[1] = mine.data() - part;
    }
  }
  std::vector<decltype(where)> all(static_cast<size_t>(size()));
  gather_all(std::as_bytes(std::span(where)), std::as_writable_bytes(std::span(all)));
  for (const auto& other : all) {
    check(other == all[0], "ranks prepare a collective for different buffers");
    check(other[0] >= 0, "a collective's buffer is not from Communicator::allocate");
  }
  std::vector<std::byte*> begins;
  for (std::byte* part : segments_[static_cast<size_t>(where[0])].parts) begins.push_back(part + where[1]);
  return begins;
}

std::unique_ptr<Collective> SharedCommunicator::all_reduce(std::span<float> data, SumOrder) {
  return std::make_unique<AllReduceShared>(view_, traffic_[TrafficKind::training],
                                           counterparts(std::as_writable_bytes(data)),
                                           static_cast<int64_t>(data.size()));
}

std::unique_ptr<Reduction> SharedCommunicator::reduce_scatter(std::span<float> whole, float* shard, Ownership ranges,
                                                              int64_t leaves, SumOrder order) {
  ranges = tidy(std::move(ranges), size(), whole.size_bytes(), whole.data() == shard);
  PieceSums sums(ranges[static_cast<size_t>(rank())], shard, size(), leaves, order);
  return std::make_unique<ReductionShared>(view_, traffic_[TrafficKind::training],
                                           counterparts(std::as_writable_bytes(whole)), std::move(sums),
                                           traffic_of_reduce_scatter(ranges, rank()));
}

std::unique_ptr<Collective> SharedCommunicator::all_gather(std::span<std::byte> whole, std::span<std::byte> shard,
                                                           Ownership ranges, TrafficKind kind) {
  ranges = tidy(std::move(ranges), size(), whole.size(), whole.data() == shard.data());
  check_inside(ranges, shard.size());
  return std::make_unique<AllGatherShared>(view_, traffic_[kind], whole.data(), counterparts(shard), ranges);
}

}  // namespace ct
