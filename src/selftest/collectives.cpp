#include "selftest/collectives.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <span>

#include "base/error.h"
#include "selftest/reference/tree.h"

namespace ct {
namespace {

constexpr int kRounds = 4;        // launched, then replayed three times
constexpr float kUntouched = -7;  // what lies in results that no collective has written

using Values = std::vector<float>;

/// Leaf `number` of round `round`. The library's order is unknown, so what it adds has sums that are exact in any.
Values leaf(int round, int64_t number, int64_t numel, SumOrder order) {
  return random_leaf(1000 * round + number, numel, /*integers=*/order == SumOrder::any);
}

Values sum_of_leaves(int round, int64_t leaves, int64_t numel, SumOrder order) {
  std::vector<Values> all;
  for (int64_t number = 0; number < leaves; ++number) all.push_back(leaf(round, number, numel, order));
  return reference_tree(all);
}

/// A range of `numel` floats for each rank, as NCCL's own collectives have it; or two ranges with a gap between them,
/// which lie in the shard the other way round and are sent one by one.
Ownership ranges_of(int ranks, int64_t numel, bool even) {
  constexpr auto kSize = static_cast<int64_t>(sizeof(float));
  const int64_t second = numel / 3, gap = 64, first = numel - second - gap;
  Ownership ranges;
  for (int rank = 0; rank < ranks; ++rank) {
    const int64_t begin = rank * numel * kSize;
    if (even) {
      ranges.push_back({{.whole = begin, .shard = 0, .elements = numel}});
    } else {
      ranges.push_back({{.whole = begin, .shard = second * kSize, .elements = first},
                        {.whole = begin + (first + gap) * kSize, .shard = 0, .elements = second}});
    }
  }
  return ranges;
}

void copy_piece(const ShardRange& range, const Values& from, int64_t from_byte, Values& to, int64_t to_byte) {
  std::memcpy(reinterpret_cast<std::byte*>(to.data()) + to_byte,
              reinterpret_cast<const std::byte*>(from.data()) + from_byte, static_cast<size_t>(range.bytes()));
}

bool same_bits(float a, float b) { return std::memcmp(&a, &b, sizeof a) == 0; }

std::string text(SumOrder order) { return order == SumOrder::canonical ? "canonical order" : "the library's order"; }
std::string text(bool even) { return even ? "even ranges" : "uneven ranges"; }

class Exercise {
 public:
  Exercise(Backend& backend, Communicator& comm, int64_t numel)
      : backend_(backend), comm_(comm), numel_(numel), ranks_(comm.size()), rank_(comm.rank()) {}

  void all_reduce(SumOrder order) {
    const int64_t numel = ranks_ * numel_;
    Buffer data(*this, numel);
    const auto collective = comm_.all_reduce(data.device, order);
    compare(
        "all_reduce, " + text(order), data, [&](int round) { data.upload(leaf(round, rank_, numel, order)); },
        [&] { collective->launch(); }, [&](int round) { return sum_of_leaves(round, ranks_, numel, order); });
  }

  void reduce_scatter(bool even, SumOrder order, int64_t micro_steps) {
    const int64_t numel = ranks_ * numel_, leaves = ranks_ * micro_steps;
    const Ownership ranges = ranges_of(ranks_, numel_, even);
    Buffer whole(*this, numel), shard(*this, numel_);
    std::vector<std::unique_ptr<Buffer>> gradients;
    for (int64_t j = 0; j < micro_steps; ++j) gradients.push_back(std::make_unique<Buffer>(*this, numel));
    const auto reduction = comm_.reduce_scatter(whole.device, shard.device.data(), ranges, leaves, order);
    compare(
        str("reduce_scatter of ", text(even), ", ", text(order), ", ", micro_steps,
            micro_steps == 1 ? " micro-step" : " micro-steps"),
        shard,
        [&](int round) {
          for (int64_t j = 0; j < micro_steps; ++j)
            gradients[static_cast<size_t>(j)]->upload(leaf(round, j * ranks_ + rank_, numel, order));
          shard.upload(Values(static_cast<size_t>(numel_), kUntouched));
        },
        [&] {
          for (int64_t j = 0; j < micro_steps; ++j) {
            const Buffer& gradient = *gradients[static_cast<size_t>(j)];
            backend_.copy(whole.device.data(), gradient.device.data(), whole.device.size_bytes());
            j + 1 < micro_steps ? reduction->push() : reduction->finish();
          }
        },
        [&](int round) {
          const Values sum = sum_of_leaves(round, leaves, numel, order);
          Values want(static_cast<size_t>(numel_), kUntouched);
          for (const ShardRange& range : ranges[static_cast<size_t>(rank_)])
            copy_piece(range, sum, range.whole, want, range.shard);
          return want;
        });
  }

