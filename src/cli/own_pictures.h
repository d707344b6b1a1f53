// What finetune.yaml leaves to the pictures and to the pretrained weights.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "train/config/load.h"

namespace ct {

inline constexpr const char* kOwnPicturesConfig = "finetune.yaml";

/// Does `path` hold folders of pictures or packed pictures, and no set of another kind?
bool holds_own_pictures(const std::filesystem::path& path);

/// The network of the weights (`pretrained`, empty: none) if this program wrote them or they are published; the size of
/// the samples by both; batch, warm-up and intervals by the number of training pictures that these sources lead to.
std::vector<ConfigOverride> fitted_to_pictures(ConfigSources sources, const std::string& pretrained);

}  // namespace ct
