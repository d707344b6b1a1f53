// bench reduce: the sum over ranks, in the memory of the devices and through the communicator that training uses.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "cli/bench/bench.h"
#include "comm/reduction/chain_sum.h"
#include "comm/reduction/tree_sum.h"
#include "train/agree.h"
#include "train/session.h"

namespace ct {

int bench_reduce(const BenchFlags& f, const Config& config, Communicator& comm) {
  RankDevice device(config, comm, kFewerElements);
  Backend& backend = device.backend();
  Communicator& sums = device.collectives();
  const int64_t n = f.elements > 0 ? f.elements : 11'175'000;
  const size_t bytes = static_cast<size_t>(n) * sizeof(float);
  std::byte* memory = sums.allocate(bytes);
  const Memory host = backend.allocate_host(bytes);
  const std::span<float> data{reinterpret_cast<float*>(host.data()), static_cast<size_t>(n)};
  const auto value = [](int rank, int64_t i) {
    return static_cast<float>(rank + 1) * 0.1f + static_cast<float>(i % 1000) * 1e-3f;
  };
  for (int64_t i = 0; i < n; ++i) data[static_cast<size_t>(i)] = value(comm.rank(), i);
  backend.copy(memory, host.data(), bytes);
  auto reduce = sums.all_reduce({reinterpret_cast<float*>(memory), static_cast<size_t>(n)});
  comm.barrier();  // nobody allocates any more, which may have to wait for a device
  reduce->launch();
  backend.copy(host.data(), memory, bytes);
  backend.wait();

  // The result against the tree, bit by bit.
  TreeSum tree(kChainBlock, comm.size());
  std::vector<float> leaf(kChainBlock), sum(kChainBlock);
  bool same = true;
  for (int64_t at = 0; at + kChainBlock <= n; at += kChainBlock) {
    for (int r = 0; r < comm.size(); ++r) {
      for (int64_t i = 0; i < kChainBlock; ++i) leaf[static_cast<size_t>(i)] = value(r, at + i);
      tree.push(leaf.data());
    }
    tree.finish(sum.data());
    same = same && std::memcmp(sum.data(), &data[static_cast<size_t>(at)], kChainBlock * sizeof(float)) == 0;
  }
  if (any_rank(comm, !same)) fail(ExitCode::bug, "the sum over ranks differs from the tree");

  std::fill(data.begin(), data.end(), 0.0f);  // repeated sums must not overflow
  backend.copy(memory, host.data(), bytes);
  comm.barrier();
  const Spread time = time_windows(comm, f, "sums over ranks", [&](int64_t count) {
    for (int64_t i = 0; i < count; ++i) reduce->launch();
    backend.wait();
  });
  reduce.reset();
  device.finish();
  if (comm.rank() != 0) return 0;
  const std::string text =
      fmt::format("sum of {:.1f} MB over {} ranks ({}): {:.2f} ms ({:.2f} - {:.2f}), equal to the tree bit by bit",
                  static_cast<double>(n) * 4e-6, comm.size(), sums.description(), 1e3 * time.median, 1e3 * time.min,
                  1e3 * time.max);
  print(f,
        {{"bench", "reduce"},
         {"bytes", n * 4},
         {"ranks", comm.size()},
         {"ms", 1e3 * time.median},
         {"ms_min", 1e3 * time.min},
         {"ms_max", 1e3 * time.max},
         {"equal_to_tree", true}},
        text);
  return 0;
}

}  // namespace ct
