// Processes of this program on this host, those of other runs among them, and the cores that they are bound to: mpirun
// binds every job's ranks from the host's first core on, whatever runs there.
#pragma once

#include <sys/types.h>

#include <bitset>
#include <string>
#include <vector>

#include "base/cores.h"

namespace ct {

struct RankProcess {
  pid_t pid = 0;
  std::bitset<kMaxCpus> cpus;  // that its threads may run on, all together
  int ranks = 1;
  bool by_mpirun = false;
};

/// Those that can be seen; this process first, with `own_ranks`, unless that is 0. What only started others is none.
std::vector<RankProcess> rank_processes(int own_ranks);

/// The logical CPUs that no binding takes away from a process here.
std::bitset<kMaxCpus> unbound_cpus();

/// Where `one` is bound to fewer cores than the ranks that are bound to them, who they are and what to do; else "".
std::string crowded_cores(const RankProcess& one, const std::vector<RankProcess>& all,
                          const std::bitset<kMaxCpus>& unbound);

}  // namespace ct
