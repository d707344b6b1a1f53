// Messages by UCX (libucx) over TCP, shared memory or RDMA. The library is opened on first use, not linked. In a build
// without its headers (no_ucx.cpp) make_ucx_wire throws.
#pragma once

#include <memory>
#include <string>

#include "comm/bootstrap.h"
#include "comm/messages/wire.h"

namespace ct {

/// Collective. Throws the same Error on all ranks: usage if the library is missing on a host, peer if messages do not
/// arrive.
std::unique_ptr<MessageWire> make_ucx_wire(Bootstrap& ranks);

/// "UCX 1.13.1", or the reason why there is no UCX.
std::string ucx_library();

}  // namespace ct
