// Ranks that this process itself starts on this host. They connect at MASTER_ADDR, without mpirun.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "cli/launch/exports.h"

namespace ct {

/// The ranks of one host.
struct LocalRanks {
  int first = 0, count = 1;  // ranks first to first + count - 1
  int size = 1;              // number of all ranks
  int node = 0, nodes = 1;
  std::string address;
  int port = 0;
  Exports exports;                   // for all of them
  std::vector<std::string> program;  // its path first
};

/// The variables of a rank, as DeepSpeed's launcher and torchrun set them.
Exports variables_of(const LocalRanks& ranks, int local_rank);

/// Starts the ranks and returns when all have ended: 0, or the exit code of the first that failed (128 plus the number
/// of the signal that killed it). After a failure the others get some time to end and are then killed. Stop signals are
/// forwarded. If this process ends, the ranks end too.
int run_local_ranks(const LocalRanks& ranks);

/// A TCP port of this host that is currently free.
int free_port();

}  // namespace ct
