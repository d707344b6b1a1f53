// The memory planner: transient values whose lifetimes do not overlap share an arena, which is planned before the first
// step.
#pragma once

#include <string>
#include <vector>

#include "plan/program.h"

namespace ct {

struct MemoryPlan {
  struct Place {
    int64_t offset = -1;  // bytes from the start of its arena; -1: not in an arena
    int64_t bytes = 0;
    std::vector<Range> lives;  // half-open ranges of time in which it must keep its contents
  };
  std::vector<Place> values;     // by ValueId
  std::vector<Place> workspace;  // by time
  int64_t arena_bytes = 0;
  int64_t exchange_bytes = 0;  // bytes of the arena that other ranks read
};

/// Plans by live ranges over micro and last. Values are aligned to a cache line and followed by a spare one, which
/// vector loads may touch. The operands of a communication stay alive until a computation waits for it, or to the end.
/// Workspaces (bytes, by step; empty: none) are scratch of one operation and live only while it runs.
MemoryPlan plan_memory(const LoweredProgram& program, const std::vector<size_t>& micro_workspace = {},
                       const std::vector<size_t>& last_workspace = {});

/// The memory of a program on this rank, in bytes.
struct MemoryUse {
  int64_t weights = 0, gradients = 0, optimizer = 0, other = 0;  // resident
  int64_t images = 0;                                            // resident: a training set
  int64_t host = 0;                                    // offloaded masters and moments, in host memory; not in total()
  int64_t activations = 0;                             // the arena: activations, workspaces and the transients below
  int64_t exchange = 0;                                // buckets of gradients that other ranks read
  int64_t gathered_weights = 0, gradient_buckets = 0;  // the most that is alive at any time
  int64_t& of(MemoryCategory category);                // the counter of a category that outlives a step
  int64_t total() const { return weights + gradients + optimizer + images + other + activations + exchange; }
};
MemoryUse memory_use(const LoweredProgram& program, const MemoryPlan& plan);

/// The program and the addresses of all values, for --dump-plan.
std::string to_text(const LoweredProgram& program, const MemoryPlan& plan);

}  // namespace ct
