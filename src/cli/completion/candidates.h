// The words that may come next on a command line.
#pragma once

#include <string>
#include <vector>

#include "cli/verbs.h"

namespace ct {

struct Candidate {
  std::string word;
  std::string about;  // one line; may be empty
};

struct Candidates {
  enum class Files { none, any, folders };
  std::vector<Candidate> words;  // that begin as the typed one
  Files files = Files::none;     // besides, which the shell looks for
};

/// `words` follow the program's name; the last one is being typed and may be empty. An option's values are those that
/// its help lists, and those of a key that its help names in parentheses.
Candidates candidates(const Words& words);

/// Of the configuration's keys that begin as `typed`, up to their next dot: "train.", "seed="; behind "KEY=" the values
/// of the key, where they are few.
Candidates setting_candidates(const std::string& typed);

/// The values of a key, or files if it is a text.
Candidates value_candidates(const std::string& key, const std::string& typed);

}  // namespace ct
