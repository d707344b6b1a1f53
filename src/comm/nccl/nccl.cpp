#include "comm/nccl/nccl.h"

#include <tree_sum.h>  // of kernels/: in quotes it would be this folder's

#include <bit>
#include <vector>

#include "base/error.h"
#include "comm/nccl/nccl_link.h"
#include "comm/reduction/ownership.h"
#include "device/cuda/check.h"
#include "device/cuda/cuda_backend.h"
#include "device/scratch.h"

namespace ct {
namespace {

/// What the collectives of one communicator share.
struct Shared {
  cuda::CudaBackend& backend;
  TrafficCounters traffic{};
  Scratch received{[this](size_t bytes) { return backend.allocate(bytes); }};  // collectives run in one stream
  NcclLink link;  // ends NCCL before memory goes that it may be using

  /// A single rank sends to itself what it could copy: so one GPU is enough to see these calls work.
  bool sends_to(int peer) const { return peer != link.rank() || link.size() == 1; }
};

/// Are the ranges what NCCL's own collectives take: one per rank, all of one length, in rank order without gaps?
bool is_even(const Ownership& ranges) {
  for (size_t r = 0; r < ranges.size(); ++r) {
    if (ranges[r].size() != 1) return false;
    const ShardRange &first = ranges[0][0], &range = ranges[r][0];
    const int64_t bytes = first.bytes();
    if (range.bytes() != bytes || range.whole != first.whole + static_cast<int64_t>(r) * bytes) return false;
  }
  return true;
}

/// Do ranges lie without gaps from the first one on, in `whole` or in the shard?
bool is_one_run(const std::vector<ShardRange>& ranges, int64_t ShardRange::*where) {
  for (size_t i = 1; i < ranges.size(); ++i)
    if (ranges[i].*where != ranges[i - 1].*where + ranges[i - 1].bytes()) return false;
  return true;
}

/// Every owner gets its ranges of all ranks' `whole`, each rank's packed into a slot of the buffer, and sums the slots.
/// Its own are read, and the sums written, in place where they are one run. A sum of any order lets NCCL add where the
/// ranges are even.
class NcclReduction final : public Reduction {
 public:
  NcclReduction(Shared& shared, std::span<float> whole, float* shard, Ownership ranges, int64_t leaves, SumOrder order)
      : shared_(shared),
        link_(shared.link),
        whole_(reinterpret_cast<std::byte*>(whole.data())),
        shard_(reinterpret_cast<std::byte*>(shard)),
        ranges_(std::move(ranges)),
        own_(ranges_[static_cast<size_t>(link_.rank())]),
        numel_(elements_of(own_)),
        traffic_(traffic_of_reduce_scatter(ranges_, link_.rank())),
        added_by_nccl_(order == SumOrder::any && is_even(ranges_)) {
    for (const ShardRange& range : own_) {
      check(range.element_bytes == sizeof(float) && range.whole % alignof(float) == 0 &&
                range.shard % alignof(float) == 0,
            "a sum of elements that are not f32");
    }
    plan_tree(leaves, order);
    if (own_.empty()) return;
    const int slots = !added_by_nccl_ ? link_.size() : levels_.empty() ? 0 : 1;
    slots_ = slots == 0 ? nullptr : floats(shared_.received.of(static_cast<size_t>(nccl_slot_bytes(slots, numel_))));
    if (link_.size() > 1 && is_one_run(own_, &ShardRange::whole)) own_leaf_ = floats(whole_ + own_.front().whole);
    sums_in_place_ = is_one_run(own_, &ShardRange::shard);
    sums_ = sums_in_place_ ? floats(shard_ + own_.front().shard) : slot(link_.rank());
  }

  void push() override { add(/*last=*/false); }
  void finish() override { add(/*last=*/true); }
  size_t bytes() const override { return level_memory_.bytes(); }

 private:
  static float* floats(std::byte* at) { return reinterpret_cast<float*>(at); }
  float* slot(int rank) const { return slots_ + rank * numel_; }
  float* leaf(int rank) const { return rank == link_.rank() && own_leaf_ != nullptr ? own_leaf_ : slot(rank); }
  /// Where NCCL puts its sum of one exchange.
  float* sum_of_nccl() const { return levels_.empty() ? sums_ : slots_; }

