#include "model/resnet9.h"

#include <string>

#include "model/shrink.h"

namespace ct {
namespace {
ValueId conv(Graph& g, ValueId x, const std::string& name, int64_t width) {
  return g.conv2d(x, name + ".conv", static_cast<int>(width), 3,
                  {.pad = 1, .bias = false, .start = ConvOptions::kaiming_fan_out});
}

/// relu(bn(conv(x)) + residual)
ValueId conv_bn_relu(Graph& g, ValueId x, const std::string& name, int64_t width, ValueId residual = kNone) {
  return g.batchnorm(conv(g, x, name, width), name + ".bn", Activation::relu, residual);
}

/// relu(bn(pool(conv(x)))): Page's pool last; here the normalisation has a quarter of the elements.
ValueId conv_pool_bn_relu(Graph& g, ValueId x, const std::string& name, int64_t width) {
  return g.batchnorm(shrink(g, conv(g, x, name, width), 2), name + ".bn", Activation::relu);
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
  h = conv_pool_bn_relu(g, h, "layer1", 2 * width);
  h = residual(g, h, "layer1.residual", 2 * width);
  g.begin_unit("layer2");
  h = conv_pool_bn_relu(g, h, "layer2", 4 * width);
  g.begin_unit("layer3");
  h = conv_pool_bn_relu(g, h, "layer3", 8 * width);
  h = residual(g, h, "layer3.residual", 8 * width);
  g.begin_unit("fc");
  return g.linear(g.average_pool(shrink(g, h, 4)), "fc", classes);
}

}  // namespace ct
