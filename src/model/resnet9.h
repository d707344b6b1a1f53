// A residual network of nine layers for small images (Page, "How to train your ResNet", 2018): all convolutions are 3x3
// of stride 1, and poolings halve the images.
#pragma once

#include <vector>

#include "base/config_key.h"
#include "graph/graph.h"

namespace ct {

struct Resnet9Keys {
  int64_t width = 64;  // channels of the first convolution; the others have 2, 4 and 8 times as many

  std::vector<ConfigKey> keys();
};

/// 6,573,130 parameters for 10 classes; with a width of 32, 1,646,122.
ValueId resnet9(Graph& g, ValueId images, int classes, const Resnet9Keys& keys);

}  // namespace ct
