#include "model/conv_bn_relu.h"

#include <algorithm>

namespace ct {
namespace {
ValueId conv(Graph& g, ValueId x, const std::string& name, int64_t width, ConvBegins begins) {
  return g.conv2d(x, name + ".conv", static_cast<int>(width), 3,
                  {.pad = 1,
                   .bias = false,
                   .start = ConvOptions::kaiming_fan_out,
                   .dirac = begins.dirac,
                   .whitens = begins.whitens});
}
}  // namespace

ValueId conv_bn_relu(Graph& g, ValueId x, const std::string& name, int64_t width, ValueId residual, ConvBegins begins) {
  return g.batchnorm(conv(g, x, name, width, begins), name + ".bn", Activation::relu, residual);
}

ValueId conv_pool_bn_relu(Graph& g, ValueId x, const std::string& name, int64_t width, ConvBegins begins) {
  return g.batchnorm(shrink(g, conv(g, x, name, width, begins), 2), name + ".bn", Activation::relu);
}

ValueId shrink(Graph& g, ValueId x, int kernel) {
  const auto& shape = g.shape(x);  // [N][H][W][C]
  return g.max_pool(x, static_cast<int>(std::min({static_cast<int64_t>(kernel), shape[1], shape[2]})));
}

}  // namespace ct
