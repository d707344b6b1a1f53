// Reports steps that were skipped because of a non-finite loss or gradient, and ends diverged runs.
#pragma once

#include <string>

#include "base/files.h"
#include "train/run_context.h"

namespace ct {

/// Reports each step skipped since the last call. Returns the reason if training has diverged: train.max_bad_steps
/// skipped steps in a row, or, with a dynamic loss scale, one at the smallest scale; empty: it has not. Must be called
/// at the same steps on every rank, so that all end together.
std::string report_skipped_steps(const RunContext& run);

/// Ends a diverged run with the reason, the checkpoint to return to and the settings to change. `finite`: the newest
/// checkpoint without a NaN or an infinity; empty: there is none.
[[noreturn]] void fail_diverged(const std::string& why, const Path& finite);

}  // namespace ct
