#include "comm/exercise.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "base/error.h"
#include "comm/mpi.h"
#include "comm/reference.h"
#include "comm/tree_sum.h"

namespace ct {
namespace {

std::span<float> floats(std::byte* memory, int64_t numel) {
  return {reinterpret_cast<float*>(memory), static_cast<size_t>(numel)};
}

void all_reduce(Communicator& comm, int64_t numel, bool integers) {
  const auto want = reference_tree(random_leaves(comm.size(), numel, integers));
  // Inside a larger buffer whose ends must stay untouched.
  const std::span<float> whole = floats(comm.allocate(static_cast<size_t>(numel + 6) * sizeof(float)), numel + 6);
  for (const float x : whole) check(x == 0, "allocate must give zeros");
  whole[2] = whole[static_cast<size_t>(numel) + 3] = -1.f;
  const std::span<float> data = whole.subspan(3, static_cast<size_t>(numel));
  const auto collective = comm.all_reduce(data);
  for (int round = 0; round < 3; ++round) {
    std::ranges::copy(random_leaf(comm.rank(), numel, integers), data.begin());
    collective->launch();
    check(same_bits(data, want), "all_reduce of ", numel, " on rank ", comm.rank());
    std::ranges::fill(data, -7.f);  // what a fast rank writes next must not reach a slow one
  }
  check(whole[2] == -1.f && whole[static_cast<size_t>(numel) + 3] == -1.f, "all_reduce wrote beside its buffer");
}

/// Unequal shards, one of them empty.
ShardBounds uneven(int ranks, int64_t numel) {
  ShardBounds bounds{0};
  for (int64_t r = 1; r < ranks; ++r) bounds.push_back(r == 1 && ranks > 2 ? 0 : numel * r * r / (ranks * ranks));
  bounds.push_back(numel);
  return bounds;
}

void scatter_and_gather(Communicator& comm, int64_t numel, int64_t micro_steps, bool finish_in_one_pass) {
  const int64_t n = comm.size(), leaves = n * micro_steps;
  const auto want = reference_tree(random_leaves(leaves, numel));
  const std::span<float> data = floats(comm.allocate(static_cast<size_t>(numel) * sizeof(float)), numel);
  const ShardBounds bounds = uneven(comm.size(), numel);
  const auto r = static_cast<size_t>(comm.rank());
  const auto begin = static_cast<size_t>(bounds[r]), length = static_cast<size_t>(bounds[r + 1] - bounds[r]);
  TreeSum tree(static_cast<int64_t>(length), leaves);
  float* mine = data.data() + begin;
  const auto push = comm.reduce_scatter(data, bounds, tree);
  const auto last = comm.reduce_scatter(data, bounds, tree, mine);
  const auto gather = comm.all_gather(data, bounds);
  for (int round = 0; round < 2; ++round) {
    for (int64_t j = 0; j < micro_steps; ++j) {
      std::ranges::copy(random_leaf(j * n + comm.rank(), numel), data.begin());
      (finish_in_one_pass && j + 1 == micro_steps ? last : push)->launch();
    }
    if (!finish_in_one_pass) tree.finish(mine);
    for (size_t i = 0; i < data.size(); ++i) {
      if (i < begin || i >= begin + length) data[i] = -3.f;
    }
    gather->launch();
    check(same_bits(data, want), "reduce_scatter and all_gather of ", numel, " on rank ", comm.rank());
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
    all_reduce(comm, numel, true);
    all_reduce(comm, numel, false);
  }
  for (const int64_t micro_steps : {1, 2, 3, 4}) {
    scatter_and_gather(comm, 3001, micro_steps, true);
    scatter_and_gather(comm, 3001, micro_steps, false);
  }
  scatter_and_gather(comm, 3, 2, true);
  comm.barrier();
}

int rank_program(const std::string& program) {
  std::unique_ptr<Communicator> comm;
  try {
    comm = join_mpi(detect_launch(), program == "messages" ? MpiTransport::messages_only : MpiTransport::automatic);
    if (program == "bench") {
      bench(*comm);
    } else {
      exercise(*comm);
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
