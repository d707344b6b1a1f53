// The effective configuration as YAML that loads back to the same Config.
#pragma once

#include <optional>
#include <string>

#include "train/config/config.h"

namespace ct {

struct PrintOptions {
  bool given_only = false;            // keys that were written somewhere, no defaults
  bool origins = false;               // each value's origin as a comment, as `config show` prints them
  std::optional<int64_t> ranks = {};  // given: absent batch keys stand as comments with what follows from so many ranks
};

/// Throws Error(usage) when `ranks` is given and the batch does not fit it.
std::string to_yaml(const Config& config, const PrintOptions& options = {});

}  // namespace ct