  /// See nccl_sum_levels().
  void plan_tree(int64_t leaves, SumOrder order) {
    const int ranks = link_.size();
    by_rank_ = order == SumOrder::canonical && leaves > ranks && !std::has_single_bit(static_cast<unsigned>(ranks));
    const int levels = nccl_sum_levels(ranks, leaves, order);
    if (levels == 0) return;
    check(levels <= kernels::kMaxLevels, "a sum of ", leaves, " leaves");
    level_memory_ = shared_.backend.allocate(static_cast<size_t>(nccl_slot_bytes(levels, numel_)));
    counter_memory_ = shared_.backend.allocate(kNcclCounterBytes);
    for (int level = 0; level < levels; ++level) levels_.push_back(floats(level_memory_.data()) + level * numel_);
  }

  void add(bool last) {
    check(last || !levels_.empty(), "a push of more leaves than were announced");
    link_.group([this] { added_by_nccl_ ? reduce_scatter() : exchange(); });
    shared_.traffic[TrafficKind::training].add(traffic_);
    if (own_.empty()) return;
    if (!added_by_nccl_ && link_.size() > 1 && own_leaf_ == nullptr)
      copy_ranges([this](int64_t packed, const ShardRange& range, size_t bytes) {
        shared_.backend.copy(slot(link_.rank()) + packed, whole_ + range.whole, bytes);
      });
    const int ranks = link_.size();
    if (levels_.empty()) {
      if (const float* sum = added_by_nccl_ ? sums_ : tree(0, ranks, sums_); sum != sums_)
        shared_.backend.copy(sums_, sum, static_cast<size_t>(numel_) * sizeof(float));
    } else if (by_rank_) {
      for (int r = 0; r < ranks; ++r) push_leaf(leaf(r), last && r + 1 == ranks);
    } else {
      push_leaf(added_by_nccl_ ? sum_of_nccl() : tree(0, ranks, nullptr), last);
    }
    if (last && !sums_in_place_)
      copy_ranges([this](int64_t packed, const ShardRange& range, size_t bytes) {
        shared_.backend.copy(shard_ + range.shard, sums_ + packed, bytes);
      });
  }

  void reduce_scatter() {
    const ShardRange& first = ranges_.front().front();
    link_.reduce_scatter(floats(whole_ + first.whole), sum_of_nccl(), first.elements);
  }

  void exchange() {
    for (int i = 0; i < link_.size(); ++i) {
      const int to = (link_.rank() + i) % link_.size(), from = (link_.rank() + link_.size() - i) % link_.size();
      if (!shared_.sends_to(to)) continue;
      for (const ShardRange& range : ranges_[static_cast<size_t>(to)]) {
        link_.send(whole_ + range.whole, range.bytes(), to);
      }
      int64_t packed = 0;
      for (const ShardRange& range : own_) {
        link_.receive(slot(from) + packed, range.bytes(), from);
        packed += range.elements;
      }
    }
  }

  template <class Copy>
  void copy_ranges(const Copy& copy) {
    int64_t packed = 0;
    for (const ShardRange& range : own_) {
      copy(packed, range, static_cast<size_t>(range.bytes()));
      packed += range.elements;
    }
  }

  /// The canonical tree over the leaves of `count` ranks; where it lies: in `out`, if given, else in a slot. A single
  /// leaf stays where it is.
  float* tree(int first, int count, float* out) {
    if (count == 1) return leaf(first);
    const int half = static_cast<int>(std::bit_floor(static_cast<unsigned>(count - 1)));
    float* const left = tree(first, half, nullptr);
    float* const right = tree(first + half, count - half, nullptr);
    if (out == nullptr) out = left == own_leaf_ ? right : left;
    const float* const terms[] = {left, right};
    const kernels::SumInOrderArgs args{.terms = terms, .count = 2, .out = out, .n = numel_};
    CT_CUDA(kernels::sum_in_order(args, shared_.backend.stream()));
    return out;
  }

