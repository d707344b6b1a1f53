// One communicator for ranks that are processes and know each other by a Bootstrap.
#pragma once

#include <functional>
#include <memory>

#include "comm/communicator.h"
#include "comm/messages/wire.h"

namespace ct {

enum class Transport : uint8_t {
  automatic,      // shared memory where all ranks are on one host, messages otherwise
  messages_only,  // as between hosts
};

struct Join {
  std::function<std::unique_ptr<MessageWire>()> make_wire;  // between hosts
  std::function<void()> at_end = [] {};                     // of ranks that share memory
};

/// Collective. Throws the same Error(memory) on all ranks where those of one host find no shared memory, and what
/// make_wire() throws.
std::unique_ptr<Communicator> join_ranks(Bootstrap& ranks, Transport transport, const Join& join);

}  // namespace ct
