// Ranks as processes started by mpirun or srun. Without MPI at build time (no_mpi.cpp) join_mpi refuses.
#pragma once

#include <memory>
#include <string>

#include "comm/communicator.h"
#include "comm/detect_launch.h"
#include "comm/join.h"

namespace ct {

/// Starts MPI, which only a process of a parallel launch may do, and once. Collective over all processes of the job.
/// Throws ExitCode::usage if this is not the world that the launcher announced (another MPI's launcher), and
/// ExitCode::memory where the host's ranks find no shared memory.
std::unique_ptr<Communicator> join_mpi(const Launch& launch, Transport transport = Transport::automatic);

/// "Open MPI 4.1.4", or why there is none. Does not start MPI.
std::string mpi_library();

bool built_with_mpi();

}  // namespace ct
