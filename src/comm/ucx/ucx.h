// Messages by UCX (libucx): TCP, shared memory, RDMA where there is any. Its library is opened when it is wanted, not
// linked. Without its headers at build time (no_ucx.cpp) make_ucx_wire refuses.
#pragma once

#include <memory>
#include <string>

#include "comm/bootstrap.h"
#include "comm/messages/wire.h"

namespace ct {

/// Collective. Throws the same Error on all of them: usage where the library is
/// missing on a host, peer where messages do not get through.
std::unique_ptr<MessageWire> make_ucx_wire(Bootstrap& ranks);

/// "UCX 1.13.1", or why there is none.
std::string ucx_library();

}  // namespace ct
