// Collectives between buffers in device memory over a transport for host memory: data is copied through pinned memory.
// Used for several ranks on one GPU, and without NCCL.
#pragma once

#include <memory>

#include "comm/communicator.h"
#include "device/backend.h"

namespace ct {

/// `host` transports all data and must outlive this; all its ranks use it this way. Sums have the bits of `host`.
/// Collectives wait for the device, and return while the result is still being copied to it; they cannot be recorded.
std::unique_ptr<Communicator> make_staged(Backend& backend, Communicator& host);

}  // namespace ct
