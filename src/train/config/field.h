// One key of a configuration: its target, and how it is read, checked and printed.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "base/config_key.h"
#include "train/config/config.h"
#include "train/config/document.h"

namespace ct {

/// std::visit(Overload{[](A) {...}, [](B) {...}}, variant): one function of several, chosen by type.
template <class... Types>
struct Overload : Types... {
  using Types::operator()...;
};
template <class... Types>
Overload(Types...) -> Overload<Types...>;

/// A pointer to a value in a Config; the alternative is the key's type.
using ConfigTarget =
    std::variant<bool*, int64_t*, double*, std::string*, Choice, std::array<double, 2>*, std::vector<double>*,
                 std::vector<int64_t>*, std::vector<std::string>*, std::optional<bool>*, std::optional<int64_t>*,
                 std::optional<double>*, std::vector<AugmentStep>*, std::vector<optim::ParameterGroup>*,
                 std::optional<optim::Optimizer>*, optim::LrSchedule*, Portion*, Compat*, ClassWeights*, StepCount*,
                 std::optional<StepCount>*, std::vector<StepCount>*>;

struct ConfigField {
  std::string key;  // dotted path
  ConfigTarget target;
  std::string doc;
  ConfigRule rule = {};
};

/// A key of a part of the program as the field `block` + its name.
ConfigField as_field(const ConfigKey& key, const std::string& block);

/// The field's current value as YAML in flow style.
std::string field_text(const ConfigField& field);

/// Reads `node` into the field's target. Throws Error(usage) with the node's mark, the key and the remedy.
void read_field(const ConfigField& field, const document::Node& node);

/// The words that its value may be, where they are few; empty: it is another text, a number or a list.
std::vector<std::string> words_for(const ConfigField& field);

/// May its value be any text, such as a file's name?
bool takes_text(const ConfigField& field);

/// "a, b or c".
std::string join_choices(const std::vector<std::string>& words);

}  // namespace ct
