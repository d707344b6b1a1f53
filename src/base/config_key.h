// Keys of a configuration: what may be written for one, and where its value lives. The parts of the program that a
// configuration chooses by name (optimizers, schedules) list their own, as parameter groups do; train/config reads and
// prints them all.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/choice.h"

namespace ct {

struct ConfigRule {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool above_min = false, below_max = false;  // the limit itself is out
  std::vector<std::string> values = {};       // of text: the spellings allowed; empty: any text. A Choice has its own
  bool any_case = false;
  bool may_be_empty = false;  // of text
  std::string numbered = {};  // a word of `values` that may be followed by :N
  std::string only = {};      // the one value this version supports, as printed; empty: all
  std::string open = {};      // of a switch: the word that leaves it to the program; empty: null does
  std::string refusal = {};   // of text: what is said of any other word, before it; empty: the usual
  bool resume_may_change = false;
};

struct ConfigKey {
  std::string name;
  std::variant<bool*, int64_t*, double*, std::string*, std::array<double, 2>*, std::vector<double>*,
               std::optional<int64_t>*, std::optional<double>*, Choice>
      target;
  std::string doc;
  ConfigRule rule = {};
};

/// A rule between keys that a configuration breaks.
struct ConfigFault {
  std::string key;  // where it is to be mended
  std::string text;
};

}  // namespace ct
