// What a run would need: memory by category, for every ZeRO stage, and what it would move between ranks. From the very
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
  int rank = 0;  // whose part is told as that of each: they differ by a few rows of parameters
  DataSpec data;
  int64_t data_set_bytes = 0;  // mapped: once for all ranks of a host
  Sharing sharing = {};
};

/// Bytes of a rank while it trains, evaluates and saves. With a GPU (the configuration's device is one, be it there or
/// not) `use` and `received` are of the GPU's memory, but for what was offloaded, and all else is of the host's.
struct RankMemory {
  bool on_gpu = false;
  MemoryUse use;                         // the larger of both arenas as activations, partial sums among the gradients
  int64_t training = 0, evaluation = 0;  // the arenas: these take turns in one
  int64_t partial_sums = 0;              // of accumulation: part of the gradients
  int64_t received = 0;                  // what NCCL's sums receive
  int64_t mirrors = 0;   // GPU: page-locked copies of state, inputs and results (train/memory/gpu_extras.h)
  int64_t staged = 0;    // GPU: collectives that go through the host
  int64_t snapshot = 0;  // of asynchronous saves
  int64_t overhead = 0;  // stacks, prepared operations, a save's buffer: measured, not planned
  int64_t device() const { return on_gpu ? use.total() + received : 0; }
  int64_t host() const { return (on_gpu ? use.host + mirrors + staged : use.total()) + snapshot + overhead; }
  int64_t total() const { return device() + host(); }
};

struct StageEstimate {
  int stage = 0;
  int64_t parameters = 0;
  RankMemory rank;
  int64_t device = 0;  // all ranks of one GPU
  int64_t host = 0;    // all ranks on one host, as threads of one process
  StepTraffic traffic;
};

/// The estimate with another ZeRO stage than the configured one.
StageEstimate estimate_stage(Backend& backend, const EstimateOf& what, int stage);

/// The program before it has a model: code, libraries and their heap.
int64_t program_bytes();

/// Bytes that a run may use; absent: as many as it likes.
struct Limits {
  std::optional<int64_t> host, device;
  bool allow(const StageEstimate& s) const {
    return s.host <= host.value_or(s.host) && s.device <= device.value_or(s.device);
  }
};

/// The largest micro-batch, among those that divide what a rank computes in a step into `least_accumulation`
/// micro-steps or more, with which the stage keeps to the limits; nothing if even one image is too much.
std::optional<BatchSizes> largest_micro_batch(Backend& backend, const EstimateOf& what, int stage, const Limits& limits,
                                              int64_t least_accumulation = 1);

/// Where neither a higher stage nor a smaller micro-batch is enough: the lowest stage above the configured one with
/// which some micro-batch keeps to the limits, and the largest such.
struct StageAndBatch {
  int stage;
  BatchSizes batch;
};
std::optional<StageAndBatch> smaller_in_both(Backend& backend, const EstimateOf& what, const Limits& limits);

/// Throws ExitCode::memory where the ranks that share a device need more memory than `room`, which was there before any
/// of them allocated: what needs how much, the lowest ZeRO stage and the largest micro-batch that fit. Nothing is asked
/// of devices whose memory is the host's, which have no room of their own.
void require_device_memory(Backend& backend, const EstimateOf& what, const std::optional<Backend::Room>& room);

/// How many of a tree's buffers (comm/reduction/tree_sum.h) a rank touches that pushes `ranks` leaves in each of
/// `accumulation` micro-steps, the last of which finishes the sum.
int64_t touched_levels(int ranks, int accumulation);

}  // namespace ct
