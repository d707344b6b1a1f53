// Steps that were skipped because their loss or gradient is not finite, and when there were too many of them.
#pragma once

#include <string>

#include "base/files.h"
#include "train/run_context.h"

namespace ct {

/// Tells of each step skipped since the last call. Returns why training has diverged: as many in a row as
/// train.max_bad_steps, or, with a dynamic loss scale, one at its smallest; empty: it has not. At the same steps on
/// every rank, so that all give up together.
std::string report_skipped_steps(const RunContext& run);

/// Ends a diverged run: why, where to go back to and what to change. `finite`: the newest checkpoint without a NaN or
/// an infinity; empty: there is none.
[[noreturn]] void fail_diverged(const std::string& why, const Path& finite);

}  // namespace ct
