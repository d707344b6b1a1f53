// Ranks without a launcher: threads of this process.
#pragma once

#include <functional>
#include <memory>

#include "comm/communicator.h"

namespace ct {

/// The one rank of a job of one.
std::unique_ptr<Communicator> make_solo();

/// Runs body on `ranks` threads, each with its communicator; body returns an exit code. Returns when all have ended:
/// the first code that is not 0, by rank. An exception in any rank ends the others at their next wait; the first is
/// thrown here, what followed from it is dropped.
int run_ranks(int ranks, const std::function<int(Communicator&)>& body);

}  // namespace ct
