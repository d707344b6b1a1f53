// cifar-train launch: the ranks of a job on several hosts, in the words of DeepSpeed's launcher.
#include "cli/launch/launch.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/error.h"
#include "base/files.h"

namespace ct {
namespace {

/// Refuses options of launch among those of the ranks, because each rank would launch ranks too.
void require_none_of_launching(const Words& program) {
  LaunchFlags unused;
  CLI::App app;
  add_launch_options(app, unused, LaunchForms::long_only);
  const Words others = without_launch_options(app, program);
  if (const auto word = std::ranges::mismatch(program, others).in1; word != program.end())
    fail(ExitCode::usage, "launch: ", *word, " comes after ", in_quotes(program[0]),
         ", where the options of the ranks begin: give the options of launch first");
}

}  // namespace

int verb_launch(const Words& words) {
  CLI::App app(
      "Starts the ranks of a run on this host or several, by mpirun or srun. Its own options come first, then train "
      "(or bench) with its options.",
      "cifar-train launch");
  LaunchFlags flags;
  add_launch_options(app, flags, LaunchForms::with_short);
  LaunchWords split = split_launch_words(app, words);
  if (!parse(app, split.launcher)) return 0;
  require_none_of_launching(split.program);
  return run_launch(flags, split.program);
}

}  // namespace ct
