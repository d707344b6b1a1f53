// Verbs that are families: `data verify`, `ckpt ls` and so on.
#pragma once

#include <span>
#include <string>

#include "cli/verbs.h"

namespace ct {

struct Family {
  const char* name;     // "data"
  const char* summary;  // the help's first line
  std::span<const Verb> members;
};

/// Runs the member that the first word names, or prints the family's help.
int run_family(const Family& family, const Words& words);

/// `data convert`
int data_convert(const Words& words);

/// Someone else's text (a tensor's name, a metadata value) on one line: as it is, or quoted where it holds control
/// characters or is long.
std::string plain(const std::string& text);

}  // namespace ct
