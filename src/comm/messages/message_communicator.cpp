#include <sys/prctl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "comm/messages/wire.h"
#include "comm/reduction/narrow.h"
#include "comm/reduction/ownership.h"

namespace ct {
namespace {

constexpr std::align_val_t kAlignment{64};
struct Free {
  void operator()(std::byte* p) const { operator delete[](p, kAlignment); }
};
using Block = std::unique_ptr<std::byte[], Free>;

/// What the collectives of one communicator share.
struct Link {
  std::unique_ptr<MessageWire> wire;
  int rank = 0, size = 0;
  Heartbeat heartbeat;
  std::atomic<int> failure{-1};  // exit code of the first abort()
  TrafficCounters traffic;
  std::vector<float> received;  // by the one collective that runs
  size_t narrow_bytes = 0;      // of messages in 16 bits
};

/// The ranges where they lie in a buffer: &ShardRange::whole or &ShardRange::shard.
std::unique_ptr<MessageShape> shape_of(Link& link, const std::vector<ShardRange>& ranges, int64_t ShardRange::*where) {
  std::vector<ByteRun> runs;
  for (const ShardRange& range : ranges) runs.push_back({range.*where, range.bytes()});
  return link.wire->shape(runs);
}

/// The ranges laid end to end.
std::unique_ptr<MessageShape> packed_shape_of(Link& link, const std::vector<ShardRange>& ranges) {
  std::vector<ByteRun> runs;
  int64_t at = 0;
  for (const ShardRange& range : ranges) {
    runs.push_back({at, range.bytes()});
    at += runs.back().bytes;
  }
  return link.wire->shape(runs);
}

/// Messages under way. A library's own wait burns the core; here it is offered to others, and left alone in long waits.
class Pending {
 public:
  Pending(Link& link, MessageWire::Plane plane) : link_(link), batch_(link.wire->batch(plane)) {}
  /// All sends before the first receive: a send's request to send must not queue behind the bytes that answering a
  /// peer's request lets go, or the two directions of a stream take turns.
  void send(const void* buffer, const MessageShape* shape, int to) {
    if (shape != nullptr) batch_->send(buffer, *shape, to);
  }
  void receive(void* buffer, const MessageShape* shape, int from) {
    if (shape != nullptr) batch_->receive(buffer, *shape, from);
  }
  MessageBatch& batch() { return *batch_; }

  /// Sends something to every peer, receives something from every one, and waits: each rank begins with another peer.
  template <class Send, class Receive>
  void exchange(Send send_to, Receive receive_from) {
    for (int i = 1; i < link_.size; ++i) send_to((link_.rank + i) % link_.size);
    for (int i = 1; i < link_.size; ++i) receive_from((link_.rank + link_.size - i) % link_.size);
    wait();
  }

  void wait() {
    using Clock = std::chrono::steady_clock;
    link_.heartbeat.collectives.fetch_add(1, std::memory_order_relaxed);
    const auto begin = Clock::now();
    Waiting waiting(link_.heartbeat.waiting);
    while (!batch_->done()) {
      waiting.tell();
      // What is under way stays so: the process is about to end, and nobody reads what may still be written.
      if (const int code = link_.failure.load(std::memory_order_relaxed); code >= 0) {
        fail(static_cast<ExitCode>(code), "stopped waiting for other ranks: the job has failed");
      }
      const auto waited = Clock::now() - begin;
      if (waited < std::chrono::milliseconds(2)) {
        std::this_thread::yield();
      } else {
        // Libraries move messages in pieces, and only while they are called: long naps would slow the wire down.
        const bool long_wait = waited > std::chrono::seconds(5);
        std::this_thread::sleep_for(std::chrono::microseconds(long_wait ? 1000 : 20));
      }
    }
  }

 private:
  /// Counted among those that wait from tell() to its end.
  class Waiting {
   public:
    explicit Waiting(std::atomic<uint32_t>& count) : count_(count) {}
    ~Waiting() {
      if (told_) count_.fetch_sub(1, std::memory_order_relaxed);
    }
    void tell() {
      if (!std::exchange(told_, true)) count_.fetch_add(1, std::memory_order_relaxed);
    }

   private:
    std::atomic<uint32_t>& count_;
    bool told_ = false;
  };

