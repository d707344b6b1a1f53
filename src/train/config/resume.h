// Checks whether a run may continue with this configuration. The key table (schema.cpp, resume_may_change) defines the
// keys that may differ.
#pragma once

#include <string>
#include <vector>

#include "train/config/config.h"

namespace ct {

struct ResumeDifference {
  std::vector<std::string> forbidden;  // "optimizer.params.lr: 0.001 saved, 0.01 now"
  std::vector<std::string> warnings;   // batch sizes that only follow from the ranks: allowed, but the bits change
};

/// Sets values that `now` leaves to the program to those of the saved run.
void settle_like(Config& now, const Config& saved);

/// `saved_ranks` and `ranks` are the numbers of ranks of the saved run and of this one. Throws Error(usage) if a batch
/// does not fit.
ResumeDifference resume_difference(const Config& saved, int64_t saved_ranks, const Config& now, int64_t ranks);

}  // namespace ct
