// Variables that DeepSpeed's launcher exports to all ranks.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace ct {

using Variables = std::map<std::string, std::string>;

/// Reads lines VAR=VAL. The value is not expanded; blanks at its ends and one pair of quotes around it are removed.
/// Blank lines and lines that begin with # are skipped. Any other line is Error(usage) with `origin` and the line.
void read_variables(std::string_view text, const std::string& origin, Variables& variables);

/// Adds the variables of .deepspeed_env (or the file that DS_ENV_FILE names) in the home folder, then in the working
/// folder; a later value wins. Error(usage) if the file of DS_ENV_FILE is in neither.
void add_launch_env(Variables& variables);

}  // namespace ct