  Link& link_;
  std::unique_ptr<MessageBatch> batch_;
};

using Shapes = std::vector<std::unique_ptr<MessageShape>>;  // by rank

/// A message in 16 bits, and how it travels.
struct PackedMessage {
  PackedMessage(Link& link, size_t size) : bytes(size) {
    const ByteRun all{.at = 0, .bytes = static_cast<int64_t>(size)};
    shape = link.wire->shape({&all, 1});
    link.narrow_bytes += size;
  }
  std::vector<std::byte> bytes;
  std::unique_ptr<MessageShape> shape;
};

/// Every rank gets its ranges of all ranks' `whole`, laid end to end, and sums them; the own ones are read in place.
/// With a narrowing they are packed in 16 bits, sent, and made f32 again.
class ReductionMessages : public Reduction {
 public:
  ReductionMessages(Link& link, std::span<float> whole, float* shard, const Ownership& ranges, int64_t leaves,
                    SumOrder order, const Narrowing* narrowing = nullptr)
      : link_(link),
        whole_(whole.data()),
        numel_(elements_of(ranges[static_cast<size_t>(link.rank)])),
        sums_(ranges[static_cast<size_t>(link.rank)], shard, link.size, leaves, order),
        traffic_(traffic_of_reduce_scatter(ranges, link.rank)),
        pending_(link, MessageWire::Plane::data) {
    const auto floats = static_cast<size_t>(numel_ * (link.size - 1));
    if (link.received.size() < floats) link.received = std::vector<float>(floats);
    if (narrowing == nullptr) {
      for (const std::vector<ShardRange>& own : ranges) send_.push_back(shape_of(link, own, &ShardRange::whole));
      receive_ = packed_shape_of(link, ranges[static_cast<size_t>(link.rank)]);
      return;
    }
    for (const std::vector<ShardRange>& own : ranges) narrow_.emplace_back(own, *narrowing);
    const size_t mine = narrow_of(link.rank).bytes();
    for (int r = 0; r < link.size; ++r) {
      const bool own = r == link.rank;
      packed_send_.emplace_back(link, own ? 0 : narrow_of(r).bytes());
      packed_receive_.emplace_back(link, own ? 0 : mine);
    }
    traffic_.bytes = static_cast<int64_t>(mine) * (link.size - 1);
  }
  void push() override {
    exchange();
    sums_.push([this](auto... of) { return leaf(of...); });
  }
  void finish() override {
    exchange();
    sums_.finish([this](auto... of) { return leaf(of...); });
  }
  size_t bytes() const override { return sums_.bytes(); }
  /// What a rank owns, in 16 bits.
  const NarrowMessage& narrow_of(int rank) const { return narrow_[static_cast<size_t>(rank)]; }

 private:
  float* received(int from) const { return link_.received.data() + numel_ * (from < link_.rank ? from : from - 1); }
  const float* leaf(int rank, const ShardRange& range, int64_t packed) const {
    return rank == link_.rank ? whole_ + range.whole / 4 : received(rank) + packed;
  }
  void exchange() {
    if (narrow_.empty())
      pending_.exchange([&](int to) { pending_.send(whole_, send_[static_cast<size_t>(to)].get(), to); },
                        [&](int from) { pending_.receive(received(from), receive_.get(), from); });
    else
      exchange_narrow();
    link_.traffic[TrafficKind::training].add(traffic_);
  }
  void exchange_narrow() {
    pending_.exchange(
        [&](int to) {
          PackedMessage& message = packed_send_[static_cast<size_t>(to)];
          narrow_of(to).pack(whole_, message.bytes.data());
          pending_.send(message.bytes.data(), message.shape.get(), to);
        },
        [&](int from) {
          PackedMessage& message = packed_receive_[static_cast<size_t>(from)];
          pending_.receive(message.bytes.data(), message.shape.get(), from);
        });
    for (int r = 0; r < link_.size; ++r)
      if (r != link_.rank)
        narrow_of(link_.rank).unpack(packed_receive_[static_cast<size_t>(r)].bytes.data(), received(r));
  }

