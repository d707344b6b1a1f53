// How fast operations that only pass over memory are where no cache holds their tensors: against a copy.
#pragma once

#include "cli/bench/ops.h"

namespace ct {

/// Of the tensors below, the largest of an operation: as large as those of the copy that it is held against.
inline constexpr int64_t kLargeBytes = int64_t{256} << 20;

/// Of each such kind the operation of a micro-batch of `program` that moves most, with the batch so large that its
/// largest tensor takes kLargeBytes.
OpTimes time_large_operations(const LoweredProgram& program, Backend& backend, const OpTimingOptions& options);

}  // namespace ct
