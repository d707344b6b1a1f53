#include "model/resnet9.h"

#include <algorithm>

namespace ct {
namespace {

ValueId conv(Graph& g, ValueId x, const std::string& name, int64_t width) {
  return g.conv2d(x, name, static_cast<int>(width), 3,
                  {.pad = 1, .bias = false, .start = ConvOptions::kaiming_fan_out});
}

ValueId conv_bn_relu(Graph& g, ValueId x, const std::string& name, int64_t width, ValueId residual = kNone) {
  return g.batchnorm(conv(g, x, name + ".conv", width), name + ".bn", Activation::relu, residual);
}

/// Windows of that size side by side, or smaller ones of images that have no such window.
ValueId pool(Graph& g, ValueId x, int kernel) {
  const auto& shape = g.shape(x);  // [N][H][W][C]
  return g.max_pool(x, static_cast<int>(std::min({static_cast<int64_t>(kernel), shape[1], shape[2]})));
}

/// Pools before it normalises, where Page's network pools last: a quarter of the elements to normalise.
ValueId halve(Graph& g, ValueId x, const std::string& name, int64_t width) {
  return g.batchnorm(pool(g, conv(g, x, name + ".conv", width), 2), name + ".bn", Activation::relu);
}

/// ReLU comes after the sum, as in He et al.'s blocks.
ValueId residual(Graph& g, ValueId x, const std::string& name, int64_t width) {
  return conv_bn_relu(g, conv_bn_relu(g, x, name + ".0", width), name + ".1", width, x);
}

}  // namespace

std::vector<ConfigKey> Resnet9Keys::keys() {
  return {{"width", &width, "channels of the first layer", {.min = 1, .max = 1024}}};
}

ValueId resnet9(Graph& g, ValueId images, int classes, const Resnet9Keys& keys) {
  const int64_t width = keys.width;
  g.begin_unit("prep");
  ValueId h = conv_bn_relu(g, images, "prep", width);
  g.begin_unit("layer1");
  h = halve(g, h, "layer1", 2 * width);
  h = residual(g, h, "layer1.residual", 2 * width);
  g.begin_unit("layer2");
  h = halve(g, h, "layer2", 4 * width);
  g.begin_unit("layer3");
  h = halve(g, h, "layer3", 8 * width);
  h = residual(g, h, "layer3.residual", 8 * width);
  g.begin_unit("fc");
  return g.linear(g.average_pool(pool(g, h, 4)), "fc", classes);
}

}  // namespace ct