  Link& link_;
  const float* whole_;
  int64_t numel_;
  Shapes send_;
  std::unique_ptr<MessageShape> receive_;
  std::vector<NarrowMessage> narrow_;                        // by rank; empty: all travels as f32
  std::vector<PackedMessage> packed_send_, packed_receive_;  // by rank
  PieceSums sums_;
  Traffic traffic_;
  Pending pending_;
};

class AllGatherMessages : public Collective {
 public:
  AllGatherMessages(Link& link, std::byte* whole, const std::byte* shard, const Ownership& ranges, TrafficKind kind)
      : link_(link),
        whole_(whole),
        shard_(shard),
        mine_(ranges[static_cast<size_t>(link.rank)]),
        send_(shape_of(link, mine_, &ShardRange::shard)),
        counter_(link.traffic[kind]),
        traffic_(traffic_of_all_gather(ranges, link.rank)),
        pending_(link, MessageWire::Plane::data) {
    for (const std::vector<ShardRange>& own : ranges) receive_.push_back(shape_of(link, own, &ShardRange::whole));
    if (whole == shard) mine_.clear();
  }

  void launch() override {
    for (int i = 1; i < link_.size; ++i) pending_.send(shard_, send_.get(), (link_.rank + i) % link_.size);
    for (int i = 1; i < link_.size; ++i) {
      const int from = (link_.rank + link_.size - i) % link_.size;
      pending_.receive(whole_, receive_[static_cast<size_t>(from)].get(), from);
    }
    for (const ShardRange& range : mine_) {
      std::memcpy(whole_ + range.whole, shard_ + range.shard, static_cast<size_t>(range.bytes()));
    }
    pending_.wait();
    counter_.add(traffic_);
  }

 private:
  Link& link_;
  std::byte* whole_;
  const std::byte* shard_;
  std::vector<ShardRange> mine_;  // to be copied
  std::unique_ptr<MessageShape> send_;
  Shapes receive_;
  TrafficCounters::Counter& counter_;
  Traffic traffic_;
  Pending pending_;
};

/// Sums as the wire's library adds them.
class AllReduceByWire : public Collective {
 public:
  AllReduceByWire(Link& link, std::span<float> data, Traffic traffic)
      : link_(link), data_(data), traffic_(traffic), pending_(link, MessageWire::Plane::data) {}
  void launch() override {
    pending_.batch().add(data_);
    pending_.wait();
    link_.traffic[TrafficKind::training].add(traffic_);
  }

 private:
  Link& link_;
  std::span<float> data_;
  Traffic traffic_;
  Pending pending_;
};

class NarrowAllReduceMessages : public Collective {
 public:
  NarrowAllReduceMessages(Link& link, std::span<float> data, const Ownership& slices, const Narrowing& narrowing)
      : link_(link),
        data_(data.data()),
        reduce_(link, data, data.data(), slices, link.size, SumOrder::any, &narrowing),
        pending_(link, MessageWire::Plane::data) {
    traffic_ = traffic_of_all_gather(slices, link.rank);
    traffic_.bytes = 0;
    for (int r = 0; r < link.size; ++r) {
      const PackedMessage& sum = sums_.emplace_back(link, reduce_.narrow_of(r).bytes());
      if (r != link.rank) traffic_.bytes += static_cast<int64_t>(sum.bytes.size());
    }
  }
  void launch() override {
    reduce_.finish();
    PackedMessage& mine = sums_[static_cast<size_t>(link_.rank)];
    reduce_.narrow_of(link_.rank).pack(data_, mine.bytes.data());
    pending_.exchange([&](int to) { pending_.send(mine.bytes.data(), mine.shape.get(), to); },
                      [&](int from) {
                        PackedMessage& sum = sums_[static_cast<size_t>(from)];
                        pending_.receive(sum.bytes.data(), sum.shape.get(), from);
                      });
    // The own part as well: all ranks hold the same bits.
    for (int r = 0; r < link_.size; ++r) reduce_.narrow_of(r).place(sums_[static_cast<size_t>(r)].bytes.data(), data_);
    link_.traffic[TrafficKind::training].add(traffic_);
  }

 private:
  Link& link_;
  float* data_;
  ReductionMessages reduce_;
  std::vector<PackedMessage> sums_;  // by rank: its part
  Traffic traffic_;
  Pending pending_;
};

class MessageCommunicator : public Communicator {
 public:
  explicit MessageCommunicator(std::unique_ptr<MessageWire> wire) {
    link_.rank = wire->rank();
    link_.size = wire->size();
    link_.wire = std::move(wire);
    prctl(PR_SET_TIMERSLACK, 1000);  // ns: naps in waits are short ones
  }
  int rank() const override { return link_.rank; }
  int size() const override { return link_.size; }
  std::string description() const override { return link_.wire->description(); }

