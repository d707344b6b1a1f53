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
class Option;
}  // namespace CLI

namespace ct {

/// `name` as given, else, when it is relative, below the first of `directories` (the source's configs/, the installed
/// ones) that has it; "configs/NAME" is there what "NAME" is. Throws Error(usage) that begins with the option that
/// named it (empty: none) and lists where it looked.
std::filesystem::path find_config(const std::string& name, const std::vector<std::filesystem::path>& directories,
                                  std::string_view option = "--config");

/// The installed configurations of an executable at PREFIX/bin/: PREFIX/share/cifar-train/configs.
std::filesystem::path installed_configs(const std::filesystem::path& executable);

/// `name` as given; else below the configs/ of the source tree that this executable was built in, where it lies in
/// one; else among the installed ones. Throws Error(usage) that begins with the option that named it (empty: none) and
/// lists where it looked.
std::filesystem::path locate_config(const std::string& name, std::string_view option = "--config");

/// A file that is no configuration, looked for likewise.
std::filesystem::path locate_file(const std::string& name, std::string_view option);

/// The word that names a located one to another process, whose working folder may be another. A pipe is refused.
std::string word_of_config(const std::filesystem::path& located);

/// What options say of a configuration.
struct ConfigWords {
  std::optional<std::string> config, overlay;  // laid over the first
  std::string env;                             // a job's file of KEY=VALUE lines; empty: none
  std::vector<std::string> sets;
  std::vector<ConfigOverride> overrides;
};
/// --config, those of add_foreign_files(), and --set. `config` is the option's name, for verbs that take it without one
/// too.
void add_config_options(CLI::App& app, ConfigWords& words, const std::string& config = "--config");
/// Adds an option that sets a key.
CLI::Option* add_key_option(CLI::App& app, ConfigWords& words, const char* option, const char* key, const char* text);
/// --device and --cuda-path.
void add_device_options(CLI::App& app, ConfigWords& words);

/// Refuses pipes among the files that a rank's words name: a launcher hands none on.
void require_files_for_ranks(const std::vector<std::string>& words);

/// The files, options before the job's words, and default.yaml in the end.
ConfigSources locate_configs(const ConfigWords& words, std::vector<std::string>* warnings);

/// "train" and the words that name and set the same there.
std::vector<std::string> train_words(const ConfigSources& sources);

}  // namespace ct
