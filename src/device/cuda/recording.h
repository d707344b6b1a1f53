// Recordings of a stream's work (CUDA graphs), and times measured on the device.
#pragma once

#include <cuda_runtime.h>

#include <functional>
#include <memory>

#include "device/backend.h"

namespace ct::cuda {

/// Records the launches of `body` in the stream: see Backend::record().
std::unique_ptr<Replay> record(cudaStream_t stream, const std::function<void()>& body);

/// Milliseconds of one launch in a replayed step: the minimum over a few replays of a recording of several launches.
/// Launches once before, because libraries load code on first use. Throws if it cannot be recorded.
double milliseconds(cudaStream_t stream, const std::function<void()>& launch);

/// milliseconds() of one candidate among several: infinite if it fails; throws if the device is lost.
double time_of_candidate(cudaStream_t stream, const std::function<void()>& launch);

}  // namespace ct::cuda
