#include "comm/exercise.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <thread>

#include "base/error.h"
#include "comm/mpi/mpi.h"
#include "comm/reference.h"
#include "comm/rendezvous/tcp_bootstrap.h"
#include "comm/ucx/ucx.h"

namespace ct {
namespace {

std::span<float> floats(std::byte* memory, int64_t numel) {
  return {reinterpret_cast<float*>(memory), static_cast<size_t>(numel)};
}

/// What all ranks together have counted since its making.
class TrafficWatch {
 public:
  TrafficWatch(Communicator& comm, TrafficKind kind) : comm_(comm), kind_(kind), before_(sum()) {}
  void expect(int64_t elements, int64_t bytes, const char* what) const {
    const Traffic now = sum();
    check(now.elements - before_.elements == elements && now.bytes - before_.bytes == bytes, what, " counted ",
          now.elements - before_.elements, " elements, ", now.bytes - before_.bytes, " bytes in place of ", elements,
          ", ", bytes);
  }

 private:
  Traffic sum() const {
    const Traffic mine = comm_.traffic(kind_);
    std::vector<Traffic> all(static_cast<size_t>(comm_.size()));
    comm_.gather_all(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
    Traffic total;
    for (const Traffic& t : all) {
      total.elements += t.elements;
      total.bytes += t.bytes;
    }
    return total;
  }
  Communicator& comm_;
  TrafficKind kind_;
  Traffic before_;
};

template <class Act>
void on_another_thread(Act act) {
  std::exception_ptr error;
  std::thread([&] {
    try {
      act();
    } catch (...) {
      error = std::current_exception();
    }
  }).join();
  if (error) std::rethrow_exception(error);
}

void all_reduce(Communicator& comm, int64_t numel, bool integers, SumOrder order) {
  const auto want = reference_tree(random_leaves(comm.size(), numel, integers));
  // Inside a larger buffer whose ends must stay untouched.
  const std::span<float> whole = floats(comm.allocate(static_cast<size_t>(numel + 6) * sizeof(float)), numel + 6);
  for (const float x : whole) check(x == 0, "allocate must give zeros");
  whole[2] = whole[static_cast<size_t>(numel) + 3] = -1.f;
  const std::span<float> data = whole.subspan(3, static_cast<size_t>(numel));
  const auto collective = comm.all_reduce(data, order);
  const TrafficWatch watch(comm, TrafficKind::training);
  for (int round = 0; round < 3; ++round) {
    std::ranges::copy(random_leaf(comm.rank(), numel, integers), data.begin());
    round == 1 ? on_another_thread([&] { collective->launch(); }) : collective->launch();
    check(same_bits(data, want), "all_reduce of ", numel, " on rank ", comm.rank());
    std::ranges::fill(data, -7.f);  // what a fast rank writes next must not reach a slow one
  }
  // Not after each round: asking is a barrier, which would hide one that is missing.
  watch.expect(3 * 2 * numel * (comm.size() - 1), 3 * 8 * numel * (comm.size() - 1), "all_reduce");
  check(whole[2] == -1.f && whole[static_cast<size_t>(numel) + 3] == -1.f, "all_reduce wrote beside its buffer");
}

struct Pieces {
  Ownership owned;
  std::vector<char> covered;  // which bytes of whole have an owner
  int64_t elements = 0, bytes = 0;
  int64_t whole_bytes = 0, shard_bytes = 0;
};

/// Up to `count` ranges of random owners, lengths and gaps; some are empty, some neighbours, the second rank of several
/// has none. Packed shards hold them last to first, which no order of `whole` gives.
Pieces random_ranges(int ranks, int count, int element_bytes, bool in_place) {
  Random random(3, Purpose::init, static_cast<uint64_t>(ranks * 1000 + count * 10 + element_bytes));
  Pieces p;
  p.owned.resize(static_cast<size_t>(ranks));
  for (int i = 0; i < count; ++i) {
    auto owner = static_cast<size_t>(random.next_u32()) % static_cast<size_t>(ranks);
    if (owner == 1) owner = static_cast<size_t>(ranks) - 1 == 1 ? 0 : 2;
    const auto elements = static_cast<int64_t>(i % 7 == 3 ? 0 : 1 + random.next_u32() % 97);
    if (random.next_u32() % 2 == 0) p.whole_bytes += 8 * static_cast<int64_t>(random.next_u32() % 5);
    p.owned[owner].push_back({.whole = p.whole_bytes, .elements = elements, .element_bytes = element_bytes});
    p.covered.resize(static_cast<size_t>(p.whole_bytes));
    p.whole_bytes += elements * element_bytes;
    p.covered.resize(static_cast<size_t>(p.whole_bytes), 1);
    p.elements += elements;
    p.bytes += elements * element_bytes;
  }
  p.whole_bytes = (p.whole_bytes + 23) / 8 * 8;
  p.covered.resize(static_cast<size_t>(p.whole_bytes));
  for (auto& own : p.owned) {
    int64_t at = 0;
    for (auto range = own.rbegin(); range != own.rend(); ++range) {
      range->shard = in_place ? range->whole : at;
      at += range->elements * element_bytes;
    }
    p.shard_bytes = std::max(p.shard_bytes, at);
    if (own.size() > 2) std::swap(own[0], own[2]);  // no order is asked for
  }
  if (in_place) p.shard_bytes = p.whole_bytes;
  return p;
}

void gather(Communicator& comm, int count, int element_bytes, bool in_place, TrafficKind kind) {
  const Pieces p = random_ranges(comm.size(), count, element_bytes, in_place);
  const auto size = [](int64_t bytes) { return static_cast<size_t>(bytes); };
  std::byte* memory = comm.allocate(size(p.shard_bytes));
  std::vector<std::byte> elsewhere(in_place ? 0 : size(p.whole_bytes));
  const std::span<std::byte> shard(memory, size(p.shard_bytes));
  const std::span<std::byte> whole = in_place ? shard : std::span(elsewhere);
  const auto collective = comm.all_gather(whole, shard, p.owned, kind);
  const auto content = [](int64_t byte, int round) { return static_cast<std::byte>(byte * 37 + byte / 256 + round); };
  const TrafficWatch watch(comm, kind);
  const TrafficWatch other(comm, kind == TrafficKind::norms ? TrafficKind::training : TrafficKind::norms);
  for (int round = 0; round < 3; ++round) {
    std::ranges::fill(whole, std::byte{99});
    for (const ShardRange& range : p.owned[static_cast<size_t>(comm.rank())]) {
      for (int64_t i = 0; i < range.elements * element_bytes; ++i) {
        shard[size(range.shard + i)] = content(range.whole + i, round);
      }
    }
    round == 1 ? on_another_thread([&] { collective->launch(); }) : collective->launch();
    for (int64_t i = 0; i < p.whole_bytes; ++i) {
      check(whole[size(i)] == (p.covered[size(i)] ? content(i, round) : std::byte{99}), "all_gather: byte ", i, " of ",
            p.whole_bytes, " on rank ", comm.rank());
    }
    std::ranges::fill(shard, std::byte{77});  // what a fast rank writes next must not reach a slow one
  }
  watch.expect(3 * (comm.size() - 1) * p.elements, 3 * (comm.size() - 1) * p.bytes, "all_gather");
  other.expect(0, 0, "all_gather of another kind");
}

void scatter(Communicator& comm, int count, int64_t micro_steps, bool in_place, SumOrder order) {
  const Pieces p = random_ranges(comm.size(), count, sizeof(float), in_place);
  const int64_t n = comm.size(), numel = p.whole_bytes / 4;
  const bool integers = order == SumOrder::any;  // whose sums are exact
  const auto want = reference_tree(random_leaves(n * micro_steps, numel, integers));
  const std::span<float> whole = floats(comm.allocate(static_cast<size_t>(p.whole_bytes)), numel);
  float* shard =
      in_place ? whole.data() : floats(comm.allocate(static_cast<size_t>(p.shard_bytes)), p.shard_bytes / 4).data();
  const auto reduction = comm.reduce_scatter(whole, shard, p.owned, n * micro_steps, order);
  const auto& mine = p.owned[static_cast<size_t>(comm.rank())];
  int64_t own_bytes = 0;
  for (const ShardRange& range : mine) own_bytes += range.elements * 4;
  const TrafficWatch watch(comm, TrafficKind::training);
  for (int round = 0; round < 3; ++round) {
    const auto step = [&] {
      for (int64_t j = 0; j < micro_steps; ++j) {
        std::ranges::copy(random_leaf(j * n + comm.rank(), numel, integers), whole.begin());
        j + 1 < micro_steps ? reduction->push() : reduction->finish();
      }
    };
    round == 1 ? on_another_thread(step) : step();
    for (const ShardRange& range : mine) {
      const std::span<const float> sum(shard + range.shard / 4, static_cast<size_t>(range.elements));
      const std::span<const float> part =
          std::span(want).subspan(static_cast<size_t>(range.whole / 4), static_cast<size_t>(range.elements));
      check(same_bits(sum, part), "reduce_scatter of ", count, " ranges, ", micro_steps, " micro-steps, on rank ",
            comm.rank());
    }
    std::ranges::fill(whole, -7.f);
  }
  watch.expect(3 * (n - 1) * p.elements * micro_steps, 3 * (n - 1) * p.bytes * micro_steps, "reduce_scatter");
  const auto bytes = static_cast<int64_t>(reduction->bytes());
  if (micro_steps == 1) check(bytes == 0, "a reduction without push() keeps ", bytes, " bytes");
  if (micro_steps == 2 && (n & (n - 1)) == 0) check(bytes == own_bytes, "one partial sum takes ", bytes, " bytes");
  if (order == SumOrder::any && micro_steps > 1) check(bytes == own_bytes, "one partial sum takes ", bytes, " bytes");
}

/// What every rank's numbers become when sums may be rounded to 16 bits but for a stretch in the middle.
void narrow(Communicator& comm, DType type, bool scattered) {
  const int64_t numel = 5001, from = 1000, to = 1100;
  const Narrowing narrowing{type, {{0, from}, {to, numel}}};
  const float fine = 1 + 0x1p-14f;  // of 16 bits neither type has it
  const std::span<float> data = floats(comm.allocate(static_cast<size_t>(numel) * sizeof(float)), numel);
  Ownership ranges(static_cast<size_t>(comm.size()));
  for (int64_t r = 0; r < comm.size(); ++r) {
    const int64_t begin = numel * r / comm.size(), end = numel * (r + 1) / comm.size();
    ranges[static_cast<size_t>(r)] = {{.whole = 4 * begin, .shard = 4 * begin, .elements = end - begin}};
  }
  const auto reduce = scattered ? nullptr : comm.narrow_all_reduce(data, narrowing);
  const auto scatter =
      scattered ? comm.narrow_reduce_scatter(data, data.data(), ranges, 2 * comm.size(), narrowing) : nullptr;
  const int micro_steps = scattered ? 2 : 1;
  for (int round = 0; round < 3; ++round) {
    for (int j = 0; j < micro_steps; ++j) {
      for (int64_t i = 0; i < numel; ++i)
        data[static_cast<size_t>(i)] = i % 7 == 0 ? fine : static_cast<float>(i % 8 + comm.rank());
      if (!scattered)
        reduce->launch();
      else
        j + 1 < micro_steps ? scatter->push() : scatter->finish();
    }
    const auto n = static_cast<float>(comm.size());
    const ShardRange& mine = ranges[static_cast<size_t>(comm.rank())][0];
    const int64_t begin = scattered ? mine.whole / 4 : 0, end = scattered ? begin + mine.elements : numel;
    for (int64_t i = begin; i < end; ++i) {
      const bool exact = i >= from && i < to;
      // The own part is not rounded before it is added, the sum of an all_reduce is in the end.
      const float ones = exact ? n * fine : scattered ? n - 1 + fine : n;
      const float want =
          static_cast<float>(micro_steps) * (i % 7 == 0 ? ones : n * static_cast<float>(i % 8) + n * (n - 1) / 2);
      const float is = data[static_cast<size_t>(i)];
      check(std::abs(is - want) <= (i % 7 == 0 ? 1e-6f * want : 0), "a narrow sum: element ", i, " is ", is,
            " in place of ", want, " on rank ", comm.rank());
    }
    std::ranges::fill(data, -7.f);
  }
}

void control(Communicator& comm) {
  const int n = comm.size();
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{4096}, size_t{4097}, size_t{100000}}) {
    std::vector<std::byte> mine(bytes, static_cast<std::byte>(comm.rank() + 1)), all(bytes * static_cast<size_t>(n));
    comm.gather_all(mine, all);
    for (size_t i = 0; i < all.size(); ++i) check(all[i] == static_cast<std::byte>(i / bytes + 1), "gather_all");
    for (int root = 0; root < n; ++root) {
      std::vector<std::byte> data(bytes, static_cast<std::byte>(comm.rank() == root ? root + 17 : 0));
      comm.broadcast(data, root);
      for (const std::byte b : data) check(b == static_cast<std::byte>(root + 17), "broadcast");
    }
  }
  for (int i = 0; i < 100; ++i) {  // whoever is ahead must not overwrite what others still read
    int value = i * n + comm.rank();
    std::vector<int> all(static_cast<size_t>(n));
    comm.gather_all(std::as_bytes(std::span(&value, 1)), std::as_writable_bytes(std::span(all)));
    for (int r = 0; r < n; ++r) check(all[static_cast<size_t>(r)] == i * n + r, "gather_all number ", i);
  }
}

void bench(Communicator& comm) {
  for (const int64_t numel : {int64_t{62'006}, int64_t{11'173'962}}) {
    const std::span<float> data = floats(comm.allocate(static_cast<size_t>(numel) * sizeof(float)), numel);
    const auto collective = comm.all_reduce(data);
    std::vector<double> times;
    for (int i = 0; i < 60; ++i) {
      comm.barrier();
      const int inner = numel < 100'000 ? 200 : 1;
      const auto begin = std::chrono::steady_clock::now();
      for (int k = 0; k < inner; ++k) collective->launch();
      times.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count() /
                      inner);
    }
    std::ranges::sort(times);
    if (comm.rank() == 0) {
      std::printf("%s: all_reduce of %ld floats: median %.1f us, least %.1f us\n", comm.description().c_str(),
                  static_cast<long>(numel), times[times.size() / 2], times[0]);
    }
  }
}

}  // namespace

void exercise(Communicator& comm) {
  control(comm);
  for (const int64_t numel : {0, 1, 15, 16, 17, 1000, 5001}) {
    all_reduce(comm, numel, true, SumOrder::canonical);
    all_reduce(comm, numel, false, SumOrder::canonical);
    all_reduce(comm, numel, true, SumOrder::any);
  }
  if (comm.narrows())
    for (const DType type : {DType::bf16, DType::f16})
      for (const bool scattered : {false, true}) narrow(comm, type, scattered);
  const size_t before = comm.allocated_bytes();
  comm.allocate(4096);
  check(comm.allocated_bytes() == before + 4096, "allocated_bytes");
  for (const bool in_place : {false, true}) {
    for (const int count : {0, 1, 2, 9, 300}) {
      for (const int element_bytes : {2, 4, 8}) gather(comm, count, element_bytes, in_place, TrafficKind::training);
    }
    gather(comm, 5, 8, in_place, TrafficKind::norms);
    for (int64_t micro_steps = 1; micro_steps == 1 || micro_steps * comm.size() <= 12; ++micro_steps) {
      scatter(comm, 9, micro_steps, in_place, SumOrder::canonical);
      scatter(comm, 9, micro_steps, in_place, SumOrder::any);
    }
    for (const int count : {0, 1, 300}) scatter(comm, count, 2, in_place, SumOrder::canonical);
  }
  const uint64_t meetings = comm.heartbeat().collectives;
  comm.barrier();
  check(comm.heartbeat().collectives > meetings && comm.heartbeat().waiting == 0, "the heartbeat of rank ",
        comm.rank());
}

namespace {

/// By MPI, or, for programs that are called "met-...", at MASTER_ADDR.
std::unique_ptr<Communicator> join(bool met, bool messages) {
  const Transport transport = messages ? Transport::messages_only : Transport::automatic;
  const Launch launch = detect_launch();
  if (!met) return join_mpi(launch, transport);
  TcpBootstrap ranks(launch.rank, launch.size, endpoint_of(own_environment()), {.timeout_s = 60});
  return join_ranks(ranks, transport, {.make_wire = [&] { return make_ucx_wire(ranks); }});
}

}  // namespace

int rank_program(const std::string& name) {
  const bool met = name.starts_with("met-");
  const std::string program = met ? name.substr(4) : name;
  std::unique_ptr<Communicator> comm;
  try {
    comm = join(met, program.starts_with("messages"));
    if (program == "bench") {
      bench(*comm);
    } else {
      exercise(*comm);
    }
    if (program == "messages-stuck") {  // rank 1 stays away; rank 0's watchdog finds out
      if (comm->rank() == 1) std::this_thread::sleep_for(std::chrono::seconds(60));
      std::thread watchdog([&] {
        while (comm->heartbeat().waiting == 0) std::this_thread::yield();
        std::printf("first: %d\n", comm->abort(static_cast<int>(ExitCode::peer)));
        std::fflush(stdout);
      });
      watchdog.detach();
      try {
        comm->barrier();
      } catch (const Error& error) {
        std::printf("aborted: %d, again: %d, %s\n", comm->aborted(), comm->abort(1), error.what());
        std::fflush(stdout);
        throw;
      }
    }
    if (program == "fail" && comm->rank() == 1) fail(ExitCode::data, "rank 1 found bad data");
    if (program == "die" && comm->rank() == 1) raise(SIGKILL);
    if (program == "leave" && comm->rank() == 1) _exit(0);
    comm->barrier();
    if (comm->rank() == 0) std::printf("all done: %s\n", comm->description().c_str());
    std::fflush(stdout);
    comm->finish();
    return program == "stop" ? 75 : 0;
  } catch (const Error& error) {
    if (!comm || comm->abort(static_cast<int>(error.code()))) std::fprintf(stderr, "error: %s\n", error.what());
    std::_Exit(static_cast<int>(error.code()));
  }
}

}  // namespace ct
