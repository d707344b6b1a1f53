// What a launch hands to the ranks' environment: variables of libraries, and those of .deepspeed_env.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace ct {

using Exports = std::map<std::string, std::string>;

/// Lines VAR=VAL: the value is taken as it stands, without blanks at its ends and one pair of quotes around it. Blank
/// lines and those that begin with # are skipped. Error(usage) names `origin` and a line that is none of these.
void read_exports(std::string_view text, const std::string& origin, Exports& exports);

/// Variables of `environment` (environ) that begin with MLFLOW, PYTHON, MV2, UCX, NCCL or NEBULA; then those of
/// .deepspeed_env (or what DS_ENV_FILE names) in the home folder, then in the working folder: a later one wins.
/// Error(usage) where DS_ENV_FILE names a file that is in neither.
Exports exports_of_launch(const char* const* environment);

}  // namespace ct
