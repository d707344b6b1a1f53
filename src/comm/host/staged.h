// Collectives between buffers in devices' memory, over a transport that only sees the host's: through pinned memory,
// between what the device computes. For several ranks on one GPU, and where NCCL is not.
#pragma once

#include <memory>

#include "comm/communicator.h"
#include "device/backend.h"

namespace ct {

/// `host` carries everything and outlives this; every rank of it does the same. Sums are those of `host`, to the bit.
/// Collectives wait for the device and come back with the result on its way: they cannot be recorded.
std::unique_ptr<Communicator> make_staged(Backend& backend, Communicator& host);

}  // namespace ct
