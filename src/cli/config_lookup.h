// The options that name a configuration, and the search for its file, common to all verbs.
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

/// Searches `name` as given, then, if it is relative, in `directories` (the source's configs/, the installed ones);
/// there "configs/NAME" is the same as "NAME". Throws Error(usage), which begins with the option that named it (empty:
/// none) and lists the searched places.
std::filesystem::path find_config(const std::string& name, const std::vector<std::filesystem::path>& directories,
                                  std::string_view option = "--config");

/// The installed configurations of an executable at PREFIX/bin/: PREFIX/share/cifar-train/configs.
std::filesystem::path installed_configs(const std::filesystem::path& executable);

/// Searches `name` as given, then in configs/ of the source tree if this executable is in its build folder, then in the
/// installed configs/. Throws Error(usage), which begins with the option that named it (empty: none) and lists the
/// searched places.
std::filesystem::path locate_config(const std::string& name, std::string_view option = "--config");

/// The names of the configurations that come with the program: "resnet18.yaml", "seeds/imagenet.yaml".
std::vector<std::string> shipped_configs();

/// The same search for a file that is not a configuration.
std::filesystem::path locate_file(const std::string& name, std::string_view option);

/// The word that names a located configuration for another process, whose working folder may differ. A pipe is refused.
std::string word_of_config(const std::filesystem::path& located);

/// The options for a configuration.
struct ConfigWords {
  std::optional<std::string> config, overlay;  // the second overlays the first
  std::string env;                             // a job's file of KEY=VALUE lines; empty: none
  std::vector<std::string> sets;
  std::vector<ConfigOverride> overrides;
};
/// Adds --config, --data, --model, the options of add_foreign_files(), and --set. `config` is the option's name, for
/// verbs that also accept a positional argument.
void add_config_options(CLI::App& app, ConfigWords& words, const std::string& config = "--config");
/// Adds an option that sets a key.
CLI::Option* add_key_option(CLI::App& app, ConfigWords& words, const char* option, const char* key, const char* text);
/// Adds --device and --cuda-path.
void add_device_options(CLI::App& app, ConfigWords& words);

/// Throws for pipes among the files in a rank's words, because launchers do not pass pipes on.
void require_files_for_ranks(const std::vector<std::string>& words);

/// The files: those of options, otherwise those of the job's file, otherwise finetune.yaml if --data (or --set
/// data.path) names pictures, otherwise default.yaml. `flags`: ConfigSources::flags; `pretrained`: weights to start
/// from, or empty.
ConfigSources locate_configs(const ConfigWords& words, std::vector<std::string>* warnings,
                             const decltype(ConfigSources::flags)& flags = {}, const std::string& pretrained = "");

/// The words of a `train` command with the same files and settings.
std::vector<std::string> train_words(const ConfigSources& sources);

}  // namespace ct
