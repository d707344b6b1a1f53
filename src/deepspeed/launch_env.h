// Variables that DeepSpeed's launcher gives to all ranks.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace ct {

using Variables = std::map<std::string, std::string>;

/// Lines VAR=VAL: the value is taken as it stands, without blanks at its ends and one pair of quotes around it. Blank
/// lines and those that begin with # are skipped. Error(usage) names `origin` and a line that is none of these.
void read_variables(std::string_view text, const std::string& origin, Variables& variables);

/// Those of .deepspeed_env (or what DS_ENV_FILE names) in the home folder, then in the working folder: a later one
/// wins. Error(usage) where DS_ENV_FILE names a file that is in neither.
void add_launch_env(Variables& variables);

}  // namespace ct