  void all_gather(bool even) {
    const int64_t numel = ranks_ * numel_;
    const Ownership ranges = ranges_of(ranks_, numel_, even);
    Buffer whole(*this, numel), shard(*this, numel_);
    const auto collective =
        comm_.all_gather(std::as_writable_bytes(whole.device), std::as_writable_bytes(shard.device), ranges);
    compare(
        "all_gather of " + text(even), whole,
        [&](int round) {
          shard.upload(leaf(round, rank_, numel_, SumOrder::canonical));
          whole.upload(Values(static_cast<size_t>(numel), kUntouched));
        },
        [&] { collective->launch(); },
        [&](int round) {
          Values want(static_cast<size_t>(numel), kUntouched);
          for (int r = 0; r < ranks_; ++r) {
            const Values from = leaf(round, r, numel_, SumOrder::canonical);
            for (const ShardRange& range : ranges[static_cast<size_t>(r)])
              copy_piece(range, from, range.shard, want, range.whole);
          }
          return want;
        });
  }

  const std::vector<CollectiveResult>& results() const { return results_; }

 private:
  /// Memory of the device that collectives take, with the host's side of it.
  struct Buffer {
    Buffer(Exercise& of, int64_t numel)
        : backend(of.backend_),
          device(reinterpret_cast<float*>(of.comm_.allocate(static_cast<size_t>(numel) * sizeof(float))),
                 static_cast<size_t>(numel)),
          memory(backend.allocate_host(device.size_bytes())) {}
    void upload(const Values& values) {
      std::memcpy(memory.data(), values.data(), device.size_bytes());
      backend.copy(device.data(), memory.data(), device.size_bytes());
    }
    Values download() {
      backend.copy(memory.data(), device.data(), device.size_bytes());
      backend.wait();
      Values values(device.size());
      std::memcpy(values.data(), memory.data(), device.size_bytes());
      return values;
    }
    Backend& backend;
    std::span<float> device;
    Memory memory;
  };

  /// `body` kRounds times, each between the upload of its inputs and the comparison of `result` with what is wanted.
  void compare(const std::string& name, Buffer& result, const std::function<void(int round)>& upload,
               const std::function<void()>& body, const std::function<Values(int round)>& wanted) {
    std::string problem;
    std::unique_ptr<Replay> replay;
    for (int round = 0; round < kRounds && problem.empty(); ++round) {
      upload(round);
      if (round == 1) replay = backend_.record(body);
      replay ? replay->launch() : body();
      const Values got = result.download(), want = wanted(round);
      comm_.barrier();  // throws why, where the results are worthless because a rank or the library has failed
      const auto [at, there] = std::mismatch(got.begin(), got.end(), want.begin(), same_bits);
      if (at != got.end())
        problem = str(round == 0 ? "launched" : str("replay ", round), ": element ", at - got.begin(), " of ",
                      got.size(), " is ", *at, " in place of ", *there);
      else if (round > 0 && replay == nullptr)
        problem = "it was not recorded";
    }
    results_.push_back({name, problem});
  }

  Backend& backend_;
  Communicator& comm_;
  int64_t numel_;  // that a rank owns
  int ranks_, rank_;
  std::vector<CollectiveResult> results_;
};

}  // namespace

std::vector<CollectiveResult> run_collectives(Backend& backend, Communicator& comm, int64_t numel) {
  Exercise exercise(backend, comm, numel);
  for (const SumOrder order : {SumOrder::canonical, SumOrder::any}) {
    exercise.all_reduce(order);
    for (const bool even : {true, false})
      for (const int64_t micro_steps : {1, 3}) exercise.reduce_scatter(even, order, micro_steps);
  }
  for (const bool even : {true, false}) exercise.all_gather(even);
  return exercise.results();
}

}  // namespace ct
