// Times each operation of a training step.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "device/peaks.h"
#include "engine/engine.h"
#include "metrics/metrics_log.h"
#include "plan/cost.h"

namespace ct {

/// An operation, or several that one kernel computes.
struct OpTime {
  std::string name;
  double seconds;  // of one launch, in a sequence of launches
  Cost cost;
  std::string result;  // its first result: "layer1.0.conv1.out [64,64,32,32]"
};

/// The name and shape of an operation's first result.
std::string result_of(const Op& op, const std::vector<Value>& values);

struct OpTimes {
  std::vector<OpTime> ops;  // of a micro-batch (the step's last), then of the update
  double step;              // their time in a step, with the operations of all micro-batches
  bool in_caches = false;   // operands are in caches, so a copy of large memory is not a bound
};

struct OpTimingOptions {
  int windows = 9;                                        // the median of these is used
  double window = 0.01;                                   // seconds, about
  bool record = true;                                     // recorded launches, without the host between them
  std::function<void(const std::string&)> progress = {};  // shows what runs; may be empty
};

/// Prepares the operation and returns the seconds of one launch on `operands`.
double time_operation(Backend& backend, const ComputeOp& op, const std::vector<Value>& values, const Resolve& operands,
                      const OpTimingOptions& options);

/// Times on an asynchronous device: the compute operations are prepared again and launched on the engine's memory,
/// whose content is invalid afterwards.
OpTimes time_device_operations(Engine& engine, Backend& backend, const OpTimingOptions& options);

/// Times on the host, one rank: medians over steps, which run operation by operation.
OpTimes time_host_operations(Engine& engine, const std::function<void(const std::string&)>& progress);

/// Bytes of an operation's largest tensor; the copy that it is compared with has tensors of the same size.
inline constexpr int64_t kLargeBytes = int64_t{256} << 20;

/// Times memory-bound operations with tensors that do not fit into caches: for each kind, the operation of a
/// micro-batch of `program` that moves the most bytes, with a batch such that its largest tensor has kLargeBytes.
OpTimes time_large_operations(const LoweredProgram& program, Backend& backend, const OpTimingOptions& options);

/// `title`, one line per operation with its time and its share of the peaks, and the sum of the times.
std::string table(const OpTimes& times, const DevicePeaks& peaks, const std::string& title);
/// For each operation {"name", "us", "gflops", "gbytes_per_sec", "peak_share", "copy_share"}.
Json operations(const OpTimes& times, const DevicePeaks& peaks);
/// Adds "peaks", "ops_us" and "ops".
void add_operations(Json& result, const OpTimes& times, const DevicePeaks& peaks);

}  // namespace ct
