#include "model/resnet9.h"

#include "model/conv_bn_relu.h"

namespace ct {
namespace {
/// ReLU comes after the sum, as in He et al.'s blocks. Page's pool last; conv_pool_bn_relu() has less to normalise.
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
