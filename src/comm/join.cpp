#include "comm/join.h"

#include "comm/host/processes.h"

namespace ct {

std::unique_ptr<Communicator> join_ranks(Bootstrap& ranks, Transport transport, const Join& join) {
  if (transport == Transport::automatic && on_one_host(ranks))
    return std::make_unique<ProcessCommunicator>(share_board(ranks), ranks.rank(), ranks.size(), join.at_end);
  return make_message_communicator(join.make_wire());
}

}  // namespace ct
