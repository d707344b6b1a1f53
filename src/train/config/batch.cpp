#include "train/config/batch.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace ct {
namespace {

BatchSizes derive_elastic(const Elasticity& keys, int64_t ranks) {
  const auto [train, micro] = elastic_sizes(keys, ranks);
  return {train, micro, train / (micro * ranks)};
}

std::string describe_fit(const BatchKeys& keys) {
  constexpr size_t kListed = 12;
  const std::vector<int64_t> fits = fitting_ranks(keys, kListed + 1);
  if (fits.empty())
    return "no number of ranks fits: train_batch_size must be a multiple of the micro-batch and the accumulation steps";
  std::string list;
  const size_t listed = std::min(fits.size(), kListed);
  for (size_t i = 0; i < listed; ++i)
    list += (i == 0 ? "" : i + 1 == fits.size() ? " or " : ", ") + std::to_string(fits[i]);
  return str("it fits ", list, fits.size() > kListed ? ", ..." : "",
             fits == std::vector<int64_t>{1} ? " rank" : " ranks");
}

/// ", or set KEY to N" for the first one key that makes the sizes fit this number of ranks; empty: none does.
std::string setting_that_fits(const BatchKeys& keys, int64_t ranks) {
  const auto if_fits = [&](const char* key, std::optional<int64_t> BatchKeys::*member, int64_t value) -> std::string {
    BatchKeys changed = keys;
    changed.*member = value;
    try {
      derive_batch(changed, ranks);
      return str(", or set ", key, " to ", value);
    } catch (const Error&) {
      return "";
    }
  };
  const int64_t micro = keys.micro.value_or(1), all_micros = micro * ranks * keys.accumulation.value_or(1);
  std::string found;
  if (keys.train && keys.micro && keys.accumulation)
    found = if_fits("gradient_accumulation_steps", &BatchKeys::accumulation, *keys.train / (micro * ranks));
  if (found.empty() && keys.train && keys.micro)
    for (int64_t smaller = std::min(micro, *keys.train / ranks); smaller > 0 && found.empty(); --smaller)
      if (*keys.train / ranks % smaller == 0)
        found = if_fits("train_micro_batch_size_per_gpu", &BatchKeys::micro, smaller);
  if (found.empty() && keys.train)
    found = if_fits("train_batch_size", &BatchKeys::train, (*keys.train + all_micros - 1) / all_micros * all_micros);
  return found;
}

}  // namespace

BatchSizes derive_batch(const BatchKeys& keys, int64_t ranks) {
  const auto require_positive = [](const char* what, std::optional<int64_t> value) {
    if (value && *value <= 0) fail(ExitCode::usage, what, ": ", *value, " has to be greater than 0");
  };
  const auto require_all_positive = [&](const BatchKeys& values) {
    require_positive("Train batch size", values.train);
    require_positive("Micro batch size per gpu", values.micro);
    require_positive("Gradient accumulation steps", values.accumulation);
  };
  if (keys.elastic) {
    const BatchSizes sizes = derive_elastic(*keys.elastic, ranks);
    require_all_positive({sizes.train, sizes.micro, sizes.accumulation});
    return sizes;
  }
  require_all_positive(keys);  // before dividing by them
  if (!keys.train && !keys.micro)
    fail(ExitCode::usage, "Either train_batch_size or train_micro_batch_size_per_gpu needs to be provided");

  BatchSizes sizes;
  if (keys.train && keys.micro) {
    sizes = {*keys.train, *keys.micro, keys.accumulation.value_or(*keys.train / *keys.micro / ranks)};
  } else if (keys.train) {
    sizes = {*keys.train, *keys.train / ranks / keys.accumulation.value_or(1), keys.accumulation.value_or(1)};
  } else {
    sizes = {*keys.micro * keys.accumulation.value_or(1) * ranks, *keys.micro, keys.accumulation.value_or(1)};
  }
  require_all_positive({sizes.train, sizes.micro, sizes.accumulation});
  if (sizes.train != sizes.micro * sizes.accumulation * ranks)
    fail(ExitCode::usage,
         "Check batch related parameters. train_batch_size is not equal to micro_batch_per_gpu * gradient_acc_step * "
         "world_size ",
         sizes.train, " != ", sizes.micro, " * ", sizes.accumulation, " * ", ranks);
  return sizes;
}

BatchSizes batch_for(const BatchKeys& keys, int64_t ranks) {
  try {
    return derive_batch(keys, ranks);
  } catch (const Error& error) {
    if (keys.elastic) throw;  // it lists the ranks
    const bool sizes_are_sound = (keys.train || keys.micro) && keys.train.value_or(1) > 0 &&
                                 keys.micro.value_or(1) > 0 && keys.accumulation.value_or(1) > 0;
    if (!sizes_are_sound) throw;
    const std::string given =
        keys.train && keys.micro ? str(" with batches of ", *keys.train, " and micro-batches of ", *keys.micro) : "";
    fail(error.code(), error.what(), " on ", counted(ranks, "rank"), given, "; ", describe_fit(keys),
         setting_that_fits(keys, ranks));
  }
}

std::vector<int64_t> fitting_ranks(const BatchKeys& keys, size_t limit) {
  std::vector<int64_t> fits;
  if (keys.elastic) {
    fits = elastic_batch(*keys.elastic).ranks;
    if (fits.size() > limit) fits.resize(limit);
    return fits;
  }
  const int64_t most = keys.train.value_or(kLargestBatch);  // more ranks than images leave nothing for some
  for (int64_t ranks = 1; ranks <= most && fits.size() < limit; ++ranks) {
    if (keys.train && *keys.train % ranks != 0) continue;
    try {
      derive_batch(keys, ranks);
      fits.push_back(ranks);
    } catch (const Error&) {
    }
  }
  return fits;
}

int64_t auto_ranks(const BatchKeys& keys, int64_t cores) {
  if (keys.elastic) {
    const std::vector<int64_t> fits = elastic_batch(*keys.elastic).ranks;
    const auto above = std::ranges::upper_bound(fits, cores);
    return above == fits.begin() ? 1 : *(above - 1);
  }
  if (!keys.train || !keys.micro || *keys.train <= 0 || *keys.micro <= 0 || *keys.train % *keys.micro != 0) return 1;
  const int64_t micro_batches = *keys.train / *keys.micro;
  if (keys.accumulation) {
    const bool fits = *keys.accumulation > 0 && micro_batches % *keys.accumulation == 0;
    return fits ? micro_batches / *keys.accumulation : 1;
  }
  int64_t ranks = 1;
  while (ranks * 2 <= cores && micro_batches % (ranks * 2) == 0) ranks *= 2;
  return ranks;
}

std::string batch_table(const BatchKeys& keys, const std::vector<int64_t>& listed) {
  std::string table = "ranks  train_batch_size  micro-batch  accumulation\n";
  for (const int64_t ranks : listed) {
    table += fmt::format("{:5}", ranks);
    try {
      const BatchSizes sizes = derive_batch(keys, ranks);
      table += fmt::format("{:18}{:13}{:14}\n", sizes.train, sizes.micro, sizes.accumulation);
    } catch (const Error& error) {
      table += str("  ", error.what(), "\n");
    }
  }
  return table;
}

}  // namespace ct
