// How far a run of a sweep is, by the records that its process writes.
#pragma once

#include <optional>
#include <string>

#include "base/files.h"
#include "train/config/config.h"

namespace ct {

struct RunProgress {
  std::string text;  // "epoch 1/3, step 400, loss 0.412"
  std::optional<double> seconds_left;
};
/// By the latest record of the run in that folder.
RunProgress progress_of(const Path& run, const Config& config);

/// The length of a run: steps, or epochs where those are not limited.
double work_of(const Config& config);

}  // namespace ct
