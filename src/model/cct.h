// The compact convolutional transformer (Hassani et al., 2021), by default CCT-7/3x1, with vit-pytorch's names:
// convolutions compute the tokens, and a learnt mean of all tokens replaces the class token.
#pragma once

#include <optional>
#include <vector>

#include "base/config_key.h"
#include "graph/graph.h"

namespace ct {

/// Its keys; the defaults are 7 layers, 3x3 kernels, 1 convolution.
struct CctKeys {
  int64_t dim = 256, depth = 7, heads = 4, mlp_dim = 512, kernel = 3, convolutions = 1;
  double dropout = 0;

  std::vector<ConfigKey> keys();
  std::optional<ConfigFault> fault() const;
};

/// 3,760,139 parameters with 32x32 images and 10 classes.
ValueId cct(Graph& g, ValueId images, int classes, const CctKeys& keys);

}  // namespace ct
