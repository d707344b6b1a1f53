// The options of a launch, those of DeepSpeed's launcher: under `launch`, and the long ones also under `train`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/verbs.h"

namespace ct {

inline constexpr int kMasterPort = 29500;
/// DeepSpeed's default hostfile.
inline constexpr const char* kHostfile = "/job/hostfile";

struct LaunchFlags {
  std::optional<std::string> hostfile;  // nullopt: kHostfile, if it exists
  std::string include, exclude, launcher = "openmpi", launcher_args, master_addr, bind_core_list, rank_log;
  int num_nodes = -1, num_gpus = -1, node_rank = -1, ssh_port = 0;  // -1, 0: not given
  std::optional<int> master_port;
  bool no_ssh = false, no_ssh_check = false, force_multi = false, bind_cores = false, save_pid = false, dry_run = false;
};

/// `train` uses the short forms for other options.
enum class LaunchForms : uint8_t { long_only, with_short };

/// Adds the options; DeepSpeed's options without effect here are accepted or refused by name.
void add_launch_options(CLI::App& app, LaunchFlags& flags, LaunchForms forms);

/// Is any of these options given?
bool asks_for_launch(const CLI::App& app);

/// Splits `words`: first the launcher's options, then, from the first other word on, the program's words. `app` has the
/// options.
struct LaunchWords {
  Words launcher, program;
};
LaunchWords split_launch_words(const CLI::App& app, const Words& words);
/// `words` without the launcher's options, at any position.
Words without_launch_options(const CLI::App& app, const Words& words);

}  // namespace ct
