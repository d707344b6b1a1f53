// How long each operation of a training step takes.
#pragma once

#include <string>
#include <vector>

#include "device/peaks.h"
#include "engine/engine.h"
#include "metrics/metrics_log.h"
#include "plan/cost.h"

namespace ct {

struct OpTime {
  std::string name;
  double seconds;  // of one launch of many in a row
  Cost cost;
  std::string result;  // what it computes: "layer1.0.conv1.out [64,64,32,32]"
};

/// The name and shape of what an operation writes first.
std::string result_of(const Op& op, const std::vector<Value>& values);

struct OpTimes {
  std::vector<OpTime> ops;  // of a micro-batch (the step's last), then of the update
  double step;              // what they take in a step: a micro-batch's as often as there are micro-batches
  bool in_caches = false;   // where they find their operands: a copy of much memory is no bound then
};

struct OpTimingOptions {
  int windows = 9;       // whose median counts
  double window = 0.01;  // seconds, about
  bool record = true;    // launched by the device itself, without the host between launches
};

/// Seconds of one launch, prepared anew, on what `operands` says.
double time_operation(Backend& backend, const ComputeOp& op, const std::vector<Value>& values, const Resolve& operands,
                      const OpTimingOptions& options);

/// Times on a device that works beside the host: of the computing steps, prepared anew and launched on the engine's
/// memory, which holds nonsense afterwards.
OpTimes time_device_operations(Engine& engine, Backend& backend, const OpTimingOptions& options);

/// Times on the host, one rank: medians of steps, operation after operation.
OpTimes time_host_operations(Engine& engine);

/// Of an operation's tensors the largest: as large as those of the copy that it is held against.
inline constexpr int64_t kLargeBytes = int64_t{256} << 20;

/// Times operations that only pass over memory where no cache holds their tensors: of each kind the operation of a
/// micro-batch of `program` that moves most, with the batch so large that its largest tensor takes kLargeBytes.
OpTimes time_large_operations(const LoweredProgram& program, Backend& backend, const OpTimingOptions& options);

/// A line for each operation, its share of the peaks and their sum, under a title.
std::string table(const OpTimes& times, const DevicePeaks& peaks, const std::string& title);
/// Of each {"name", "us", "gflops", "gbytes_per_sec", "peak_share", "copy_share"}.
Json operations(const OpTimes& times, const DevicePeaks& peaks);
/// "peaks", "ops_us" and "ops".
void add_operations(Json& result, const OpTimes& times, const DevicePeaks& peaks);

}  // namespace ct
