#include "train/memory/usage.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/host.h"

namespace ct {
namespace {

enum Field : size_t {
  kProcess,
  kPss,
  kWeights,
  kGradients,
  kOptimizer,
  kActivations,
  kBuckets,
  kOther,
  kSnapshot,
  kTransport,
  kGathered,
  kGradientBuckets,
  kElements,
  kBytes,
  kNormElements,
  kCount
};

double of(int64_t n) { return static_cast<double>(n); }

}  // namespace

Json usage_of(Communicator& comm, const UsageArgs& args) {
  const MemoryUse train = args.engine.bound().allocated(), evaluate = args.evaluator.bound().allocated();
  std::array<double, kCount> mine{};
  mine[kProcess] = of(peak_resident_bytes());
  mine[kPss] = of(proportional_bytes());
  mine[kWeights] = of(train.weights + evaluate.weights);
  mine[kGradients] = of(train.gradients);
  mine[kOptimizer] = of(train.optimizer);
  mine[kActivations] = of(train.activations + evaluate.activations);
  mine[kBuckets] = of(train.exchange + evaluate.exchange);
  mine[kOther] = of(train.other + evaluate.other);
  mine[kSnapshot] = static_cast<double>(args.snapshot_bytes);
  mine[kTransport] = static_cast<double>(comm.allocated_bytes());
  mine[kGathered] = of(std::max(train.gathered_weights, evaluate.gathered_weights));
  mine[kGradientBuckets] = of(train.gradient_buckets);
  mine[kElements] = of(args.moved.elements);
  mine[kBytes] = of(args.moved.bytes);
  mine[kNormElements] = of(args.norms.elements);

  std::vector<std::array<double, kCount>> all(static_cast<size_t>(comm.size()));
  comm.gather_all(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
  // Ranks that are threads of one process share what the system counts.
  const int64_t pid = getpid();
  std::vector<int64_t> pids(all.size());
  comm.gather_all(std::as_bytes(std::span(&pid, 1)), std::as_writable_bytes(std::span(pids)));
  const bool threads = std::all_of(pids.begin(), pids.end(), [&](int64_t p) { return p == pids[0]; });
  const auto mean = [&](Field field) {
    double sum = 0;
    for (const auto& rank : all) sum += rank[field];
    return sum / static_cast<double>(all.size());
  };
  const auto bytes = [&](Field field) { return static_cast<int64_t>(std::llround(mean(field))); };
  const double ranks_a_process = threads ? static_cast<double>(all.size()) : 1,
               steps = of(std::max<int64_t>(args.steps, 1));
  return {{"peak_bytes",
           {{"total", bytes(kWeights) + bytes(kGradients) + bytes(kOptimizer) + bytes(kActivations) + bytes(kBuckets) +
                          bytes(kOther) + bytes(kSnapshot)},
            {"process", static_cast<int64_t>(mean(kProcess) / ranks_a_process)},
            {"proportional", static_cast<int64_t>(mean(kPss) / ranks_a_process)},
            {"weights", bytes(kWeights)},
            {"gradients", bytes(kGradients)},
            {"optimizer", bytes(kOptimizer)},
            {"activations", bytes(kActivations)},
            {"gradient_buckets", bytes(kBuckets)},
            {"other", bytes(kOther)},
            {"snapshot", bytes(kSnapshot)},
            {"readable_by_peers", bytes(kTransport)},
            {"transient", {{"gathered_weights", bytes(kGathered)}, {"gradient_buckets", bytes(kGradientBuckets)}}}}},
          {"traffic",
           {{"elements", mean(kElements) / steps},
            {"bytes", mean(kBytes) / steps},
            {"norm_elements", mean(kNormElements) / steps}}}};
}

}  // namespace ct
