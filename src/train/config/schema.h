// The one table of keys: it drives parsing, error messages, the printed configuration and what a resume may change.
#pragma once

#include <limits>
#include <string>
#include <variant>
#include <vector>

#include "train/config/config.h"
#include "train/config/document.h"

namespace ct {

/// Where a value lives in a Config; the alternative is the key's type.
using ConfigTarget = std::variant<bool*, int64_t*, double*, std::string*, std::optional<int64_t>*, std::optional<bool>*,
                                  std::array<double, 2>*, std::array<double, 3>*, std::vector<Config::AugmentStep>*>;

struct ConfigRule {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool above_min = false, below_max = false;  // the limit itself is out
  std::vector<std::string> values = {};       // of text: the spellings allowed; empty: any text
  bool any_case = false;
  bool may_be_empty = false;            // of text
  std::string numbered = {};            // a word of `values` that may be followed by :N
  std::vector<std::string> later = {};  // words of the vocabulary that this version refuses by name
  std::string only = {};                // the one value this version supports, as printed; empty: all
  bool resume_may_change = false;
};

struct ConfigField {
  std::string key;  // dotted path
  ConfigTarget target;
  std::string doc;
  ConfigRule rule = {};
};

/// Every key of a configuration in the order of printing, bound to the members of `config`. Parameters of the optimizer
/// and scheduler are listed for all types; see parameters_of.
std::vector<ConfigField> config_fields(Config& config);

/// Those of config_fields that count: parameters of other optimizers, of other schedulers and of fp16 while it is
/// off, and absent batch and ZeRO keys left out.
std::vector<ConfigField> effective_fields(Config& config);

/// Names of the params that an optimizer or scheduler type takes.
std::vector<std::string> parameters_of(const std::string& block, const std::string& type);

/// The field's present value as YAML in flow style.
std::string field_text(const ConfigField& field);

/// Reads `node` into the field's target. Throws Error(usage) with the node's mark, the key and the remedy.
void read_field(const ConfigField& field, const document::Node& node);

/// Keys that are known but are no setting here: DeepSpeed's that this program does not implement, and later versions'.
/// "block.*" stands for every key of a block that is not listed itself.
struct ForeignKey {
  std::string key;
  std::string harmless;  // the value (as printed) that changes nothing; "*": any; empty: none, so it is always refused
};
const std::vector<ForeignKey>& foreign_keys();

/// The table's entry for a key, or nullptr.
const ForeignKey* find_foreign(const std::string& key);

/// True when `key` is a block: some known key begins with `key.`.
bool is_config_block(const std::string& key, const std::vector<ConfigField>& fields);

/// "; did you mean 'train.epochs'?" for the known key nearest to an unknown one, or nothing.
std::string suggest_key(const std::string& key, const std::vector<ConfigField>& fields);

/// "a, b or c".
std::string join_choices(const std::vector<std::string>& words);

}  // namespace ct
