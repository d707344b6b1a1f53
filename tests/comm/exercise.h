// What every communicator must do, run by all its ranks; threads, forked processes and mpirun's ranks share it.
#pragma once

#include <string>

#include "comm/communicator.h"

namespace ct {

/// Throws on the first wrong bit.
void exercise(Communicator& comm);

/// For ranks that are processes: this program as "<test> --rank-program <name>". Returns the exit code.
int rank_program(const std::string& name);

}  // namespace ct
