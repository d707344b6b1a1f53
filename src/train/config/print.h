// The effective configuration as text, and the table of keys as a JSON Schema.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "train/config/config.h"

namespace ct {

struct PrintOptions {
  bool given_only = false;  // only given keys, no defaults
  bool origins = false;     // each value's origin as a comment, as `config show` prints them
  std::optional<int64_t> ranks =
      {};  // if set: absent batch keys are comments with their values for this number of ranks
};

/// As YAML that loads to the same Config. Throws Error(usage) if `ranks` is set and the batch does not fit it.
std::string to_yaml(const Config& config, const PrintOptions& options = {});

/// dump_state: a title, then every key, sorted by name, " KEY ......... VALUE", as DeepSpeed's engine prints its own.
/// Absent batch keys have their values for `ranks` ranks.
std::vector<std::string> state_dump(const Config& config, int ranks);

/// Draft 2020-12, with which editors complete and check configurations. It contains every key, its values, and the
/// parameters of each type. It does not contain rules between keys, which `config check` checks, nor the keys of files
/// with an `imagenet` block.
nlohmann::ordered_json json_schema();

}  // namespace ct
