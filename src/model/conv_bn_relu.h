// Layers of the small convolutional networks: 3x3 convolutions of stride 1 without biases, each followed by a batch
// norm.
#pragma once

#include <string>

#include "graph/graph.h"

namespace ct {

/// Initialisations of the convolution's weights in addition to Kaiming's (Init in graph/graph.h).
struct ConvBegins {
  bool dirac = false, whitens = false;
};
/// relu(bn(conv(x)) + residual), with the parameters NAME.conv.weight and NAME.bn.*.
ValueId conv_bn_relu(Graph& g, ValueId x, const std::string& name, int64_t width, ValueId residual = kNone,
                     ConvBegins begins = {});
/// relu(bn(pool(conv(x)))), with 2x2 max pooling before the normalisation, which then has a quarter of the elements.
ValueId conv_pool_bn_relu(Graph& g, ValueId x, const std::string& name, int64_t width, ConvBegins begins = {});
/// Max pooling with non-overlapping windows of that size, or of smaller ones if the images are smaller.
ValueId shrink(Graph& g, ValueId x, int kernel);

}  // namespace ct
