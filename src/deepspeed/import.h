// What becomes of each key of a configuration, and the same configuration in this program's words.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/choice.h"

namespace ct {

enum class Fate : uint8_t { honoured, ignored, refused };
constexpr auto words_of(Fate) { return std::to_array<std::string_view>({"honoured", "ignored", "refused"}); }

struct KeyFate {
  std::string key, value;  // as the file has them
  Fate fate = Fate::honoured;
  std::string why;  // of a key that is honoured: what there is to know; empty: nothing
  int line = 0, column = 0;
};

struct Import {
  std::vector<KeyFate> keys;          // in the file's order
  std::vector<std::string> warnings;  // what a run would say
  std::string broken;                 // a rule between keys that does not hold; empty: none
  std::string yaml;                   // of the keys that are honoured; loads to the same
  bool refused() const;
};

/// Reads a file, DeepSpeed's or this program's, key by key. Throws Error(usage) where it is no configuration at all.
Import import_config(const std::filesystem::path& file);

/// A line for each key: what becomes of it, the key with its value, and why.
std::string to_text(const Import& found);

}  // namespace ct
