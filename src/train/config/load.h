// Loads one validated Config from files, flags and --set words.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "train/config/config.h"

namespace ct {

class Merge;

/// One key given on the command line; `value` is YAML (for text: the bare text), `origin` is the user's notation.
struct ConfigOverride {
  std::string key, value, origin;
};

struct ConfigSources {
  std::vector<std::filesystem::path> files = {};  // in order: a later file's keys win
  bool begins_with_default = false;               // no word names the first
  std::vector<ConfigOverride> fitted = {};        // the program's choice for its input, which all words replace
  // Flags of the command line that depend on the files; null: none.
  std::function<std::vector<ConfigOverride>(const Merge& files, std::vector<std::string>* warnings)> flags = {};
  std::vector<ConfigOverride> overrides = {};  // other flags that set a key, such as --output
  // "a.b=c", applied in order after all of these; optimizer.type= first, because it clears the params
  std::vector<std::string> sets = {};
  std::vector<ConfigOverride> swept = {};  // of one run of a sweep; applied after the sets
};

/// Reads, merges and checks. Every Error is ExitCode::usage, one line, with the position of the faulty value.
/// `warnings` receives lines for the user: ignored keys, settings that override each other.
Config load_config(const ConfigSources& sources, std::vector<std::string>* warnings);

/// The keys that `sources.flags` set.
std::vector<ConfigOverride> keys_of_flags(const ConfigSources& sources, std::vector<std::string>* warnings);

/// Reads a configuration that to_yaml has printed, from memory; `name` is the file's name in errors.
Config load_config_text(const std::string& text, const std::string& name);

}  // namespace ct
