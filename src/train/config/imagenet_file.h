// Configurations with an `imagenet` block: those of a tutorial in which DeepSpeed trains ResNet-50 on ImageNet. They
// have words of their own, and leave to the script what network and which augmentation it is.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "train/config/document.h"

namespace ct {

/// The same in this program's words: first what the script decides, then what the file says. Values keep their places.
/// A configuration without such a block is returned as it is.
std::vector<document::Node> in_own_words(const document::Node& root);

/// What such a file says of evaluation.
struct ImagenetEvaluation {
  std::string checkpoint;  // a weights file, or the folder of a checkpoint; empty: not given
  std::optional<int64_t> batch_size, max_images;
  std::string on_corrupt;  // data.on_corrupt; empty: not given
};
ImagenetEvaluation evaluation_of(const document::Node& root);

}  // namespace ct
