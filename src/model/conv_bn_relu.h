// Layers of the small convolutional networks: 3x3 convolutions of stride 1 without biases, each followed by a batch
// norm.
#pragma once

#include <string>

#include "graph/graph.h"

namespace ct {

/// How the convolution's weights begin, beside Kaiming's draws (Init in graph/graph.h).
struct ConvBegins {
  bool dirac = false, whitens = false;
};
/// relu(bn(conv(x)) + residual), of parameters NAME.conv.weight, NAME.bn.*.
ValueId conv_bn_relu(Graph& g, ValueId x, const std::string& name, int64_t width, ValueId residual = kNone,
                     ConvBegins begins = {});
/// relu(bn(pool(conv(x)))), with a maximum of 2x2: pooled before it is normalised, a quarter of the elements.
ValueId conv_pool_bn_relu(Graph& g, ValueId x, const std::string& name, int64_t width, ConvBegins begins = {});
/// The maximum of windows of that size side by side, or of smaller ones where images have no such window.
ValueId shrink(Graph& g, ValueId x, int kernel);

}  // namespace ct
