// What the tutorial scripts' flags mean in keys.
#pragma once

#include <string>
#include <vector>

#include "train/config/load.h"

namespace ct {

/// What the files give: `micro`, the micro-batch size; `has_average`, a decay of train.ema. Throws Error(usage) for
/// words that no script knew.
std::vector<ConfigOverride> tutorial_flag_overrides(const TutorialFlags& flags, std::optional<int64_t> micro,
                                                    bool has_average, std::vector<std::string>* warnings);

}  // namespace ct
