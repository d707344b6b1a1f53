// What the command line takes of other programs' words. deepspeed.cpp has them; a program that is built without
// src/deepspeed/ has no_deepspeed.cpp in its place, which adds nothing.
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

/// Adds options that name a configuration to lay over another, and a job's file.
void add_foreign_files(CLI::App& app, ConfigWords& files);

/// What a job's file says of options; see docs/configuration.md.
struct JobEnvironment {
  std::string config, overlay;
  std::optional<ConfigOverride> cuda_path;
};
/// Reads it and goes to the working folder that it names; `warnings` receives what is ignored. An empty path: nothing.
JobEnvironment enter_job(const std::string& env, std::vector<std::string>* warnings);

/// Adds flags to `train` and returns what they mean, once words are parsed.
using ForeignFlags = decltype(ConfigSources::flags);
ForeignFlags add_foreign_flags(CLI::App& app);

/// Members of the verb `config`.
std::span<const Verb> foreign_config_verbs();

/// Adds variables that files name.
void add_foreign_exports(Exports& exports);

/// Who may want to show a run.
std::vector<MakeListener> foreign_listeners();

}  // namespace ct
