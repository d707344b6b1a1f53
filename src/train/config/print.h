// The effective configuration as text, and the table of keys as a JSON Schema.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "train/config/config.h"

namespace ct {

struct PrintOptions {
  bool given_only = false;            // keys that were written somewhere, no defaults
  bool origins = false;               // each value's origin as a comment, as `config show` prints them
  std::optional<int64_t> ranks = {};  // given: absent batch keys stand as comments with what follows from so many ranks
};

/// As YAML that loads back to the same Config. Throws Error(usage) when `ranks` is given and the batch does not fit it.
std::string to_yaml(const Config& config, const PrintOptions& options = {});

/// dump_state: a title, then every key in the order of its name, "  KEY ......... VALUE" as DeepSpeed's engine prints
/// its own. Of batch keys that are absent it has what follows on so many ranks.
std::vector<std::string> state_dump(const Config& config, int ranks);

/// Draft 2020-12, by which editors complete and check configurations. It knows every key, its values, and which
/// parameters a type takes; rules between keys are left to `config check`, as are the words of files with an `imagenet`
/// block.
nlohmann::ordered_json json_schema();

}  // namespace ct
