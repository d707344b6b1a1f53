// What was meant by a word that is none, for error messages.
#pragma once

#include <string>
#include <vector>

#include "train/config/schema.h"

namespace ct {

/// The choice nearest to `word`, in any case of letters; empty where none is near.
std::string nearest(const std::string& word, const std::vector<std::string>& choices);

/// "; did you mean 'train.epochs'?" for the known key nearest to an unknown one, or nothing.
std::string suggest_key(const std::string& key, const std::vector<ConfigField>& fields);

}  // namespace ct
