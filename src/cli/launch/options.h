// The options of a launch: DeepSpeed's launcher's, under `launch` and, those with long names, under `train` too.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/verbs.h"

namespace ct {

inline constexpr int kMasterPort = 29500;
/// Where DeepSpeed looks for one.
inline constexpr const char* kHostfile = "/job/hostfile";

struct LaunchFlags {
  std::optional<std::string> hostfile;  // else kHostfile, if it is there
  std::string include, exclude, launcher = "openmpi", launcher_args, master_addr, bind_core_list, rank_log;
  int num_nodes = -1, num_gpus = -1, node_rank = -1, ssh_port = 0;  // -1, 0: not given
  std::optional<int> master_port;
  bool no_ssh = false, no_ssh_check = false, force_multi = false, bind_cores = false, save_pid = false, dry_run = false;
};

/// Short forms mean other things to `train`.
enum class LaunchForms : uint8_t { long_only, with_short };

/// Adds the options; those of DeepSpeed's that mean nothing here are accepted or refused by name.
void add_launch_options(CLI::App& app, LaunchFlags& flags, LaunchForms forms);

/// Was one of them given?
bool asks_for_launch(const CLI::App& app);

/// `words` in two: the launcher's options, which come first, and from the first word that is none of them on the
/// program's. `app` has the options.
struct LaunchWords {
  Words launcher, program;
};
LaunchWords split_launch_words(const CLI::App& app, const Words& words);
/// `words` without the launcher's options, wherever they stand.
Words without_launch_options(const CLI::App& app, const Words& words);

}  // namespace ct
