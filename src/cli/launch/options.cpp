#include "cli/launch/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "cli/verbs.h"

namespace ct {
namespace {

constexpr const char* kGroup = "Launching";

bool is_launch_option(const CLI::Option& option) { return option.get_group() == kGroup; }

/// Options of DeepSpeed's launcher that are accepted without effect, or refused by name.
constexpr const char *kAccepted[] = {"--no_python", "--no_local_rank"},
                     *kRefused[] = {"--module", "--autotuning", "--elastic_training", "--min_elastic_nodes",
                                    "--max_elastic_nodes"};

/// The launcher's option that `word` names, by itself or before a '='.
const CLI::Option* option_of(const CLI::App& app, const std::string& word) {
  if (!word.starts_with('-')) return nullptr;
  const std::string name = word.substr(0, word.find('='));
  for (const CLI::Option* option : app.get_options())
    if ((is_launch_option(*option) ||
         std::find(std::begin(kRefused), std::end(kRefused), name) != std::end(kRefused)) &&
        option->check_name(name))
      return option;
  return nullptr;
}

/// How many words option and value take.
size_t length_of(const CLI::Option& option, const std::string& word) {
  return option.get_expected_max() > 0 && word.find('=') == word.npos ? 2 : 1;
}

}  // namespace

void add_launch_options(CLI::App& app, LaunchFlags& f, LaunchForms forms) {
  const bool with_short = forms == LaunchForms::with_short;
  const auto add = [&](const char* name, auto& value, const char* text) {
    return app.add_option(name, value, text)->group(kGroup);
  };
  const auto add_flag = [&](const char* name, bool& value, const char* text) {
    return app.add_flag(name, value, text)->group(kGroup);
  };
  const CLI::Range port(1, 65535);
  const auto count = [](const std::string& word) {  // -1: DeepSpeed's word for all
    if (word == "-1") return std::string();
    const std::string problem = positive_problem(word);
    return problem.empty() ? number_between(1, 65536)(word) : problem;
  };
  add(with_short ? "-H,--hostfile" : "--hostfile", f.hostfile,
      "lines \"NAME slots=N\"; default: /job/hostfile if it exists, else this machine")
      ->type_name("FILE");
  add(with_short ? "-i,--include" : "--include", f.include, "use only NAME[:SLOT[,SLOT...]][@NAME...]");
  add(with_short ? "-e,--exclude" : "--exclude", f.exclude, "use all but NAME[:SLOT[,SLOT...]][@NAME...]");
  add("--num_nodes", f.num_nodes, "use the first N hosts; -1 (default): all")->check(count);
  add("--num_gpus,--num_accelerators", f.num_gpus, "ranks on each host, on GPUs 0 to N-1; -1 (default): on all")
      ->check(count);
  add("--master_addr", f.master_addr, "address of rank 0, if mpirun does not connect the ranks");
  add("--master_port", f.master_port, "its TCP port (29500)")->check(port);
  add("--launcher", f.launcher, "openmpi | slurm | pdsh (as openmpi)")->capture_default_str();
  add("--launcher_args", f.launcher_args, "arguments for mpirun or srun, in one pair of quotes");
  add_flag("--no_ssh", f.no_ssh, "start this host's ranks only: the same command on every host, with --node_rank");
  add("--node_rank", f.node_rank, "with --no_ssh: the number of this host, from 0")->check(CLI::Range(0, 65535));
  add_flag("--no_ssh_check", f.no_ssh_check, "do not test ssh first");
  add("--ssh_port", f.ssh_port, "the port of ssh on the other hosts")->check(port);
  add_flag("--force_multi", f.force_multi, "start the ranks of a single host by mpirun too");
  add_flag("--bind_cores_to_rank", f.bind_cores, "bind each rank to its share of its host's cores");
  add("--bind_core_list", f.bind_core_list, "the cores to share, as in 0-3,8-11; implies --bind_cores_to_rank");
  add("--enable_each_rank_log", f.rank_log, "write the output of each rank to FOLDER/TIME_rankN.log")
      ->type_name("FOLDER");
  add_flag("--save_pid", f.save_pid, "write the launcher's process number to /tmp/PID.deepspeed");
  if (with_short) add_flag("--dry-run", f.dry_run, "print the command and stop");

  if (!with_short) return;
  for (const char* name : kAccepted)
    app.add_flag_callback(
           name, [] {}, "accepted without effect: there is no script")
        ->group(kGroup);
  for (const char* name : kRefused) {
    app.add_flag_callback(name,
                          [name] {
                            fail(ExitCode::usage, name,
                                 " of DeepSpeed's launcher is not supported by this version: remove it");
                          })
        ->group("");
  }
}

bool asks_for_launch(const CLI::App& app) {
  return std::ranges::any_of(
      app.get_options(), [](const CLI::Option* option) { return is_launch_option(*option) && option->count() > 0; });
}

LaunchWords split_launch_words(const CLI::App& app, const Words& words) {
  size_t at = 0;
  while (at < words.size()) {
    const CLI::Option* option = option_of(app, words[at]);
    if (option == nullptr && words[at] != "--help" && words[at] != "-h") break;
    at += option == nullptr ? 1 : length_of(*option, words[at]);
  }
  at = std::min(at, words.size());
  const auto middle = words.begin() + static_cast<ptrdiff_t>(at);
  LaunchWords split{{words.begin(), middle}, {middle, words.end()}};
  if (!split.program.empty() && split.program[0] == "--") split.program.erase(split.program.begin());
  return split;
}

Words without_launch_options(const CLI::App& app, const Words& words) {
  Words left;
  for (size_t at = 0; at < words.size();) {
    const CLI::Option* option = option_of(app, words[at]);
    if (option == nullptr) left.push_back(words[at]);
    at += option == nullptr ? 1 : length_of(*option, words[at]);
  }
  return left;
}

}  // namespace ct
