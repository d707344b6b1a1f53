#include "cli/launch/command.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>

#include "base/error.h"
#include "base/shell_word.h"
#include "base/text.h"

namespace ct {
namespace {

void append(Words& words, const Words& more) { words.insert(words.end(), more.begin(), more.end()); }

/// Of Slurm's variables, and of the options: how many ranks, on how many nodes; 0: not given.
struct Tasks {
  int64_t all = 0, nodes = 0, a_node = 0;
};

int64_t number_of(const Environment& environment, const char* variable) {
  const char* text = environment(variable);
  int64_t value = 0;
  if (text != nullptr) std::from_chars(text, text + std::strlen(text), value);
  return std::max<int64_t>(value, 0);
}

Tasks tasks_of(const LaunchFlags& flags, const Resources& resources, const Environment& environment) {
  if (resources.from_file()) {
    const size_t first = resources.hosts[0].slots.size();
    for (const HostSlots& host : resources.hosts)
      if (host.slots.size() != first)
        fail(ExitCode::usage, "--launcher slurm: ", in_quotes(resources.hosts[0].name), " has ", first, " slots and ",
             in_quotes(host.name), " has ", host.slots.size(),
             ": srun needs the same number on each host; use --launcher openmpi, or --num_gpus");
    return {slots_of(resources.hosts), std::ssize(resources.hosts), static_cast<int64_t>(first)};
  }
  Tasks tasks{.nodes = std::max(flags.num_nodes, 0), .a_node = std::max(flags.num_gpus, 0)};
  if (tasks.nodes == 0) tasks.nodes = number_of(environment, "SLURM_JOB_NUM_NODES");
  tasks.all = tasks.nodes > 0 && tasks.a_node > 0 ? tasks.nodes * tasks.a_node : number_of(environment, "SLURM_NTASKS");
  if (tasks.all == 0)
    fail(ExitCode::usage, "--launcher slurm: the number of ranks is unknown: give --num_nodes and --num_gpus, ",
         "or --hostfile, or run it in an allocation (sbatch, salloc) with --ntasks");
  return tasks;
}

}  // namespace

Command mpirun_command(const std::string& mpirun, const LaunchFlags& flags, const RanksToStart& ranks) {
  const Resources& resources = ranks.resources;
  Command command{.words = {mpirun, "-np", std::to_string(slots_of(resources.hosts)), "--host"}};
  std::string hosts = resources.here ? str(kLocalHost, ":", slots_of(resources.hosts)) : "";
  if (!resources.here)
    for (const HostSlots& host : resources.hosts)
      hosts += str(hosts.empty() ? "" : ",", host.name, ":", host.slots.size());
  // mpirun would bind ranks to the host's first cores, as it does those of every other job there.
  append(command.words, {hosts, "--map-by", "slot", "--bind-to", "none"});
  if (flags.ssh_port > 0) append(command.words, {"--mca", "plm_rsh_args", str("-p ", flags.ssh_port)});
  append(command.words, part_words(flags.launcher_args));
  for (const auto& [name, value] : ranks.exports) append(command.words, {"-x", name + "=" + value});
  append(command.words, ranks.program);
  return command;
}

Command srun_command(const LaunchFlags& flags, const RanksToStart& ranks, const Environment& environment) {
  const Resources& resources = ranks.resources;
  const Tasks tasks = tasks_of(flags, resources, environment);
  Command command{ranks.exports, {"srun", "-n", std::to_string(tasks.all)}};
  if (tasks.nodes > 0) command.words.push_back(str("--nodes=", tasks.nodes));
  if (tasks.a_node > 0) command.words.push_back(str("--ntasks-per-node=", tasks.a_node));
  if (resources.from_file()) {
    command.words.push_back("--nodelist=" + joined(resources.hosts, ",", &HostSlots::name));
    // srun may order the hosts differently from the hostfile.
    const bool alike = std::ranges::all_of(
        resources.hosts, [&](const HostSlots& host) { return host.slots == resources.hosts[0].slots; });
    if (!alike)
      fail(ExitCode::usage,
           "--launcher slurm: every host must have the same number of slots, because srun orders the hosts itself; use "
           "--launcher openmpi");
  }
  append(command.words, {"--mpi=pmix", "--export=ALL"});
  append(command.words, part_words(flags.launcher_args));
  append(command.words, ranks.program);
  return command;
}

std::string text_of(const Command& command) {
  std::string text = command.environment.empty() ? "" : "env";
  for (const auto& [name, value] : command.environment) text += " " + name + "=" + shell_word(value);
  for (const std::string& word : command.words) text += (text.empty() ? "" : " ") + shell_word(word);
  return text;
}

std::vector<std::string> part_words(const std::string& text) {
  Words words;
  std::optional<std::string> word;
  char quote = '\0';
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (quote == '\0' && (c == ' ' || c == '\t' || c == '\n')) {
      if (word) words.push_back(*std::move(word));
      word.reset();
      continue;
    }
    if (!word) word.emplace();
    if (quote == '\0' && (c == '"' || c == '\'')) {
      quote = c;
    } else if (c == quote && quote != '\0') {
      quote = '\0';
    } else if (c == '\\' && quote != '\'' && at + 1 < text.size()) {
      *word += text[++at];
    } else {
      *word += c;
    }
  }
  if (quote != '\0') fail(ExitCode::usage, "--launcher_args ", in_quotes(text), ": a quote is not closed");
  if (word) words.push_back(*std::move(word));
  return words;
}

}  // namespace ct
