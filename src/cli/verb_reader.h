// What a verb takes, for those who show it instead of running the verb: completion and the man page. The options are
// those of --help, because both come from the parser that the verb makes for itself.
#pragma once

#include <functional>

#include "cli/subverbs.h"

namespace ct {

struct VerbReader {
  std::function<void(CLI::App&)> options;       // a verb's
  std::function<void(const Family&)> commands;  // instead, those of a verb that has commands
};

/// Runs the verb up to where its words would be parsed, and calls one of the reader's functions there.
void read_verb(const Verb& verb, const VerbReader& reader);

/// The reader of the verb that is being read; null: verbs are run.
const VerbReader* verb_reader();

}  // namespace ct
