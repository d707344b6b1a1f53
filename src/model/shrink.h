// Max pooling of the small convolutional networks, for images of any size.
#pragma once

#include <algorithm>

#include "graph/graph.h"

namespace ct {

/// Max pooling with non-overlapping windows of that size, or of smaller ones if the images are smaller.
inline ValueId shrink(Graph& g, ValueId x, int kernel) {
  const auto& shape = g.shape(x);  // [N][H][W][C]
  return g.max_pool(x, static_cast<int>(std::min({static_cast<int64_t>(kernel), shape[1], shape[2]})));
}

}  // namespace ct