  void push_leaf(const float* values, bool last) {
    auto* counter = reinterpret_cast<int32_t*>(counter_memory_.data());
    const kernels::TreePushArgs args{.values = values,
                                     .counter = counter,
                                     .last = last,
                                     .levels = levels_.data(),
                                     .level_count = static_cast<int>(levels_.size()),
                                     .out = last ? sums_ : nullptr,
                                     .n = numel_};
    CT_CUDA(kernels::tree_push(args, shared_.backend.stream()));
    CT_CUDA(kernels::count_leaf(counter, last, shared_.backend.stream()));
  }

  Shared& shared_;
  NcclLink& link_;
  std::byte *whole_, *shard_;
  Ownership ranges_;
  const std::vector<ShardRange>& own_;
  int64_t numel_;  // of what this rank owns, and of a slot
  Traffic traffic_;
  bool added_by_nccl_, by_rank_ = false, sums_in_place_ = true;
  float* slots_ = nullptr;                // in the buffer, by rank
  float* own_leaf_ = nullptr;             // in `whole`; null: in its slot
  float* sums_ = nullptr;                 // in the shard or a slot
  Memory level_memory_, counter_memory_;  // partial sums, level after level; the number of the next leaf
  std::vector<float*> levels_;
};

class NcclAllGather final : public Collective {
 public:
  NcclAllGather(Shared& shared, std::byte* whole, std::byte* shard, Ownership ranges, TrafficKind kind)
      : shared_(shared),
        link_(shared.link),
        whole_(whole),
        shard_(shard),
        ranges_(std::move(ranges)),
        own_(ranges_[static_cast<size_t>(link_.rank())]),
        even_(is_even(ranges_)),
        counter_(shared.traffic[kind]),
        traffic_(traffic_of_all_gather(ranges_, link_.rank())) {}

  void launch() override {
    link_.group([this] {
      if (even_)
        link_.all_gather(shard_ + own_.front().shard, whole_ + ranges_.front().front().whole, own_.front().bytes());
      else
        exchange();
    });
    if (!even_ && whole_ != shard_ && link_.size() > 1) {
      for (const ShardRange& range : own_) {
        shared_.backend.copy(whole_ + range.whole, shard_ + range.shard, static_cast<size_t>(range.bytes()));
      }
    }
    counter_.add(traffic_);
  }

 private:
  void exchange() {
    for (int i = 0; i < link_.size(); ++i) {
      const int to = (link_.rank() + i) % link_.size(), from = (link_.rank() + link_.size() - i) % link_.size();
      if (!shared_.sends_to(to) || (to == link_.rank() && whole_ == shard_)) continue;
      for (const ShardRange& range : own_) link_.send(shard_ + range.shard, range.bytes(), to);
      for (const ShardRange& range : ranges_[static_cast<size_t>(from)]) {
        link_.receive(whole_ + range.whole, range.bytes(), from);
      }
    }
  }

  Shared& shared_;
  NcclLink& link_;
  std::byte *whole_, *shard_;
  Ownership ranges_;
  const std::vector<ShardRange>& own_;
  bool even_;
  TrafficCounters::Counter& counter_;
  Traffic traffic_;
};

/// Sums as NCCL adds them.
class AllReduceByNccl final : public Collective {
 public:
  AllReduceByNccl(Shared& shared, std::span<float> data, Traffic traffic)
      : shared_(shared), data_(data), traffic_(traffic) {}
  void launch() override {
    shared_.link.group(
        [this] { shared_.link.all_reduce(data_.data(), data_.data(), static_cast<int64_t>(data_.size())); });
    shared_.traffic[TrafficKind::training].add(traffic_);
  }

 private:
  Shared& shared_;
  std::span<float> data_;
  Traffic traffic_;
};

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(cuda::CudaBackend& backend, Communicator& control, const NcclOptions& options)
      : control_(control), shared_{.backend = backend, .link{backend.stream(), control, options.places}} {
    load_kernels();
  }

  int rank() const override { return control_.rank(); }
  int size() const override { return control_.size(); }
  std::string description() const override {
    return str(size(), size() == 1 ? " rank, " : " ranks, ", shared_.link.library());
  }

