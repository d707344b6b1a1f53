// Keys of a configuration: their allowed values and their targets. Parts of the program that a configuration selects by
// name (optimizers, schedules) and parameter groups list their own keys; train/config reads and prints all keys.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/choice.h"
#include "base/step_count.h"

namespace ct {

struct ConfigRule {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool above_min = false, below_max = false;  // the limit itself is not allowed
  std::vector<std::string> values = {};       // text: the allowed words; empty: any text. A Choice has its own
  bool any_case = false;
  bool may_be_empty = false;  // text: the empty text is allowed
  std::string numbered = {};  // a word of `values` that may be followed by :N
  std::string only = {};      // the one value this version supports, as printed; empty: all
  std::string open = {};      // true or false: the word that leaves the choice to the program; empty: null
  std::string refusal = {};   // text: the beginning of the error for other words; empty: the default
  bool resume_may_change = false;
};

struct ConfigKey {
  std::string name;
  std::variant<bool*, int64_t*, double*, std::string*, std::array<double, 2>*, std::vector<double>*,
               std::optional<int64_t>*, std::optional<double>*, StepCount*, std::optional<StepCount>*,
               std::vector<StepCount>*, Choice>
      target;
  std::string doc;
  ConfigRule rule = {};
};

/// A rule between keys that a configuration breaks.
struct ConfigFault {
  std::string key;  // the key to change
  std::string text;
};

}  // namespace ct
