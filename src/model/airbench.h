// A plain network for small images that pools early, so most of its work is on few pixels with many channels (Jordan,
// "94% on CIFAR-10 in 3.29 Seconds on a Single GPU", 2024). Its first convolution, 2x2 without a pad, initially whitens
// the images' patches; train.freeze keeps it so. Three groups of two 3x3 convolutions follow, without biases and
// residuals, each with a batch norm and GELU.
#pragma once

#include <vector>

#include "base/config_key.h"
#include "graph/graph.h"

namespace ct {

struct AirbenchKeys {
  int64_t width = 64;  // channels of the first group; the second and third have four times as many

  std::vector<ConfigKey> keys();
};

/// 1,972,792 parameters for 10 classes, by the original's names.
ValueId airbench(Graph& g, ValueId images, int classes, const AirbenchKeys& keys);

}  // namespace ct
