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

/// The value of a key as it would be written, or `absent` where the key is none that counts.
std::string text_of_key(const Config& config, const std::string& key, const std::string& absent = "");

/// True when `key` is a block: some known key begins with `key.`.
bool is_config_block(const std::string& key, const std::vector<ConfigField>& fields);

}  // namespace ct
