// The scripts by which shells complete words of this program. They only pass its words on to the hidden verb
// __complete, so they need no change when verbs, options or keys do.
#pragma once

#include <string>

namespace ct {

inline constexpr const char* kCompleteVerb = "__complete";

/// `shell`: bash, zsh or fish.
const char* completion_script(const std::string& shell);

}  // namespace ct
