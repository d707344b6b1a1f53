// The fate of each key of a configuration, and the same configuration with this program's keys.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/choice.h"

namespace ct {

enum class Fate : uint8_t { honoured, ignored, refused };
constexpr auto words_of(Fate) { return std::to_array<std::string_view>({"honoured", "ignored", "refused"}); }

struct KeyFate {
  std::string key, value;  // as in the file
  Fate fate = Fate::honoured;
  std::string why;  // the reason; for an honoured key a note; empty: none
  int line = 0, column = 0;
};

struct Import {
  std::vector<KeyFate> keys;          // in the file's order
  std::vector<std::string> warnings;  // the warnings of a run
  std::string broken;                 // a rule between keys that does not hold; empty: none
  std::string yaml;                   // the honoured keys; loads to the same configuration
  bool refused() const;
};

/// Reads a configuration of DeepSpeed or of this program key by key. Throws Error(usage) if it is not a configuration
/// at all.
Import import_config(const std::filesystem::path& file);

/// A line for each key: its fate, the key with its value, and the reason.
std::string to_text(const Import& found);

}  // namespace ct
