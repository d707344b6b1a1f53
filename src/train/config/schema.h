// The one table of keys: it drives parsing, error messages, the printed configuration and what a resume may change.
#pragma once

#include <string>
#include <vector>

#include "train/config/field.h"

namespace ct {

/// Every key of a configuration in the order of printing, bound to the members of `config`; of the keys of models and
/// the params of optimizers and schedulers those of its own model and types.
std::vector<ConfigField> config_fields(Config& config);

/// A configuration for every model and every optimizer and scheduler type: together they have every key there is.
std::vector<Config> configs_of_all_types();

/// The config_fields that count: parameters of fp16 and of the average while they are off, and absent batch and ZeRO
/// keys left out.
std::vector<ConfigField> effective_fields(Config& config);

/// Keys that are known but are no setting here: DeepSpeed's that this program does not implement, and words of other
/// programs. "block.*" stands for every key of a block that is not listed itself.
struct ForeignKey {
  std::string key;
  std::string harmless;      // the values (as printed, any case, with | between them) that are ignored; "*": any
  std::string why;           // they are ignored
  std::string refusal = {};  // why any other is refused; empty: for the same reason
};
const std::vector<ForeignKey>& foreign_keys();

/// The table's entry for a key, or nullptr.
const ForeignKey* find_foreign(const std::string& key);

/// May this value be ignored?
bool is_harmless(const ForeignKey& foreign, const document::Node& value);
/// What is said of a value that may not: "KEY VALUE is not supported by this version; use ...".
std::string refusal_of(const ForeignKey& foreign, const std::string& key, const document::Node& value);

/// True when `key` is a block: some known key begins with `key.`.
bool is_config_block(const std::string& key, const std::vector<ConfigField>& fields);

}  // namespace ct
