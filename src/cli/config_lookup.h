// What names a configuration on the command line: the same words and places for every verb.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "train/config/load.h"

namespace CLI {
class App;
}

namespace ct {

/// `name` as given; else below the configs/ of the source tree that this executable was built in, where it lies in
/// one; else among the installed ones. Throws Error(usage) that begins with the option that named it (empty: none) and
/// lists where it looked.
std::filesystem::path locate_config(const std::string& name, std::string_view option = "--config");

/// The word that names a located one to another process, whose working folder may be another. A pipe is refused.
std::string word_of_config(const std::filesystem::path& located);

/// The words of `train` that take the same files and settings in another process.
std::vector<std::string> train_words(const ConfigSources& sources);

/// The options that name configurations.
struct ConfigFiles {
  std::optional<std::string> config, deepspeed;
  std::string env;  // a job's file of KEY=VALUE lines; empty: none
};
/// --config, --deepspeed_config and --env. `config` is the option's name, for verbs that take it without one too.
void add_config_options(CLI::App& app, ConfigFiles& files, const std::string& config = "--config");

/// Refuses pipes among the files that a rank's words name: a launcher hands none on.
void require_files_for_ranks(const std::vector<std::string>& words);

/// What a job's file says of options; see docs/configuration.md.
struct JobEnvironment {
  std::string config, deepspeed;
  std::optional<ConfigOverride> cuda_path;
};
/// Reads it and goes to the working folder that it names; `warnings` receives what is ignored. An empty path: nothing.
JobEnvironment enter_job(const std::string& env, std::vector<std::string>* warnings);

/// The files, options before the job's words, and default.yaml in the end; --set is the caller's.
ConfigSources locate_configs(const ConfigFiles& files, std::vector<std::string>* warnings);

}  // namespace ct
