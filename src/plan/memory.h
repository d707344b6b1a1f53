// The memory planner: transient values whose lives do not overlap share one arena, known before the first step.
#pragma once

#include <string>
#include <vector>

#include "plan/program.h"

namespace ct {

struct MemoryPlan {
  struct Place {
    int64_t offset = -1;  // bytes into the arena; -1: not in it
    int64_t bytes = 0;
    int first = 0, last = 0;  // steps between which the value lives
  };
  std::vector<Place> values;     // by ValueId
  std::vector<Place> workspace;  // by step of `micro` or `last`, whichever is longer
  int64_t arena_bytes = 0;
};

/// Live ranges over micro and last (they share their compute steps, so a step's number means the same in both).
/// Values are aligned to a cache line and followed by one more, which vector loads may touch. The workspaces (bytes, by
/// step; empty: none) are scratch of one operation, alive only while it runs.
MemoryPlan plan_memory(const Lowered& program, const std::vector<size_t>& micro_workspace = {},
                       const std::vector<size_t>& last_workspace = {});

/// The program and where everything lies, for --dump-plan.
std::string to_text(const Lowered& program, const MemoryPlan& plan);

}  // namespace ct
