// How help and the man page show an option.
#pragma once

#include <span>
#include <string>

#include "cli/verbs.h"

namespace CLI {
class Option;
}  // namespace CLI

namespace ct {

/// What an option takes: "CONFIG", "N", "N=3" with its default, "IMAGE..." for several; empty: nothing. `by_place`:
/// what follows the name of a word without an option, which says the rest.
std::string operand(const CLI::Option& option, bool by_place = false);

/// The help of a verb's options in lines of at most `columns` characters.
std::string help_text(CLI::App& app, int columns);

/// "  NAME  SUMMARY", a line each, in so many columns.
std::string verb_list(std::span<const Verb> verbs, int columns);

/// Those of help on standard output, and a line of help in them.
int help_columns();
std::string help_line(const std::string& text);

}  // namespace ct
