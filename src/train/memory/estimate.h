// Estimates a run's memory by category, for every ZeRO stage, and its traffic between ranks. It uses the same lowered
// programs as training and allocates nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "device/backend.h"
#include "plan/memory.h"
#include "plan/traffic.h"
#include "train/setup.h"

namespace ct {

/// The run to estimate.
struct EstimateOf {
  const Config& config;
  BatchSizes batch;
  int ranks = 1;
  int rank = 0;  // the estimated rank; others differ by a few rows of parameters
  DataSpec data;
  int64_t data_set_bytes = 0;  // mapped: once for all ranks of a host
  Sharing sharing = {};
};

/// Bytes of a rank while it trains, evaluates and saves. If the configured device is a GPU, present or not, `use`
/// without offloaded state and `received` are GPU memory, and all else is host memory.
struct RankMemory {
  bool on_gpu = false;
  MemoryUse use;                         // activations: the larger of both arenas; gradients include partial sums
  int64_t training = 0, evaluation = 0;  // the two arenas, which share memory
  int64_t partial_sums = 0;              // of accumulation; part of the gradients
  int64_t received = 0;                  // receive buffers of NCCL's sums
  int64_t mirrors = 0;   // GPU: page-locked copies of state, inputs and results (train/memory/gpu_extras.h)
  int64_t staged = 0;    // GPU: collectives through host memory
  int64_t snapshot = 0;  // of asynchronous saves
  int64_t overhead = 0;  // stacks, prepared operations, a save's buffer; a measured value
  int64_t device() const { return on_gpu ? use.total() + received : 0; }
  int64_t host() const { return (on_gpu ? use.host + mirrors + staged : use.total()) + snapshot + overhead; }
  int64_t total() const { return device() + host(); }
};

struct StageEstimate {
  int stage = 0;
  int64_t parameters = 0;
  RankMemory rank;
  int64_t device = 0;  // sum over all ranks of one GPU
  int64_t host = 0;    // sum over all ranks on one host, as threads of one process
  StepTraffic traffic;
};

/// The estimate with a different ZeRO stage from the configured one.
StageEstimate estimate_stage(Backend& backend, const EstimateOf& what, int stage);

/// The memory of the program without a model: code, libraries and their heap.
int64_t program_bytes();

/// Bytes that a run may use; nullopt: no limit.
struct Limits {
  std::optional<int64_t> host, device;
  bool allow(const StageEstimate& s) const {
    return s.host <= host.value_or(s.host) && s.device <= device.value_or(s.device);
  }
};

/// The largest micro-batch that divides a rank's images of a step into at least `least_accumulation` micro-steps and
/// with which the stage fits into the limits; nullopt if even one image is too much.
std::optional<BatchSizes> largest_micro_batch(Backend& backend, const EstimateOf& what, int stage, const Limits& limits,
                                              int64_t least_accumulation = 1);

/// If neither a higher stage nor a smaller micro-batch is enough: the lowest stage above the configured one that fits
/// into the limits with some micro-batch, and the largest such micro-batch.
struct StageAndBatch {
  int stage;
  BatchSizes batch;
};
std::optional<StageAndBatch> smaller_in_both(Backend& backend, const EstimateOf& what, const Limits& limits);

/// Throws ExitCode::memory if the ranks that share a device need more memory than `room`, the free memory before any of
/// them allocated. The message lists the needs, and the lowest ZeRO stage and largest micro-batch that fit. Does
/// nothing for devices that use host memory, which have no `room`.
void require_device_memory(Backend& backend, const EstimateOf& what, const std::optional<Backend::Room>& room);

/// Throws ExitCode::memory if the ranks of this host need more memory than their control group may have (a job of
/// Slurm, a container), where the kernel would kill them without a word.
void require_group_memory(Backend& backend, const EstimateOf& what);

/// After an allocation has failed: "use a micro-batch of ..., the largest that fits", or what else there is if none
/// does, by the estimate and the memory that is free now. Empty: too little is free for an estimate.
std::string micro_batch_advice(Backend& backend, const EstimateOf& what);

/// The number of a tree's buffers (comm/reduction/tree_sum.h) that a rank uses if it pushes `ranks` leaves in each of
/// `accumulation` micro-steps and finishes the sum in the last.
int64_t touched_levels(int ranks, int accumulation);

}  // namespace ct
