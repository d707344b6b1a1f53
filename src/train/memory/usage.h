// What a run used, over all ranks: memory by category and by the operating system, and what moved between ranks.
#pragma once

#include "comm/communicator.h"
#include "engine/engine.h"
#include "metrics/metrics_log.h"

namespace ct {

struct UsageArgs {
  const Engine& engine;
  const Evaluator& evaluator;
  size_t snapshot_bytes = 0;  // of asynchronous saves
  int64_t steps = 0;          // done by this process
  Traffic moved, norms;       // in these steps, by this rank
};

/// {"peak_bytes": {...}, "traffic": {...}}: bytes a rank, and elements and bytes that a rank moved in a step; means
/// over ranks. "total" is what was allocated by category, "process" and "proportional" are the operating system's VmHWM
/// and Pss. Collective.
Json usage_of(Communicator& comm, const UsageArgs& args);

}  // namespace ct
