#include "train/memory/usage.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "base/host.h"
#include "comm/all_ranks.h"

namespace ct {
Json usage_of(Communicator& comm, const UsageArgs& args) {
  const MemoryUse train = args.engine.bound().allocated(), evaluate = args.evaluator.bound().allocated();
  // Ranks that are threads of one process share what the system counts.
  const int64_t pid = getpid();
  const auto pids = gather(comm, std::span(&pid, 1));
  const bool threads = std::ranges::count(pids, pid) == std::ssize(pids);
  const auto mean = [&](int64_t mine) {
    double sum = 0;
    for (const int64_t n : gather(comm, std::span<const int64_t>(&mine, 1))) sum += static_cast<double>(n);
    return sum / comm.size();
  };
  const auto bytes = [&](int64_t mine) { return std::llround(mean(mine)); };
  const auto of_process = [&](int64_t mine) { return static_cast<int64_t>(mean(mine) / (threads ? comm.size() : 1)); };
  const auto a_step = [&](int64_t mine) { return mean(mine) / static_cast<double>(std::max<int64_t>(args.steps, 1)); };
  Json allocated = {{"weights", bytes(train.weights + evaluate.weights)},
                    {"gradients", bytes(train.gradients)},
                    {"optimizer", bytes(train.optimizer)},
                    {"activations", bytes(train.activations + evaluate.activations)},
                    {"gradient_buckets", bytes(train.exchange + evaluate.exchange)},
                    {"other", bytes(train.other + evaluate.other)},
                    {"snapshot", bytes(static_cast<int64_t>(args.snapshot_bytes))}};
  int64_t total = 0;
  for (const auto& [category, n] : allocated.items()) total += n.get<int64_t>();
  Json peak = {{"total", total},
               {"process", of_process(peak_resident_bytes())},
               {"proportional", of_process(proportional_bytes())}};
  peak.update(allocated);
  peak["readable_by_peers"] = bytes(static_cast<int64_t>(comm.allocated_bytes()));
  peak["transient"] = {{"gathered_weights", bytes(std::max(train.gathered_weights, evaluate.gathered_weights))},
                       {"gradient_buckets", bytes(train.gradient_buckets)}};
  return {{"peak_bytes", peak},
          {"traffic",
           {{"elements", a_step(args.moved.elements)},
            {"bytes", a_step(args.moved.bytes)},
            {"norm_elements", a_step(args.norms.elements)}}}};
}

}  // namespace ct
