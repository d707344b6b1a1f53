// How far a run of a sweep is, by what its process says and records.
#pragma once

#include <optional>
#include <string>

#include "base/files.h"
#include "train/config/config.h"

namespace ct {

/// "epoch 1/3, step 400/1200, loss 0.412", of a run's own line of progress, whose fields two blanks separate.
std::string brief_progress(const std::string& line);

/// By the latest record of the run in that folder.
std::optional<double> seconds_left_of(const Path& run);

/// The length of a run: steps, or epochs where those are not limited.
double work_of(const Config& config);

}  // namespace ct
