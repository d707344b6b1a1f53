// The command line of a launch: of mpirun or of srun.
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

/// The ranks of a launch, for any launcher.
struct RanksToStart {
  Resources resources;
  Exports exports;
  std::vector<std::string> program;  // the words of every rank
};

/// `mpirun`: its path. Ranks fill the hosts in their order.
Command mpirun_command(const std::string& mpirun, const LaunchFlags& flags, const RanksToStart& ranks);

/// For an allocation of Slurm; without a hostfile on all of its nodes. Error(usage) if srun cannot place ranks this
/// way.
Command srun_command(const LaunchFlags& flags, const RanksToStart& ranks, const Environment& environment);

/// The command as shell text.
std::string text_of(const Command& command);

/// The words of --launcher_args, split as by a shell, without expansion. Error(usage) for an unclosed quote.
std::vector<std::string> part_words(const std::string& text);

}  // namespace ct
