// May a run continue under this configuration? Which keys may differ stands in the key table (schema.cpp,
// resume_may_change).
#pragma once

#include <string>
#include <vector>

#include "train/config/config.h"

namespace ct {

struct ResumeDifference {
  std::vector<std::string> forbidden;  // "optimizer.params.lr: 0.001 saved, 0.01 now"
  std::vector<std::string> warnings;   // batch sizes that only follow from the ranks: allowed, but the bits change
};

/// Gives what `now` leaves to the program the value that it had in the saved run.
void settle_like(Config& now, const Config& saved);

/// `saved_ranks` is what the saved run had, `ranks` what this one has. Throws Error(usage) when a batch does not fit.
ResumeDifference resume_difference(const Config& saved, int64_t saved_ranks, const Config& now, int64_t ranks);

}  // namespace ct
