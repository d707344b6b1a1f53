// Suggestions for unknown words, for error messages.
#pragma once

#include <string>
#include <vector>

#include "train/config/schema.h"

namespace ct {

/// The choice nearest to `word`, ignoring case; empty if none is near.
std::string nearest(const std::string& word, const std::vector<std::string>& choices);

/// "; did you mean 'train.epochs'?" for the known key nearest to an unknown one; empty: none is near.
std::string suggest_key(const std::string& key, const std::vector<ConfigField>& fields);

}  // namespace ct
