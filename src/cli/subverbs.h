// Verbs with subverbs: `data verify`, `ckpt ls` and so on.
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

/// Runs the member named by the first word, or prints the family's help.
int run_family(const Family& family, const Words& words);

/// `data convert`, `data fetch`, `data info`, `ckpt prune`
int data_convert(const Words& words);
int data_fetch(const Words& words);
int data_info(const Words& words);
int ckpt_prune(const Words& words);

/// External text (a tensor's name, a metadata value) on one line: unchanged, or quoted if it contains control
/// characters or is long.
std::string plain(const std::string& text);

}  // namespace ct
