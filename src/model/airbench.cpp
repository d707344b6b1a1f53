#include "model/airbench.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "model/shrink.h"

namespace ct {
namespace {

/// A filter and its negative for each element of a patch: GELU drops one half of each.
ValueId whiten(Graph& g, ValueId images) {
  const auto& shape = g.shape(images);  // [N][C][H][W]
  const int64_t side = std::min({int64_t{2}, shape[2], shape[3]});
  const ValueId sums = g.conv2d(images, "whiten", static_cast<int>(2 * shape[1] * side * side), static_cast<int>(side),
                                {.whitens = true});
  return g.activate(sums, Activation::gelu);
}

/// The pooling precedes the normalisation, which then has a quarter of the elements.
ValueId group(Graph& g, ValueId x, const std::string& name, int64_t width) {
  const auto conv = [&](ValueId in, const char* layer) {
    return g.conv2d(in, name + layer, static_cast<int>(width), 3, {.pad = 1, .bias = false, .dirac = true});
  };
  const auto norm = [&](ValueId in, const char* layer) {
    return g.activate(g.batchnorm(in, name + layer), Activation::gelu);
  };
  const ValueId h = norm(shrink(g, conv(x, ".conv1"), 2), ".norm1");
  return norm(conv(h, ".conv2"), ".norm2");
}

}  // namespace

std::vector<ConfigKey> AirbenchKeys::keys() {
  return {{"width", &width, "channels of the first group", {.min = 1, .max = 256}}};
}

ValueId airbench(Graph& g, ValueId images, int classes, const AirbenchKeys& keys) {
  g.begin_unit("whiten");
  ValueId h = whiten(g, images);
  for (const int n : {1, 2, 3}) {
    const std::string name = "layers." + std::to_string(n);
    g.begin_unit(name);
    h = group(g, h, name, n == 1 ? keys.width : 4 * keys.width);
  }
  g.begin_unit("head");
  h = g.average_pool(shrink(g, h, 3));
  // The original divides the results by the number of features; here the weights are smaller instead.
  const double spread = std::sqrt(3.0) / static_cast<double>(g.shape(h).columns());
  return g.linear(h, "head", classes, {.bias = false, .weight = Init{Init::uniform, spread}});
}

}  // namespace ct
