// Ranks on several hosts: the collectives, with the bits of every other transport, through messages.
#pragma once

#include <memory>

#include "comm/communicator.h"
#include "comm/messages/wire.h"

namespace ct {

/// Collective over the wire's ranks.
std::unique_ptr<Communicator> make_message_communicator(std::unique_ptr<MessageWire> wire);

}  // namespace ct
