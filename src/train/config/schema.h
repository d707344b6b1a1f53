// The table of keys, which defines parsing, error messages, the printed configuration and the keys that a resume may
// change.
#pragma once

#include <string>
#include <vector>

#include "train/config/field.h"

namespace ct {

/// Every key of a configuration in the order of printing, bound to the members of `config`; for models, optimizers and
/// schedulers only the keys of the configured ones.
std::vector<ConfigField> config_fields(Config& config);

/// A configuration for every model and every optimizer and scheduler type; together they have all keys.
std::vector<Config> configs_of_all_types();

/// The effective config_fields: without parameters of features that are off (fp16, the average and others), and without
/// absent batch and ZeRO keys.
std::vector<ConfigField> effective_fields(Config& config);

/// The text of a key's value, or `absent` if the key is not effective.
std::string text_of_key(const Config& config, const std::string& key, const std::string& absent = "");

/// Is `key` a block, that is, does a known key begin with `key.`?
bool is_config_block(const std::string& key, const std::vector<ConfigField>& fields);

}  // namespace ct
