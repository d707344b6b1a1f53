// Messages by MPI.
#pragma once

#include <memory>

#include "comm/messages/wire.h"

namespace ct {

/// MPI is running; collective over MPI_COMM_WORLD. finish() ends MPI.
std::unique_ptr<MessageWire> make_mpi_wire();

/// An MPI call's return value: Error(ExitCode::peer) with MPI's own words unless it is a success.
void check_mpi(int result, const char* call);

}  // namespace ct
