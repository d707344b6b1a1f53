// Was this process started by a launcher, as one of several? Read from the environment alone: without touching MPI.
#pragma once

#include <functional>
#include <string>

namespace ct {

struct Launch {
  enum class Kind { none, open_mpi, pmi, slurm_step };
  Kind kind = Kind::none;
  int rank = 0, size = 1;  // as the launcher says
  int local_rank = 0;      // among the processes of this host
  /// Several processes: they are ranks, and MPI connects them. One process needs no MPI, whoever started it.
  bool parallel() const { return size > 1; }
};

/// "mpirun (Open MPI)" and the like, for people.
std::string name(Launch::Kind kind);

/// Value of an environment variable, nullptr when unset.
using Environment = std::function<const char*(const char*)>;

/// Open MPI's mpirun (OMPI_COMM_WORLD_*), MPICH's, Intel's or `srun --mpi=pmi2` (PMI_*), srun (SLURM_STEP_*). An
/// allocation alone (SLURM_NTASKS in a batch script) starts nothing: one process.
/// Throws ExitCode::usage naming the variable that makes no sense.
Launch detect_launch(const Environment& environment);
/// How this process was launched.
Launch detect_launch();

}  // namespace ct
