#include "comm/mpi/mpi_messages.h"

#include <mpi.h>
#include <sys/prctl.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <climits>
#include <cstring>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

#include "base/error.h"
#include "comm/reduction/ownership.h"

namespace ct {

void check_mpi(int result, const char* call) {
  if (result == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(result, text.data(), &length);
  fail(ExitCode::peer, call, " failed (", std::string(text.data(), static_cast<size_t>(length)),
       "): a rank was lost, or the network is down; see the launcher's messages");
}

namespace {

constexpr std::align_val_t kAlignment{64};
struct Free {
  void operator()(std::byte* p) const { operator delete[](p, kAlignment); }
};
using Block = std::unique_ptr<std::byte[], Free>;

/// What the collectives of one communicator share.
struct Link {
  int rank = 0, size = 0;
  Heartbeat heartbeat;
  std::atomic<int> failure{-1};  // exit code of the first abort()
  TrafficCounters traffic;
  std::vector<float> received;  // by the one collective that runs
  // Two threads may call MPI, one at a time: prepared collectives on one communicator, the control plane on the other,
  // so that neither depends on the other's order.
  std::mutex calls;
  MPI_Comm data = MPI_COMM_WORLD, control = MPI_COMM_WORLD;
};

/// The bytes of one peer, wherever they lie in a buffer: MPI takes them as one message.
class Parts {
 public:
  /// where: &ShardRange::whole or &ShardRange::shard.
  Parts(const std::vector<ShardRange>& ranges, int64_t ShardRange::*where, std::mutex& calls) : calls_(&calls) {
    constexpr int64_t kLongest = int64_t{1} << 30;  // MPI counts in ints
    std::vector<int> lengths;
    std::vector<MPI_Aint> begins;
    for (const ShardRange& range : ranges) {
      const int64_t bytes = range.elements * range.element_bytes;
      for (int64_t at = 0; at < bytes; at += kLongest) {
        lengths.push_back(static_cast<int>(std::min(kLongest, bytes - at)));
        begins.push_back(range.*where + at);
      }
    }
    if (lengths.empty()) return;
    const std::lock_guard lock(calls);
    check_mpi(
        MPI_Type_create_hindexed(static_cast<int>(lengths.size()), lengths.data(), begins.data(), MPI_BYTE, &type_),
        "MPI_Type_create_hindexed");
    check_mpi(MPI_Type_commit(&type_), "MPI_Type_commit");
  }
  Parts(Parts&& other) noexcept : calls_(other.calls_), type_(std::exchange(other.type_, MPI_DATATYPE_NULL)) {}
  Parts& operator=(Parts&&) = delete;
  ~Parts() {
    if (empty()) return;
    const std::lock_guard lock(*calls_);
    int over = 0;  // a collective may be let go after finish()
    if (MPI_Finalized(&over) == MPI_SUCCESS && over == 0) MPI_Type_free(&type_);
  }
  bool empty() const { return type_ == MPI_DATATYPE_NULL; }
  MPI_Datatype type() const { return type_; }

 private:
  std::mutex* calls_;
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

/// Messages under way. MPI waits by burning the core; here it is offered to others, and left alone in long waits.
class Pending {
 public:
  explicit Pending(Link& link) : link_(link) {}
  /// All sends before the first receive: a send's request to send must not queue behind the bytes that answering a
  /// peer's request lets go, or the two directions of a stream take turns.
  void send(const void* buffer, const Parts& parts, int to) {
    if (parts.empty()) return;
    begin("MPI_Isend", [&](MPI_Request* r) { return MPI_Isend(buffer, 1, parts.type(), to, 0, link_.data, r); });
  }
  void receive(void* buffer, const Parts& parts, int from) {
    if (parts.empty()) return;
    begin("MPI_Irecv", [&](MPI_Request* r) { return MPI_Irecv(buffer, 1, parts.type(), from, 0, link_.data, r); });
  }
  template <class Call>
  void begin(const char* name, Call call) {
    const std::lock_guard lock(link_.calls);
    check_mpi(call(&requests_.emplace_back(MPI_REQUEST_NULL)), name);
  }

  void wait() {
    using Clock = std::chrono::steady_clock;
    link_.heartbeat.collectives.fetch_add(1, std::memory_order_relaxed);
    const auto begin = Clock::now();
    Waiting waiting(link_.heartbeat.waiting);
    while (!done()) {
      waiting.tell();
      // What is under way stays so: the process is about to end, and nobody reads what MPI may still write.
      if (const int code = link_.failure.load(std::memory_order_relaxed); code >= 0) {
        fail(static_cast<ExitCode>(code), "the wait for other ranks was given up: the job has failed");
      }
      const auto waited = Clock::now() - begin;
      if (waited < std::chrono::milliseconds(2)) {
        std::this_thread::yield();
      } else {
        // MPI moves its messages in pieces, and only while it is called: long naps would slow the wire down.
        const bool long_wait = waited > std::chrono::seconds(5);
        std::this_thread::sleep_for(std::chrono::microseconds(long_wait ? 1000 : 20));
      }
    }
    requests_.clear();
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
  bool done() {
    const std::lock_guard lock(link_.calls);
    int done = 0;
    check_mpi(MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done, MPI_STATUSES_IGNORE),
              "MPI_Testall");
    return done != 0;
  }
  Link& link_;
  std::vector<MPI_Request> requests_;
};

/// Every rank gets its ranges of all ranks' `whole`, laid end to end, and sums them; the own ones are read in place.
class ReductionMessages : public Reduction {
 public:
  ReductionMessages(Link& link, std::span<float> whole, float* shard, const Ownership& ranges, int64_t leaves,
                    SumOrder order)
      : link_(link),
        whole_(reinterpret_cast<const std::byte*>(whole.data())),
        numel_(elements_of(ranges[static_cast<size_t>(link.rank)])),
        receive_({{.elements = numel_}}, &ShardRange::whole, link.calls),
        sums_(ranges[static_cast<size_t>(link.rank)], shard, link.size, leaves, order),
        traffic_(traffic_of_reduce_scatter(ranges, link.rank)),
        pending_(link) {
    for (const std::vector<ShardRange>& own : ranges) send_.emplace_back(own, &ShardRange::whole, link.calls);
    const auto floats = static_cast<size_t>(numel_ * (link.size - 1));
    if (link.received.size() < floats) link.received = std::vector<float>(floats);
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

 private:
  float* received(int from) const { return link_.received.data() + numel_ * (from < link_.rank ? from : from - 1); }
  const float* leaf(int rank, const ShardRange& range, int64_t packed) const {
    if (rank == link_.rank) return reinterpret_cast<const float*>(whole_ + range.whole);
    return received(rank) + packed;
  }
  void exchange() {
    for (int i = 1; i < link_.size; ++i) {
      const int to = (link_.rank + i) % link_.size;
      pending_.send(whole_, send_[static_cast<size_t>(to)], to);
    }
    for (int i = 1; i < link_.size; ++i) {
      const int from = (link_.rank + link_.size - i) % link_.size;
      pending_.receive(received(from), receive_, from);
    }
    pending_.wait();
    link_.traffic[TrafficKind::training].add(traffic_);
  }

  Link& link_;
  const std::byte* whole_;
  int64_t numel_;
  Parts receive_;
  std::vector<Parts> send_;  // by rank
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
        send_(mine_, &ShardRange::shard, link.calls),
        counter_(link.traffic[kind]),
        traffic_(traffic_of_all_gather(ranges, link.rank)),
        pending_(link) {
    for (const std::vector<ShardRange>& own : ranges) receive_.emplace_back(own, &ShardRange::whole, link.calls);
    if (whole == shard) mine_.clear();
  }

  void launch() override {
    for (int i = 1; i < link_.size; ++i) pending_.send(shard_, send_, (link_.rank + i) % link_.size);
    for (int i = 1; i < link_.size; ++i) {
      const int from = (link_.rank + link_.size - i) % link_.size;
      pending_.receive(whole_, receive_[static_cast<size_t>(from)], from);
    }
    for (const ShardRange& range : mine_) {
      std::memcpy(whole_ + range.whole, shard_ + range.shard,
                  static_cast<size_t>(range.elements * range.element_bytes));
    }
    pending_.wait();
    counter_.add(traffic_);
  }

 private:
  Link& link_;
  std::byte* whole_;
  const std::byte* shard_;
  std::vector<ShardRange> mine_;  // to be copied
  Parts send_;
  std::vector<Parts> receive_;  // by rank
  TrafficCounters::Counter& counter_;
  Traffic traffic_;
  Pending pending_;
};

class AllReduceMessages : public Collective {
 public:
  AllReduceMessages(Link& link, std::span<float> data, const Ownership& slices)
      : reduce_(link, data, data.data(), slices, link.size, SumOrder::canonical),
        gather_(link, reinterpret_cast<std::byte*>(data.data()), reinterpret_cast<std::byte*>(data.data()), slices,
                TrafficKind::training) {}
  void launch() override {
    reduce_.finish();
    gather_.launch();
  }

 private:
  ReductionMessages reduce_;
  AllGatherMessages gather_;
};

/// Sums as MPI adds them.
class AllReduceByMpi : public Collective {
 public:
  AllReduceByMpi(Link& link, std::span<float> data, Traffic traffic)
      : link_(link), data_(data), traffic_(traffic), pending_(link) {}
  void launch() override {
    constexpr size_t kMost = size_t{1} << 28;  // MPI counts in ints
    for (size_t at = 0; at < data_.size(); at += kMost) {
      const int count = static_cast<int>(std::min(kMost, data_.size() - at));
      pending_.begin("MPI_Iallreduce", [&](MPI_Request* request) {
        return MPI_Iallreduce(MPI_IN_PLACE, data_.data() + at, count, MPI_FLOAT, MPI_SUM, link_.data, request);
      });
    }
    pending_.wait();
    link_.traffic[TrafficKind::training].add(traffic_);
  }

 private:
  Link& link_;
  std::span<float> data_;
  Traffic traffic_;
  Pending pending_;
};

class MpiMessages : public Communicator {
 public:
  MpiMessages() {
    check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &link_.rank), "MPI_Comm_rank");
    check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &link_.size), "MPI_Comm_size");
    prctl(PR_SET_TIMERSLACK, 1000);  // ns: naps in waits are short ones
    check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &link_.control), "MPI_Comm_dup");
  }
  int rank() const override { return link_.rank; }
  int size() const override { return link_.size; }
  std::string description() const override { return str(link_.size, " processes (MPI messages)"); }

  std::byte* allocate(size_t bytes) override {
    blocks_.emplace_back(new (kAlignment) std::byte[bytes]{});
    allocated_ += bytes;
    return blocks_.back().get();
  }
  std::unique_ptr<Collective> all_reduce(std::span<float> data, SumOrder order) override {
    const Ownership slices = even_slices(link_.size, static_cast<int64_t>(data.size()));
    if (order == SumOrder::canonical) return std::make_unique<AllReduceMessages>(link_, data, slices);
    return std::make_unique<AllReduceByMpi>(link_, data, traffic_of_all_reduce(slices, link_.rank));
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
  Traffic traffic(TrafficKind kind) const override { return link_.traffic[kind].read(); }
  bool overlaps() const override { return true; }
  size_t allocated_bytes() const override { return allocated_ + link_.received.size() * sizeof(float); }

  void gather_all(std::span<const std::byte> mine, std::span<std::byte> all) override {
    check(all.size() == mine.size() * static_cast<size_t>(link_.size) && mine.size() <= INT_MAX, "gather_all of ",
          mine.size(), " bytes into ", all.size());
    const int bytes = static_cast<int>(mine.size());
    Pending pending(link_);
    pending.begin("MPI_Iallgather", [&](MPI_Request* request) {
      return MPI_Iallgather(mine.data(), bytes, MPI_BYTE, all.data(), bytes, MPI_BYTE, link_.control, request);
    });
    pending.wait();
  }
  void broadcast(std::span<std::byte> data, int root) override {
    check(data.size() <= INT_MAX, "broadcast of ", data.size(), " bytes");
    Pending pending(link_);
    const int bytes = static_cast<int>(data.size());
    pending.begin("MPI_Ibcast", [&](MPI_Request* request) {
      return MPI_Ibcast(data.data(), bytes, MPI_BYTE, root, link_.control, request);
    });
    pending.wait();
  }
  void barrier() override {
    Pending pending(link_);
    pending.begin("MPI_Ibarrier", [&](MPI_Request* request) { return MPI_Ibarrier(link_.control, request); });
    pending.wait();
  }
  Heartbeat& heartbeat() override { return link_.heartbeat; }
  // Other hosts learn of it from the launcher, which ends the job as soon as this process has exited.
  bool abort(int exit_code) noexcept override {
    int none = -1;
    return link_.failure.compare_exchange_strong(none, exit_code);
  }
  bool aborted() const noexcept override { return link_.failure.load(std::memory_order_relaxed) >= 0; }
  void finish() override {
    barrier();
    check_mpi(MPI_Finalize(), "MPI_Finalize");
  }

 private:
  Link link_;
  std::vector<Block> blocks_;
  size_t allocated_ = 0;
};

}  // namespace

std::unique_ptr<Communicator> make_mpi_messages() { return std::make_unique<MpiMessages>(); }

}  // namespace ct
