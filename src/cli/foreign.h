// Options of other programs on the command line. deepspeed.cpp defines them; a program that is built without
// src/deepspeed/ uses no_deepspeed.cpp, which adds none.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/config_lookup.h"
#include "cli/launch/exports.h"
#include "cli/verbs.h"
#include "train/run_listener.h"

namespace ct {

inline constexpr const char* kOverlayOption = "--deepspeed_config";

/// Adds the options for an overlay configuration and for a job's file.
void add_foreign_files(CLI::App& app, ConfigWords& files);

/// The options in a job's file; see docs/configuration.md.
struct JobEnvironment {
  std::string config, overlay;
  std::optional<ConfigOverride> cuda_path;
};
/// Reads a job's file and changes to its working folder; `warnings` receives ignored keys. Does nothing for an empty
/// path.
JobEnvironment enter_job(const std::string& env, std::vector<std::string>* warnings);

/// Adds flags to `train` and returns a function that yields their keys after parsing.
using ForeignFlags = decltype(ConfigSources::flags);
ForeignFlags add_foreign_flags(CLI::App& app);

/// Members of the verb `config`.
std::span<const Verb> foreign_config_verbs();

/// Adds variables from files.
void add_foreign_exports(Exports& exports);

/// The listeners that may show a run.
std::vector<MakeListener> foreign_listeners();

}  // namespace ct
