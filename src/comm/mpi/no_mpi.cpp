#include "base/error.h"
#include "comm/mpi/mpi.h"

namespace ct {

std::unique_ptr<Communicator> join_mpi(const Launch& launch, Transport) {
  fail(ExitCode::usage, name(launch.kind), " started ", launch.size,
       " processes, but this program was built without MPI: install libopenmpi-dev and build again, or start it once, "
       "with --ranks ",
       launch.size);
}

std::string mpi_library() { return "none (built without MPI)"; }

bool built_with_mpi() { return false; }

}  // namespace ct
