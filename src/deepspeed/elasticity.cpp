#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <set>
#include <string>

#include "base/error.h"
#include "train/config/foreign.h"
#include "train/config/validate.h"

namespace ct {
namespace {

/// Numbers with more divisors than any smaller one, as far as DeepSpeed lists them.
constexpr int64_t kHighlyComposite[] = {1,      2,      4,      6,      12,     24,     36,     48,    60,    120,
                                        180,    240,    360,    720,    840,    1260,   1680,   2520,  5040,  7560,
                                        10080,  15120,  20160,  25200,  27720,  45360,  50400,  55440, 83160, 110880,
                                        166320, 221760, 277200, 332640, 498960, 554400, 665280, 720720};

/// "[1, 2, 3]".
std::string list_text(const std::vector<int64_t>& numbers) { return fmt::format("[{}]", fmt::join(numbers, ", ")); }

/// The least common multiple; nothing where no batch may be so large.
std::optional<int64_t> common_multiple(const std::vector<int64_t>& numbers) {
  int64_t multiple = 1;
  for (const int64_t number : numbers) {
    multiple = multiple / std::gcd(multiple, number) * number;
    if (multiple > kLargestBatch) return {};
  }
  return multiple;
}

/// Each base, a micro-batch or their common multiple, times the largest highly composite number with which it stays
/// within `most`. A common multiple beyond `most` is a candidate as it is, as DeepSpeed's long was.
std::set<int64_t> candidates(const std::vector<int64_t>& micro_batches, int64_t most) {
  std::vector<int64_t> bases = micro_batches;
  if (const auto multiple = common_multiple(micro_batches)) bases.push_back(*multiple);
  std::set<int64_t> found;
  for (const int64_t base : bases) {
    int64_t factor = 1;
    for (const int64_t number : kHighlyComposite)
      if (number * base <= most) factor = number;
    found.insert(factor * base);
  }
  return found;
}

/// The counts from `least` to `most` that share `batch` out evenly in some micro-batch.
std::vector<int64_t> fitting_counts(int64_t batch, const std::vector<int64_t>& micro_batches, int64_t least,
                                    int64_t most) {
  std::set<int64_t> counts;
  const auto consider = [&](int64_t count) {
    if (count >= least && count <= most) counts.insert(count);
  };
  for (const int64_t micro : micro_batches) {
    if (batch % micro != 0) continue;
    const int64_t shares = batch / micro;
    for (int64_t i = 1; i * i <= shares; ++i)
      if (shares % i == 0) consider(i), consider(shares / i);
  }
  return {counts.begin(), counts.end()};
}

/// The candidate that the most counts fit; of equals the larger, or the smaller.
ElasticBatch best_batch(const Elasticity& keys, int64_t most_images, int64_t least, int64_t most) {
  const std::vector<int64_t>& micro = keys.micro_batch_sizes;
  if (std::ranges::max(micro) > most_images)
    fail(ExitCode::usage, "All micro batches must be less than or equal to max_acceptable_batch_size: ", most_images);
  ElasticBatch best{.train = std::ranges::min(micro)};
  for (const int64_t batch : candidates(micro, most_images)) {
    std::vector<int64_t> counts = fitting_counts(batch, micro, least, most);
    const bool preferred = keys.prefer_larger_batch ? batch > best.train : batch < best.train;
    if (counts.size() > best.ranks.size() || (counts.size() == best.ranks.size() && preferred))
      best = {batch, std::move(counts)};
  }
  return best;
}

/// For these ranks alone: the largest, or smallest, that some micro-batch allows.
int64_t batch_of_other_ranks(const Elasticity& keys, int64_t ranks) {
  std::vector<int64_t> batches;
  for (const int64_t micro : keys.micro_batch_sizes)
    batches.push_back(keys.max_train_batch_size / (micro * ranks) * micro * ranks);
  return keys.prefer_larger_batch ? std::ranges::max(batches) : std::ranges::min(batches);
}

bool by_nodes(const Elasticity& keys) { return keys.version == 0.2; }

/// Of single ranks, or of whole nodes.
ElasticBatch most_fitted(const Elasticity& keys) {
  if (!by_nodes(keys)) return best_batch(keys, keys.max_train_batch_size, keys.min_gpus, keys.max_gpus);
  const int64_t node = keys.num_gpus_per_node, images = keys.max_train_batch_size / node;
  // Less than a node is taken for no limit, as DeepSpeed takes it.
  const int64_t nodes = keys.max_gpus < node ? images : keys.max_gpus / node;
  ElasticBatch batch = best_batch(keys, images, keys.min_gpus / node, nodes);
  batch.train *= node;
  for (int64_t& count : batch.ranks) count *= node;
  return batch;
}

}  // namespace

ElasticBatch elastic_batch(const Elasticity& keys) {
  if (keys.max_gpus < keys.min_gpus)
    fail(ExitCode::usage, "Elasticity min_gpus cannot be greater than max_gpus, given min_gpus: ", keys.min_gpus,
         ", max_gpus: ", keys.max_gpus);
  ElasticBatch batch = most_fitted(keys);
  if (batch.train > keys.max_train_batch_size && !keys.may_exceed)
    fail(ExitCode::usage, "elasticity.max_train_batch_size ", keys.max_train_batch_size,
         " is below the batch that the most numbers of ranks fit, ", batch.train,
         ", which is a common multiple of micro_batch_sizes ", list_text(keys.micro_batch_sizes), "; raise it to ",
         batch.train, ", leave a micro-batch size out, or set compat: [elastic_excess] to train with ", batch.train,
         " as DeepSpeed up to 0.19.5 does");
  return batch;
}

ElasticSizes elastic_sizes(const Elasticity& keys, int64_t ranks) {
  const ElasticBatch batch = elastic_batch(keys);
  const bool fits = std::ranges::find(batch.ranks, ranks) != batch.ranks.end();
  if (!fits && !by_nodes(keys))
    fail(ExitCode::usage, "World size (", ranks,
         ") is not valid with the current list of valid GPU counts: ", list_text(batch.ranks));
  const int64_t train = fits ? batch.train : batch_of_other_ranks(keys, ranks);
  std::vector<int64_t> sizes = keys.micro_batch_sizes;
  std::ranges::sort(sizes, std::greater<>());
  for (const int64_t micro : sizes)
    if (train / ranks % micro == 0) return {train, micro};
  fail(ExitCode::usage, "Unable to find divisible micro batch size world_size=", ranks, ", final_batch_size=", train,
       ", and  micro_batches=", list_text(keys.micro_batch_sizes), ".");
}

/// DeepSpeed's errors, word for word.
void check_foreign(const Config& config) {
  const auto& elastic = config.elasticity;
  if (!elastic.enabled) return;
  const auto refuse = [&](const std::string& key, const auto&... parts) {
    fail(ExitCode::usage, place_of_key(config, config.origins.contains(key) ? key : "elasticity.enabled"), parts...);
  };
  for (const char* key : {"max_train_batch_size", "micro_batch_sizes"})
    if (!config.origins.contains(str("elasticity.", key))) refuse("", "Elasticity config missing ", key);
  const double version = elastic.keys.version;
  if (version > 0.2)
    refuse("elasticity.version", "Attempting to run elasticity version ", version,
           " but runtime only supports up to 0.2");
  if (version != 0.1 && version != 0.2)
    refuse("elasticity.version", "Unable to find elastic logic for version: ", version);
  for (const std::string_view key : kBatchKeys)
    if (config.origins.contains(std::string(key)) && !elastic.ignore_non_elastic_batch_info)
      refuse(std::string(key),
             "One or more batch related parameters were found in your ds_config (train_batch_size, "
             "train_micro_batch_size_per_gpu, and/or gradient_accumulation_steps). These parameters *will not be "
             "used* since elastic training is enabled, which takes control of these parameters. If you want to "
             "suppress this error (the parameters will be silently ignored) please set "
             "ignore_non_elastic_batch_info':true in your elasticity config.");
  try {
    elastic_batch(*config.batch.elastic);
  } catch (const Error& error) {
    refuse("elasticity.max_train_batch_size", error.what());
  }
}

}  // namespace ct
