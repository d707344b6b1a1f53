// Starts ranks: threads of this process, or the processes that a launcher started.
#pragma once

#include <functional>
#include <string>

#include "base/error.h"
#include "comm/communicator.h"
#include "comm/detect_launch.h"
#include "comm/watchdog/watchdog.h"
#include "train/config/config.h"

namespace ct {

/// The number of ranks of this job: `asked` ("auto" or a number) without a launcher, otherwise the launcher's; a single
/// process of a launcher may also ask for several. Throws Error(usage).
int rank_count(const Config& config, const std::string& asked);

/// Throws Error(usage) if communication.backend does not connect ranks that are started this way.
void require_connection(const Config& config, const Launch& launch);

/// Runs body on every rank of the job and returns its exit code. An error in any rank, or its loss, ends all ranks; one
/// of them throws or prints the error. The handlers of StopSignals stay installed, even if MPI replaces them.
int run_job(int ranks, const std::function<int(Communicator&)>& body, Supervision supervision = {});

/// This process's rank from the launcher's environment; 0 without a launcher or with invalid variables.
int launch_rank();

/// Prints "error: ..." unless another rank of the job prints it (rank 0 prints an error that all ranks have; the others
/// wait for the launcher to end them). Returns the exit code.
int report_failure(const Error& error);

}  // namespace ct
