// What the tutorial scripts' flags mean in keys.
#pragma once

#include <string>
#include <vector>

#include "train/config/load.h"

namespace ct {

/// `micro` is the micro-batch size that the files give. Throws Error(usage) for words that no script knew.
std::vector<ConfigOverride> tutorial_flag_overrides(const TutorialFlags& flags, std::optional<int64_t> micro,
                                                    std::vector<std::string>* warnings);

}  // namespace ct
