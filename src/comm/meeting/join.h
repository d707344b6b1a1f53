// Ranks as processes that meet at MASTER_ADDR: torchrun's, `launch`'s, those of a job script.
#pragma once

#include <memory>

#include "comm/communicator.h"
#include "comm/meeting/meeting.h"

namespace ct {

enum class MeetTransport {
  automatic,      // shared memory where all ranks are on one host, messages otherwise
  messages_only,  // as between hosts
};

/// Collective over all ranks that have met. Throws the same Error on all of them: ExitCode::memory where the host's
/// ranks find no shared memory, usage where hosts are several and this program has no UCX, peer where it gets no
/// message through.
std::unique_ptr<Communicator> join_ranks(Meeting& meeting, MeetTransport transport = MeetTransport::automatic);

}  // namespace ct
