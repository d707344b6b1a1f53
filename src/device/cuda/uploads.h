// Uploads of large blocks, such as pixels, by a stream of their own. What a step needs of the host beside them, such as
// the indices of its images, travels by engine/feed.h.
#pragma once

#include "device/backend.h"
#include "device/cuda/stream.h"

namespace ct::cuda {

/// Uses the backend's allocate() and work's stream.
std::unique_ptr<Uploads> make_uploads(Backend& backend, cudaStream_t work, std::byte* to, size_t bytes);

}  // namespace ct::cuda