  std::byte* allocate(size_t bytes) override {
    allocated_ += bytes;
    return memories_.emplace_back(shared_.backend.allocate(bytes)).data();
  }
  std::unique_ptr<Collective> all_reduce(std::span<float> data, SumOrder order) override {
    if (order == SumOrder::canonical) return Communicator::all_reduce(data, order);
    const Traffic traffic = traffic_of_all_reduce(even_slices(size(), static_cast<int64_t>(data.size())), rank());
    return std::make_unique<AllReduceByNccl>(shared_, data, traffic);
  }
  std::unique_ptr<Reduction> reduce_scatter(std::span<float> whole, float* shard, Ownership ranges, int64_t leaves,
                                            SumOrder order) override {
    ranges = tidy(std::move(ranges), size(), whole.size_bytes(), whole.data() == shard);
    return std::make_unique<NcclReduction>(shared_, whole, shard, std::move(ranges), leaves, order);
  }
  std::unique_ptr<Collective> all_gather(std::span<std::byte> whole, std::span<std::byte> shard, Ownership ranges,
                                         TrafficKind kind) override {
    ranges = tidy(std::move(ranges), size(), whole.size(), whole.data() == shard.data());
    check_inside(ranges, shard.size());
    return std::make_unique<NcclAllGather>(shared_, whole.data(), shard.data(), std::move(ranges), kind);
  }
  Traffic traffic(TrafficKind kind) const override { return shared_.traffic[kind].read(); }
  void count(TrafficKind kind, const Traffic& more) override { shared_.traffic[kind].add(more); }
  bool overlaps() const override { return false; }
  bool recordable() const override { return true; }
  size_t allocated_bytes() const override { return allocated_ + shared_.received.bytes(); }

  void gather_all(std::span<const std::byte> mine, std::span<std::byte> all) override {
    control().gather_all(mine, all);
  }
  void broadcast(std::span<std::byte> data, int root) override { control().broadcast(data, root); }
  void barrier() override { control().barrier(); }
  Heartbeat& heartbeat() override { return control_.heartbeat(); }
  std::shared_ptr<SharedBoard> board() override { return control_.board(); }
  bool abort(int exit_code) noexcept override { return control_.abort(exit_code); }
  bool aborted() const noexcept override { return shared_.link.failed() || control_.aborted(); }
  void finish() override {
    shared_.backend.wait();  // what peers wait for goes out first
    control().barrier();
    shared_.link.finish();
  }

 private:
  /// The kernels that sum what collectives bring. Loaded on first use they would be so beside a collective, and a
  /// device may have to come to rest before it takes up a new kernel: so ranks meet when all have them.
  void load_kernels() {
    constexpr int64_t kNumel = 4;
    Memory memory = shared_.backend.allocate(3 * kNumel * sizeof(float));
    auto* const terms = reinterpret_cast<float*>(memory.data());
    float *const sum = terms + kNumel, *const level = sum + kNumel;
    auto* const counter = reinterpret_cast<int32_t*>(terms);
    const cudaStream_t stream = shared_.backend.stream();
    CT_CUDA(kernels::sum_in_order({.terms = &terms, .count = 1, .out = sum, .n = kNumel}, stream));
    CT_CUDA(kernels::tree_push({.values = sum,
                                .counter = counter,
                                .last = false,
                                .levels = &level,
                                .level_count = 1,
                                .out = nullptr,
                                .n = kNumel},
                               stream));
    CT_CUDA(kernels::count_leaf(counter, /*last=*/true, stream));
    shared_.backend.copy(sum, level, kNumel * sizeof(float));
    shared_.backend.wait();
    memory = {};
    control().barrier();
  }

  Communicator& control() {
    shared_.link.throw_if_failed();
    return control_;
  }

  Communicator& control_;
  std::vector<Memory> memories_;
  size_t allocated_ = 0;
  Shared shared_;  // goes first, and NCCL with it
};

}  // namespace

std::string nccl_problem(const cuda::LibraryPlaces& places) {
  try {
    usable_version(open_nccl(places));
    return "";
  } catch (const Error& e) {
    return e.what();
  }
}

std::unique_ptr<Communicator> make_nccl(Backend& backend, Communicator& control, const NcclOptions& options) {
  auto* gpu = dynamic_cast<cuda::CudaBackend*>(&backend);
  check(gpu != nullptr, "NCCL on ", backend.description());
  return std::make_unique<NcclCommunicator>(*gpu, control, options);
}

}  // namespace ct
