#include "comm/host/staged.h"

#include <algorithm>

#include "base/error.h"
#include "comm/reduction/ownership.h"
#include "device/scratch.h"

namespace ct {
namespace {

/// Bytes that have a twin on the host.
struct Twin {
  std::byte *device, *host;
  int64_t bytes;
};
using Twins = std::vector<Twin>;

void to_host(Backend& backend, const Twins& twins) {
  for (const Twin& t : twins) backend.copy(t.host, t.device, static_cast<size_t>(t.bytes));
  backend.wait();
}
void to_device(Backend& backend, const Twins& twins) {
  for (const Twin& t : twins) backend.copy(t.device, t.host, static_cast<size_t>(t.bytes));
}

/// The bytes of ranges at `place` in a buffer and its twin, neighbours joined.
Twins twins_of(std::vector<ShardRange> ranges, int64_t ShardRange::*place, std::byte* device, std::byte* host) {
  std::sort(ranges.begin(), ranges.end(),
            [&](const ShardRange& a, const ShardRange& b) { return a.*place < b.*place; });
  Twins twins;
  for (const ShardRange& p : ranges) {
    const int64_t begin = p.*place, bytes = p.bytes();
    if (!twins.empty() && twins.back().device + twins.back().bytes == device + begin)
      twins.back().bytes += bytes;
    else if (bytes > 0)
      twins.push_back({device + begin, host + begin, bytes});
  }
  return twins;
}

std::vector<ShardRange> all_of(const Ownership& ranges) {
  std::vector<ShardRange> all;
  for (const auto& of_rank : ranges) all.insert(all.end(), of_rank.begin(), of_rank.end());
  return all;
}

class StagedCollective final : public Collective {
 public:
  StagedCollective(Backend& backend, std::unique_ptr<Collective> host, Twins in, Twins out)
      : backend_(backend), host_(std::move(host)), in_(std::move(in)), out_(std::move(out)) {}
  void launch() override {
    to_host(backend_, in_);
    host_->launch();
    to_device(backend_, out_);
  }

 private:
  Backend& backend_;
  std::unique_ptr<Collective> host_;
  Twins in_, out_;
};

class StagedReduction final : public Reduction {
 public:
  StagedReduction(Backend& backend, std::unique_ptr<Reduction> host, Twins in, Twins out)
      : backend_(backend), host_(std::move(host)), in_(std::move(in)), out_(std::move(out)) {}
  void push() override {
    to_host(backend_, in_);
    host_->push();
  }
  void finish() override {
    to_host(backend_, in_);
    host_->finish();
    to_device(backend_, out_);
  }
  size_t bytes() const override { return host_->bytes(); }

 private:
  Backend& backend_;
  std::unique_ptr<Reduction> host_;
  Twins in_, out_;
};

class Staged final : public Communicator {
 public:
  Staged(Backend& backend, Communicator& host) : backend_(backend), host_(host) {}

  int rank() const override { return host_.rank(); }
  int size() const override { return host_.size(); }
  std::string description() const override {
    return size() == 1 ? host_.description() : host_.description() + ", through host memory";
  }

  std::byte* allocate(size_t bytes) override {
    Room room{.device = backend_.allocate(bytes), .host = host_.allocate(bytes)};
    room.pinned = backend_.pin({room.host, bytes});
    rooms_.push_back(std::move(room));
    return rooms_.back().device.data();
  }

  std::unique_ptr<Collective> all_reduce(std::span<float> data, SumOrder order) override {
    auto* device = reinterpret_cast<std::byte*>(data.data());
    std::byte* host = twin(device);
    check(host != nullptr, "a collective over memory that allocate() did not give");
    const Twins whole{{device, host, static_cast<int64_t>(data.size_bytes())}};
    return std::make_unique<StagedCollective>(
        backend_, host_.all_reduce({reinterpret_cast<float*>(host), data.size()}, order), whole, whole);
  }

