// Ranks without a launcher: threads of this process.
#pragma once

#include <functional>
#include <memory>

#include "comm/communicator.h"

namespace ct {

/// The communicator of a job of one rank.
std::unique_ptr<Communicator> make_solo();

/// Runs body on `ranks` threads, each with its communicator; body returns an exit code. Returns when all have ended,
/// with the first nonzero code by rank, or 0. An exception in any rank ends the others at their next wait; the first
/// exception is rethrown here, and those that follow from it are dropped.
int run_ranks(int ranks, const std::function<int(Communicator&)>& body);

}  // namespace ct
