// From one process to ranks: threads of it, or the processes that a launcher started.
#pragma once

#include <functional>
#include <string>

#include "base/error.h"
#include "comm/communicator.h"
#include "comm/detect_launch.h"
#include "comm/watchdog/watchdog.h"
#include "train/config/config.h"

namespace ct {

/// Ranks of this job: `asked` ("auto" or a number) without a launcher, the launcher's under one, whose single process
/// may still be asked for several. Throws Error(usage).
int rank_count(const Config& config, const std::string& asked);

/// Throws Error(usage) where communication.backend does not connect ranks that are started so.
void require_connection(const Config& config, const Launch& launch);

/// Runs body on every rank of the job and returns its exit code. An error in any rank, or its loss, ends them all; one
/// of them throws or prints it, the others are silent. Handlers of StopSignals stay installed whatever MPI does.
int run_job(int ranks, const std::function<int(Communicator&)>& body, Supervision supervision = {});

/// This process's rank by the launcher's environment; 0 without a launcher, or one that makes no sense.
int launch_rank();

/// Prints "error: ..." unless another rank of the job is to say it (a mistake that all ranks make alike is told by
/// rank 0; the others wait for the launcher to end them). Returns the exit code.
int report_failure(const Error& error);

}  // namespace ct
