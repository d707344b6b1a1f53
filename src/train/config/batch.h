// DeepSpeed's batch triad: train_batch_size = micro-batch x gradient_accumulation_steps x ranks (runtime/config.py,
// _set_batch_related_parameters and _batch_assertion). Sizes count images.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ct {

inline constexpr int64_t kLargestBatch = 1 << 20;  // of any kind of batch, so that no product of them overflows

/// Elastic training: the batch is chosen so that many numbers of ranks fit it. src/deepspeed/ computes it as DeepSpeed
/// does (elasticity/elasticity.py, versions 0.1 and 0.2, and its errors word for word).
struct Elasticity {
  int64_t max_train_batch_size = 0;
  std::vector<int64_t> micro_batch_sizes;
  int64_t min_gpus = 1, max_gpus = 10000;
  bool prefer_larger_batch = true;
  double version = 0.2;           // 0.2: whole nodes are added and removed
  int64_t num_gpus_per_node = 1;  // of version 0.2
  bool may_exceed = false;        // set by compat: elastic_excess; accepts a batch above the maximum

  bool operator==(const Elasticity&) const = default;
};

inline constexpr size_t kMostMicroBatchSizes = 64;

/// The batch that fits the most numbers of ranks, and these numbers, ascending. Throws Error(usage) for contradictory
/// keys, and for a batch above the maximum.
struct ElasticBatch {
  int64_t train = 0;
  std::vector<int64_t> ranks;
};
ElasticBatch elastic_batch(const Elasticity& keys);

/// The sizes for `ranks` ranks: the elastic batch, and the largest micro-batch that divides a rank's share. A number
/// that does not fit is Error(usage) in version 0.1; in 0.2 it gets its own batch.
struct ElasticSizes {
  int64_t train = 0, micro = 0;
};
ElasticSizes elastic_sizes(const Elasticity& keys, int64_t ranks);

struct BatchSizes {
  int64_t train = 0;  // of one optimizer step, all ranks together
  int64_t micro = 0;  // of one forward and backward pass on one rank
  int64_t accumulation = 0;

  bool operator==(const BatchSizes&) const = default;
};

inline constexpr std::string_view kBatchKeys[] = {"train_batch_size", "train_micro_batch_size_per_gpu",
                                                  "gradient_accumulation_steps"};

/// The batch keys of a configuration; absent ones follow from the others and the number of ranks.
struct BatchKeys {
  std::optional<int64_t> train, micro, accumulation;
  std::optional<Elasticity> elastic = {};  // replaces them

  bool operator==(const BatchKeys&) const = default;
};

/// DeepSpeed's rule, with exactly its messages. Throws Error(usage) if the numbers do not fit.
BatchSizes derive_batch(const BatchKeys& keys, int64_t ranks);

/// derive_batch with an error that also states the fitting numbers of ranks, and a key whose other value fits.
BatchSizes batch_for(const BatchKeys& keys, int64_t ranks);

/// The smallest rank counts (at most `limit` of them) that derive_batch accepts.
std::vector<int64_t> fitting_ranks(const BatchKeys& keys, size_t limit);

/// `--ranks auto`: the largest power of two that is at most `cores` and divides train / micro; exactly train / micro /
/// accumulation if all three are given; for an elastic batch the largest number that fits. 1 if the train or
/// micro-batch size is not given, because the result would then depend on the machine, and if no number fits (batch_for
/// then throws).
int64_t auto_ranks(const BatchKeys& keys, int64_t cores);

/// The output of `config check`: one line for each of these numbers of ranks.
std::string batch_table(const BatchKeys& keys, const std::vector<int64_t>& ranks);

}  // namespace ct
