// Detects from the environment alone, without MPI, whether a launcher started this process as one of several.
#pragma once

#include <functional>
#include <string>

namespace ct {

struct Launch {
  /// The variables that define the rank. `address`: RANK and WORLD_SIZE, as set by torchrun, torch.distributed.launch
  /// and this program's `launch`.
  enum class Kind { none, open_mpi, pmi, slurm_step, address };
  /// How the processes connect: by MPI, or at an address where rank 0 listens (comm/rendezvous/endpoint.h).
  enum class Meet { by_mpi, at_address };
  Kind kind = Kind::none;
  int rank = 0, size = 1;  // set by the launcher
  int local_rank = 0;      // among the processes of this host
  int local_size = 0;      // processes of this host; 0: unknown
  Meet meet = Meet::by_mpi;
  /// Are there several processes, which are ranks and must connect?
  bool parallel() const { return size > 1; }
  /// Did a launcher start this process? Then the launcher sets the number of ranks, even if it is one.
  bool launched() const { return kind != Kind::none; }
};

/// The launcher for messages, such as "mpirun (Open MPI)".
std::string name(Launch::Kind kind);

/// Returns the value of an environment variable, or nullptr if it is not set.
using Environment = std::function<const char*(const char*)>;
/// The environment of this process.
Environment own_environment();

/// Checks in this order: torchrun, which may itself run under one of the others; Open MPI's mpirun (OMPI_COMM_WORLD_*);
/// MPICH's or Intel's mpiexec or `srun --mpi=pmi2` (PMI_*); RANK and WORLD_SIZE; srun (SLURM_STEP_*), whose ranks
/// connect by MPI unless PMIx is absent and MASTER_ADDR and MASTER_PORT are set. An allocation alone (SLURM_NTASKS in a
/// batch script) and the shell of `srun --pty` are not launchers. Throws ExitCode::usage, which names invalid or
/// contradictory variables.
Launch detect_launch(const Environment& environment);
/// How this process was launched.
Launch detect_launch();

}  // namespace ct
