// Recordings of what enters a stream (CUDA graphs), and times that are the device's, not the host's.
#pragma once

#include <cuda_runtime.h>

#include <functional>
#include <memory>

#include "device/backend.h"

namespace ct::cuda {

/// What `body` launches into the stream, recorded: see Backend::record().
std::unique_ptr<Replay> record(cudaStream_t stream, const std::function<void()>& body);

/// Milliseconds of one launch, as in a replayed step: the least of a few replays of a recording of several launches.
/// Launched once before, for what a library loads on first use. Throws where it cannot be recorded.
double milliseconds(cudaStream_t stream, const std::function<void()>& launch);

/// milliseconds() of one way among several: infinite where it does not work; throws where the device is lost.
double time_of_candidate(cudaStream_t stream, const std::function<void()>& launch);

}  // namespace ct::cuda
