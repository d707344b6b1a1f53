// Elastic training: DeepSpeed chooses the batch so that many numbers of ranks fit it (elasticity/elasticity.py,
// versions 0.1 and 0.2, and its errors word for word).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ct {

inline constexpr int64_t kLargestBatch = 1 << 20;  // of any kind of batch, so that no product of them overflows

struct Elasticity {
  int64_t max_train_batch_size = 0;
  std::vector<int64_t> micro_batch_sizes;
  int64_t min_gpus = 1, max_gpus = 10000;
  bool prefer_larger_batch = true;
  double version = 0.2;           // 0.2: whole nodes come and go
  int64_t num_gpus_per_node = 1;  // of version 0.2
  bool may_exceed = false;        // no key: a batch above the maximum is taken, as up to DeepSpeed 0.19.5

  bool operator==(const Elasticity&) const = default;
};

inline constexpr size_t kMostMicroBatchSizes = 64;

/// The batch that the most counts of ranks fit, and these, ascending. Throws Error(usage) for keys that contradict each
/// other, and for a batch above the maximum.
struct ElasticBatch {
  int64_t train = 0;
  std::vector<int64_t> ranks;
};
ElasticBatch elastic_batch(const Elasticity& keys);

/// What so many ranks train with: that batch, and the largest micro-batch that divides a rank's share. Ranks that do
/// not fit it are Error(usage) in version 0.1; in 0.2 they get a batch of their own.
struct ElasticSizes {
  int64_t train = 0, micro = 0;
};
ElasticSizes elastic_sizes(const Elasticity& keys, int64_t ranks);

}  // namespace ct
