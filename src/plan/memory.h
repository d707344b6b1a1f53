// The memory planner: transient values whose lives do not overlap share an arena, known before the first step.
#pragma once

#include <string>
#include <vector>

#include "plan/program.h"

namespace ct {

struct MemoryPlan {
  struct Place {
    int64_t offset = -1;  // bytes into its arena; -1: not in one
    int64_t bytes = 0;
    std::vector<Range> lives;  // times, half-open, between which it must keep its contents
  };
  std::vector<Place> values;     // by ValueId
  std::vector<Place> workspace;  // by time
  int64_t arena_bytes = 0;
  int64_t exchange_bytes = 0;  // of the arena that peers read
};

/// Live ranges over micro and last. Values are aligned to a cache line and followed by one more, which vector loads may
/// touch. A communication keeps its operands alive until a computation waits for it, or to the end. The workspaces
/// (bytes, by step; empty: none) are scratch of one operation, alive only while it runs.
MemoryPlan plan_memory(const LoweredProgram& program, const std::vector<size_t>& micro_workspace = {},
                       const std::vector<size_t>& last_workspace = {});

/// What a program needs on this rank, in bytes.
struct MemoryUse {
  int64_t weights = 0, gradients = 0, optimizer = 0, other = 0;  // resident
  int64_t host = 0;         // masters and moments that were offloaded: of the host's memory, not in total()
  int64_t activations = 0;  // the arena: activations, workspaces and the transients below
  int64_t exchange = 0;     // buckets of gradients that peers read
  int64_t gathered_weights = 0, gradient_buckets = 0;  // the most that is alive at one time
  int64_t& of(MemoryCategory category);                // where what outlives a step is counted
  int64_t total() const { return weights + gradients + optimizer + other + activations + exchange; }
};
MemoryUse memory_use(const LoweredProgram& program, const MemoryPlan& plan);

/// The program and where everything lies, for --dump-plan.
std::string to_text(const LoweredProgram& program, const MemoryPlan& plan);

}  // namespace ct
