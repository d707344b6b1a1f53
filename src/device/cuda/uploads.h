// Uploads by a stream of their own.
#pragma once

#include "device/backend.h"
#include "device/cuda/stream.h"

namespace ct::cuda {

/// Uses the backend's allocate() and work's stream.
std::unique_ptr<Uploads> make_uploads(Backend& backend, cudaStream_t work, std::byte* to, size_t bytes);

}  // namespace ct::cuda
