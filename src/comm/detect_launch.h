// Was this process started by a launcher, as one of several? Read from the environment alone: without touching MPI.
#pragma once

#include <functional>
#include <string>

namespace ct {

struct Launch {
  /// What told of the rank. `address`: RANK and WORLD_SIZE, as torchrun, torch.distributed.launch and this program's
  /// own `launch` set them.
  enum class Kind { none, open_mpi, pmi, slurm_step, address };
  /// What brings the processes together: MPI, or an address at which rank 0 listens (comm/rendezvous/endpoint.h).
  enum class Meet { by_mpi, at_address };
  Kind kind = Kind::none;
  int rank = 0, size = 1;  // as the launcher says
  int local_rank = 0;      // among the processes of this host
  int local_size = 0;      // processes of this host; 0: not told
  Meet meet = Meet::by_mpi;
  /// Several processes: they are ranks, which have to meet. One process needs nobody, whoever started it.
  bool parallel() const { return size > 1; }
  /// Did a launcher start this? Then there are as many ranks as it says, be it one.
  bool told() const { return kind != Kind::none; }
};

/// "mpirun (Open MPI)" and the like, for people.
std::string name(Launch::Kind kind);

/// Value of an environment variable, nullptr when unset.
using Environment = std::function<const char*(const char*)>;
/// That of this process.
Environment own_environment();

/// In this order: torchrun, which may itself run under one of the others; Open MPI's mpirun (OMPI_COMM_WORLD_*),
/// MPICH's, Intel's or `srun --mpi=pmi2` (PMI_*); RANK and WORLD_SIZE; srun (SLURM_STEP_*), whose ranks meet by MPI
/// unless it gives them no PMIx and MASTER_ADDR and MASTER_PORT are set. An allocation alone (SLURM_NTASKS in a batch
/// script) starts nothing, nor does the shell of `srun --pty`: no launcher.
/// Throws ExitCode::usage naming variables that make no sense, or contradict each other.
Launch detect_launch(const Environment& environment);
/// How this process was launched.
Launch detect_launch();

}  // namespace ct
