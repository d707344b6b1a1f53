// A plain network for small images that pools early, so most of its work is on few pixels with many channels (after
// Jordan, "94% on CIFAR-10 in 3.29 Seconds on a Single GPU", 2024): all convolutions are 3x3 of stride 1 without
// biases, and there are no residuals.
#pragma once

#include <vector>

#include "base/config_key.h"
#include "graph/graph.h"

namespace ct {

struct AirbenchKeys {
  int64_t width = 32;    // channels of the first convolution; the blocks have 2, 6 and 8 times as many
  bool whiten = false;   // initialise the first convolution with whitening filters of the training images
  bool pass_on = false;  // initialise all others to the identity (Dirac)

  std::vector<ConfigKey> keys();
};

/// 1,535,402 parameters for 10 classes.
ValueId airbench(Graph& g, ValueId images, int classes, const AirbenchKeys& keys);

}  // namespace ct
