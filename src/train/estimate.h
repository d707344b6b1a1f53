// What a run would need: memory by account, for every ZeRO stage, and what it would move between ranks. From the very
// programs that training lowers, so it says what training will do; nothing is allocated.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "device/backend.h"
#include "plan/memory.h"
#include "plan/traffic.h"
#include "train/setup.h"

namespace ct {

/// What is asked.
struct EstimateOf {
  const Config& config;
  BatchSizes batch;
  int ranks = 1;
  int classes = 10;
  int64_t test_images = 0;     // a batch of evaluation is no larger
  int64_t data_set_bytes = 0;  // mapped: once for all ranks of a host
};

/// Bytes of a rank while it trains, evaluates and saves.
struct RankMemory {
  MemoryUse use;             // the evaluator's own arena among the activations, partial sums among the gradients
  int64_t partial_sums = 0;  // of accumulation: part of the gradients
  int64_t snapshot = 0;      // of asynchronous saves
  int64_t overhead = 0;      // stacks, prepared operations, a save's buffer: measured, not planned
  int64_t total() const { return use.total() + snapshot + overhead; }
};

struct StageEstimate {
  int stage = 0;
  int64_t parameters = 0;
  RankMemory rank;
  int64_t host = 0;  // all ranks on one host, as threads of one process
  StepTraffic traffic;
};

/// With another ZeRO stage than the configured one.
StageEstimate estimate_stage(Backend& backend, const EstimateOf& what, int stage);

/// The program before it has a model: code, libraries and their heap.
int64_t program_bytes();

/// The largest micro-batch, among those that divide what a rank computes in a step, with which the configured stage
/// needs no more than `bytes` on the host; nothing if even one image is too much.
std::optional<BatchSizes> largest_micro_batch(Backend& backend, const EstimateOf& what, int64_t bytes);

/// Throws ExitCode::memory where the run needs more of a device's memory than is free: what needs how much, the lowest
/// ZeRO stage and the largest micro-batch that fit. Nothing is asked of devices whose memory is the host's.
void require_device_memory(Backend& backend, const EstimateOf& what);

/// How many of a tree's buffers (comm/tree_sum.h) a rank touches that pushes `ranks` leaves in each of `accumulation`
/// micro-steps, the last of which finishes the sum.
int64_t touched_levels(int ranks, int accumulation);

}  // namespace ct
