// Ranks that this process starts itself, on this host: they meet at MASTER_ADDR, and no mpirun is needed.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "cli/launch/exports.h"

namespace ct {

/// The part of a world that is on one host.
struct LocalRanks {
  int first = 0, count = 1;  // ranks `first` and the next ones
  int size = 1;              // of the world
  int node = 0, nodes = 1;
  std::string address;
  int port = 0;
  Exports exports;                   // for all of them
  std::vector<std::string> program;  // its path first
};

/// The variables of a rank, as DeepSpeed's launcher and torchrun set them.
Exports variables_of(const LocalRanks& ranks, int local_rank);

/// Starts them and returns when all have ended: 0, or the exit code of the one that failed first (128 and the signal's
/// number where one killed it), after which the others get a while to end by themselves and are ended then. Signals
/// that ask to stop are passed on. Whatever ends this process ends them too.
int run_local_ranks(const LocalRanks& ranks);

/// A TCP port of this host that nobody has at the moment.
int free_port();

}  // namespace ct
