#include "comm/shared.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/error.h"
#include "comm/tree_sum.h"

namespace ct {
namespace {

class AllReduceShared : public Collective {
 public:
  AllReduceShared(Meeting& meeting, std::vector<float*> buffers, int64_t numel)
      : meeting_(meeting), buffers_(std::move(buffers)), leaves_(buffers_.size()) {
    // Whole cache lines, so that no line has two writers.
    constexpr int64_t kLine = 16;
    const int64_t lines = (numel + kLine - 1) / kLine, r = meeting.rank(), n = meeting.size();
    begin_ = std::min(numel, lines * r / n * kLine);
    end_ = std::min(numel, lines * (r + 1) / n * kLine);
  }

  void launch() override {
    const auto mine = static_cast<size_t>(meeting_.rank());
    if (buffers_.size() == 1) return;
    meeting_.barrier();
    for (int64_t at = begin_; at < end_; at += kBlock) {
      const int64_t length = std::min(kBlock, end_ - at);
      for (size_t r = 0; r < buffers_.size(); ++r) leaves_[r] = buffers_[r] + at;
      float* sum = buffers_[mine] + at;
      TreeSum(length, static_cast<int64_t>(leaves_.size())).finish(leaves_, sum);
      for (size_t r = 0; r < buffers_.size(); ++r) {
        if (r != mine) std::memcpy(buffers_[r] + at, sum, static_cast<size_t>(length) * sizeof(float));
      }
    }
    meeting_.barrier();
  }

 private:
  static constexpr int64_t kBlock = 1024;  // a block of the sum is still in the cache when it is copied

  Meeting& meeting_;
  std::vector<float*> buffers_;
  std::vector<const float*> leaves_;
  int64_t begin_, end_;
};

class ReduceScatterShared : public Collective {
 public:
  ReduceScatterShared(Meeting& meeting, const std::vector<float*>& buffers, int64_t begin, TreeSum& tree, float* sum)
      : meeting_(meeting), tree_(tree), sum_(sum) {
    for (const float* buffer : buffers) leaves_.push_back(buffer + begin);
  }

  void launch() override {
    meeting_.barrier();
    if (sum_ != nullptr) {
      tree_.finish(leaves_, sum_);
    } else {
      tree_.push(leaves_);
    }
    meeting_.barrier();
  }

 private:
  Meeting& meeting_;
  TreeSum& tree_;
  float* sum_;
  std::vector<const float*> leaves_;
};

class AllGatherShared : public Collective {
 public:
  AllGatherShared(Meeting& meeting, std::vector<float*> buffers, ShardBounds bounds)
      : meeting_(meeting), buffers_(std::move(buffers)), bounds_(std::move(bounds)) {}

  void launch() override {
    const auto mine = static_cast<size_t>(meeting_.rank());
    meeting_.barrier();
    for (size_t i = 1; i < buffers_.size(); ++i) {
      const size_t r = (mine + i) % buffers_.size();  // each rank begins with another owner
      const int64_t begin = bounds_[r], length = bounds_[r + 1] - begin;
      if (length > 0) {
        std::memcpy(buffers_[mine] + begin, buffers_[r] + begin, static_cast<size_t>(length) * sizeof(float));
      }
    }
    meeting_.barrier();
  }

 private:
  Meeting& meeting_;
  std::vector<float*> buffers_;
  ShardBounds bounds_;
};

}  // namespace

std::byte* SharedCommunicator::allocate(size_t bytes) {
  const size_t rounded = (std::max<size_t>(bytes, 1) + 63) / 64 * 64;
  segments_.push_back({share(rounded), rounded});
  return segments_.back().parts[static_cast<size_t>(rank())];
}

std::vector<float*> SharedCommunicator::counterparts(std::span<float> data) {
  if (size() == 1) return {data.data()};
  auto* begin = reinterpret_cast<std::byte*>(data.data());
  std::array<int64_t, 3> where{-1, 0, static_cast<int64_t>(data.size())};  // segment, offset, length
  for (size_t s = 0; s < segments_.size(); ++s) {
    const std::byte* mine = segments_[s].parts[static_cast<size_t>(rank())];
    if (begin >= mine && begin + data.size_bytes() <= mine + segments_[s].bytes) {
      where[0] = static_cast<int64_t>(s);
      where[1] = begin - mine;
    }
  }
  std::vector<decltype(where)> all(static_cast<size_t>(size()));
  gather_all(std::as_bytes(std::span(where)), std::as_writable_bytes(std::span(all)));
  for (const auto& other : all) {
    check(other == all[0], "ranks prepare a collective for different buffers");
    check(other[0] >= 0, "a collective's buffer is not from Communicator::allocate");
  }
  std::vector<float*> buffers;
  for (std::byte* part : segments_[static_cast<size_t>(where[0])].parts) {
    buffers.push_back(reinterpret_cast<float*>(part + where[1]));
  }
  return buffers;
}

std::unique_ptr<Collective> SharedCommunicator::all_reduce(std::span<float> data) {
  return std::make_unique<AllReduceShared>(meeting_, counterparts(data), static_cast<int64_t>(data.size()));
}

std::unique_ptr<Collective> SharedCommunicator::reduce_scatter(std::span<float> data, ShardBounds bounds, TreeSum& mine,
                                                               float* sum) {
  check_bounds(bounds, size(), data.size());
  const int64_t begin = bounds[static_cast<size_t>(rank())];
  check(mine.numel() == bounds[static_cast<size_t>(rank()) + 1] - begin, "a tree of another length than the shard");
  return std::make_unique<ReduceScatterShared>(meeting_, counterparts(data), begin, mine, sum);
}

std::unique_ptr<Collective> SharedCommunicator::all_gather(std::span<float> data, ShardBounds bounds) {
  check_bounds(bounds, size(), data.size());
  return std::make_unique<AllGatherShared>(meeting_, counterparts(data), std::move(bounds));
}

}  // namespace ct
