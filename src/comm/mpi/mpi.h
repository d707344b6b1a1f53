// Ranks that are processes started by mpirun or srun. In a build without MPI (no_mpi.cpp) join_mpi throws.
#pragma once

#include <memory>
#include <string>

#include "comm/communicator.h"
#include "comm/detect_launch.h"
#include "comm/join.h"

namespace ct {

/// Initialises MPI; only a process of a parallel launch may call it, and only once. Collective over all processes of
/// the job. Throws ExitCode::usage if MPI's world differs from the launcher's (the launcher of another MPI), and
/// ExitCode::memory if the host's ranks have too little shared memory.
std::unique_ptr<Communicator> join_mpi(const Launch& launch, Transport transport = Transport::automatic);

/// "Open MPI 4.1.4", or the reason why there is no MPI. Does not initialise MPI.
std::string mpi_library();

bool built_with_mpi();

}  // namespace ct
