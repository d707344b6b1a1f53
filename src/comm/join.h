// Makes the communicator of ranks that are processes, from a Bootstrap.
#pragma once

#include <functional>
#include <memory>

#include "comm/communicator.h"
#include "comm/messages/wire.h"

namespace ct {

enum class Transport : uint8_t {
  automatic,      // shared memory if all ranks are on one host, messages otherwise
  messages_only,  // as between hosts
};

struct Join {
  std::function<std::unique_ptr<MessageWire>()> make_wire;  // between hosts
  std::function<void()> at_end = [] {};                     // called at the end by ranks that share memory
};

/// Collective. Throws the same Error(memory) on all ranks if the ranks of one host have too little shared memory, and
/// errors of make_wire().
std::unique_ptr<Communicator> join_ranks(Bootstrap& ranks, Transport transport, const Join& join);

}  // namespace ct
