// What other programs call the verbs and options of this one, for suggestions after unknown words.
#pragma once

#include <string>
#include <vector>

namespace ct {

/// The verb that `word` means, or nearly names; empty: none.
std::string verb_meant(const std::string& word);

/// The option that `word` ("--learning_rate=0.1", "-lr") means, or nearly names, among `options` ("--lr"); for a key
/// without an option "--set KEY=VALUE". Empty: none.
std::string option_meant(const std::string& word, const std::vector<std::string>& options);

}  // namespace ct