  std::byte* allocate(size_t bytes) override {
    blocks_.emplace_back(new (kAlignment) std::byte[bytes]{});
    allocated_ += bytes;
    return blocks_.back().get();
  }
  std::unique_ptr<Collective> all_reduce(std::span<float> data, SumOrder order) override {
    if (order == SumOrder::canonical || !link_.wire->adds()) return Communicator::all_reduce(data, SumOrder::canonical);
    const Traffic traffic =
        traffic_of_all_reduce(even_slices(link_.size, static_cast<int64_t>(data.size())), link_.rank);
    return std::make_unique<AllReduceByWire>(link_, data, traffic);
  }
  std::unique_ptr<Reduction> reduce_scatter(std::span<float> whole, float* shard, Ownership ranges, int64_t leaves,
                                            SumOrder order) override {
    ranges = tidy(std::move(ranges), link_.size, whole.size_bytes(), whole.data() == shard);
    return std::make_unique<ReductionMessages>(link_, whole, shard, ranges, leaves, order);
  }
  std::unique_ptr<Collective> all_gather(std::span<std::byte> whole, std::span<std::byte> shard, Ownership ranges,
                                         TrafficKind kind) override {
    ranges = tidy(std::move(ranges), link_.size, whole.size(), whole.data() == shard.data());
    check_inside(ranges, shard.size());
    return std::make_unique<AllGatherMessages>(link_, whole.data(), shard.data(), ranges, kind);
  }
  bool narrows() const override { return true; }
  std::unique_ptr<Collective> narrow_all_reduce(std::span<float> data, const Narrowing& narrowing) override {
    const Ownership slices = even_slices(link_.size, static_cast<int64_t>(data.size()));
    return std::make_unique<NarrowAllReduceMessages>(link_, data, slices, narrowing);
  }
  std::unique_ptr<Reduction> narrow_reduce_scatter(std::span<float> whole, float* shard, Ownership ranges,
                                                   int64_t leaves, const Narrowing& narrowing) override {
    ranges = tidy(std::move(ranges), link_.size, whole.size_bytes(), whole.data() == shard);
    return std::make_unique<ReductionMessages>(link_, whole, shard, ranges, leaves, SumOrder::any, &narrowing);
  }
  Traffic traffic(TrafficKind kind) const override { return link_.traffic[kind].read(); }
  bool overlaps() const override { return true; }
  size_t allocated_bytes() const override {
    return allocated_ + link_.received.size() * sizeof(float) + link_.narrow_bytes;
  }

  void gather_all(std::span<const std::byte> mine, std::span<std::byte> all) override {
    check(all.size() == mine.size() * static_cast<size_t>(link_.size) && mine.size() <= INT32_MAX, "gather_all of ",
          mine.size(), " bytes into ", all.size());
    control([&](MessageBatch& batch) { batch.gather_all(mine, all); });
  }
  void broadcast(std::span<std::byte> data, int root) override {
    check(data.size() <= INT32_MAX, "broadcast of ", data.size(), " bytes");
    control([&](MessageBatch& batch) { batch.broadcast(data, root); });
  }
  void barrier() override {
    control([](MessageBatch& batch) { batch.barrier(); });
  }
  Heartbeat& heartbeat() override { return link_.heartbeat; }
  // Other hosts learn of it from the launcher, which ends the job as soon as this process has exited, or from
  // watchdogs.
  bool abort(int exit_code) noexcept override {
    int none = -1;
    return link_.failure.compare_exchange_strong(none, exit_code);
  }
  bool aborted() const noexcept override { return link_.failure.load(std::memory_order_relaxed) >= 0; }
  void finish() override {
    barrier();
    link_.wire->finish();
  }

 private:
  template <class Begin>
  void control(Begin begin) {
    Pending pending(link_, MessageWire::Plane::control);
    begin(pending.batch());
    pending.wait();
  }

  Link link_;
  std::vector<Block> blocks_;
  size_t allocated_ = 0;
};

}  // namespace

std::unique_ptr<Communicator> make_message_communicator(std::unique_ptr<MessageWire> wire) {
  return std::make_unique<MessageCommunicator>(std::move(wire));
}

}  // namespace ct
