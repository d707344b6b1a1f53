// A launch as one line: of mpirun or of srun.
#pragma once

#include <string>
#include <vector>

#include "cli/launch/exports.h"
#include "cli/launch/resources.h"

namespace ct {

struct Command {
  Exports environment;             // set before it runs
  std::vector<std::string> words;  // the program first
};

/// What the ranks of a launch are, whatever starts them.
struct RanksToStart {
  Resources resources;
  Exports exports;
  std::vector<std::string> program;  // of every rank
};

/// `mpirun`: its path. Rank after rank fills the hosts in their order.
Command mpirun_command(const std::string& mpirun, const LaunchFlags& flags, const RanksToStart& ranks);

/// In an allocation of Slurm's; without a hostfile on its nodes. Error(usage) where srun cannot place ranks so.
Command srun_command(const LaunchFlags& flags, const RanksToStart& ranks, const Environment& environment);

/// As one types it.
std::string text_of(const Command& command);

/// The words of --launcher_args, as a shell would part them; nothing is expanded. Error(usage): a quote is left open.
std::vector<std::string> part_words(const std::string& text);

}  // namespace ct
