#include "model/airbench.h"

#include <string>
#include <utility>

#include "model/conv_bn_relu.h"

namespace ct {

std::vector<ConfigKey> AirbenchKeys::keys() {
  return {{"width", &width, "channels of the first layer", {.min = 1, .max = 1024}},
          {"whiten", &whiten, "initialise the first convolution with whitening filters of the training images"},
          {"pass_on", &pass_on, "initialise all other convolutions to the identity (Dirac)"}};
}

ValueId airbench(Graph& g, ValueId images, int classes, const AirbenchKeys& keys) {
  g.begin_unit("prep");
  ValueId h = conv_bn_relu(g, images, "prep", keys.width, kNone, {.whitens = keys.whiten});
  const ConvBegins begins{.dirac = keys.pass_on};
  for (const auto& [block, times] : {std::pair{"block1", 2}, {"block2", 6}, {"block3", 8}}) {
    const std::string name = block;
    g.begin_unit(name);
    h = conv_pool_bn_relu(g, h, name + ".0", times * keys.width, begins);
    h = conv_bn_relu(g, h, name + ".1", times * keys.width, kNone, begins);
  }
  g.begin_unit("fc");
  return g.linear(g.average_pool(shrink(g, h, 4)), "fc", classes);
}

}  // namespace ct
