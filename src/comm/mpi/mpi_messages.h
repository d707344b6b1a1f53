// Ranks on several hosts: the same collectives, with the same bits, through MPI messages.
#pragma once

#include <memory>

#include "comm/communicator.h"

namespace ct {

/// MPI is running; collective over MPI_COMM_WORLD. finish() ends MPI.
std::unique_ptr<Communicator> make_mpi_messages();

/// An MPI call's return value: Error(ExitCode::peer) with MPI's own words unless it is a success.
void check_mpi(int result, const char* call);

}  // namespace ct