  std::unique_ptr<Reduction> reduce_scatter(std::span<float> whole, float* shard, Ownership ranges, int64_t leaves,
                                            SumOrder order) override {
    auto* device = reinterpret_cast<std::byte*>(whole.data());
    auto* to = reinterpret_cast<std::byte*>(shard);
    std::byte* host = twin(device);
    check(host != nullptr, "a collective over memory that allocate() did not give");
    const auto& mine = ranges[static_cast<size_t>(rank())];
    std::byte* host_shard = to == device ? host : stage(mine, &ShardRange::shard);
    Twins in = twins_of(all_of(ranges), &ShardRange::whole, device, host);
    Twins out = twins_of(mine, &ShardRange::shard, to, host_shard);
    auto reduction = host_.reduce_scatter({reinterpret_cast<float*>(host), whole.size()},
                                          reinterpret_cast<float*>(host_shard), std::move(ranges), leaves, order);
    return std::make_unique<StagedReduction>(backend_, std::move(reduction), std::move(in), std::move(out));
  }

  std::unique_ptr<Collective> all_gather(std::span<std::byte> whole, std::span<std::byte> shard, Ownership ranges,
                                         TrafficKind kind) override {
    std::byte* host_shard = twin(shard.data());
    check(host_shard != nullptr, "a collective over memory that allocate() did not give");
    std::byte* host_whole = whole.data() == shard.data() ? host_shard : stage(all_of(ranges), &ShardRange::whole);
    Twins in = twins_of(ranges[static_cast<size_t>(rank())], &ShardRange::shard, shard.data(), host_shard);
    Twins out = twins_of(all_of(ranges), &ShardRange::whole, whole.data(), host_whole);
    auto gather = host_.all_gather({host_whole, whole.size()}, {host_shard, shard.size()}, std::move(ranges), kind);
    return std::make_unique<StagedCollective>(backend_, std::move(gather), std::move(in), std::move(out));
  }

  Traffic traffic(TrafficKind kind) const override { return host_.traffic(kind); }
  bool overlaps() const override { return false; }
  size_t allocated_bytes() const override { return host_.allocated_bytes(); }
  void gather_all(std::span<const std::byte> mine, std::span<std::byte> all) override { host_.gather_all(mine, all); }
  void broadcast(std::span<std::byte> data, int root) override { host_.broadcast(data, root); }
  void barrier() override { host_.barrier(); }
  Heartbeat& heartbeat() override { return host_.heartbeat(); }
  std::shared_ptr<SharedBoard> board() override { return host_.board(); }
  bool abort(int exit_code) noexcept override { return host_.abort(exit_code); }
  bool aborted() const noexcept override { return host_.aborted(); }
  /// The host's ranks are their owner's to finish.
  void finish() override {
    backend_.wait();
    host_.barrier();
  }

 private:
  struct Room {
    Memory device;
    std::byte* host;
    Memory pinned = {};
  };

  /// Null: not memory of allocate().
  std::byte* twin(const std::byte* device) const {
    for (const Room& room : rooms_)
      if (device >= room.device.data() && device < room.device.data() + room.device.bytes())
        return room.host + (device - room.device.data());
    return nullptr;
  }

  /// Host memory for ranges of a buffer that peers do not see: one for all collectives, because each waits for the
  /// device before it begins, and what it leaves here is on its way when it ends.
  std::byte* stage(const std::vector<ShardRange>& ranges, int64_t ShardRange::*place) {
    int64_t end = 0;
    for (const ShardRange& p : ranges) end = std::max(end, p.*place + p.bytes());
    return staging_.of(static_cast<size_t>(end));
  }

  Backend& backend_;
  Communicator& host_;
  std::vector<Room> rooms_;
  Scratch staging_{[this](size_t bytes) { return backend_.allocate_host(bytes); }};
};

}  // namespace

std::unique_ptr<Communicator> make_staged(Backend& backend, Communicator& host) {
  return std::make_unique<Staged>(backend, host);
}

}  // namespace ct
