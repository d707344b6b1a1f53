// From files, flags and --set words to one validated Config.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "train/config/config.h"

namespace ct {

class Merge;

/// One key given on the command line; `value` is YAML (for text: the bare text), `origin` how the user wrote it.
struct ConfigOverride {
  std::string key, value, origin;
};

struct ConfigSources {
  std::vector<std::filesystem::path> files = {};  // in order: a later file's keys win
  bool begins_with_default = false;               // the first is default.yaml, which nobody has named
  // Flags of the command line that depend on what the files say; null: none.
  std::function<std::vector<ConfigOverride>(const Merge& files, std::vector<std::string>* warnings)> flags = {};
  std::vector<ConfigOverride> overrides = {};  // other flags that set a key, such as --output
  // "a.b=c", applied in order behind all of these; optimizer.type= first, as it clears the params
  std::vector<std::string> sets = {};
  std::vector<ConfigOverride> swept = {};  // of one run of a sweep: behind the sets
};

/// Reads, merges and checks. Every Error is ExitCode::usage, one line, with the place of the value at fault.
/// `warnings` receives lines for the user: ignored keys, settings that override each other.
Config load_config(const ConfigSources& sources, std::vector<std::string>* warnings);

/// The configuration that to_yaml once printed, from memory; `name` stands for the file in errors.
Config load_config_text(const std::string& text, const std::string& name);

}  // namespace ct
