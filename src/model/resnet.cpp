// Residual networks (He et al., 2015) as torchvision names their parts, with the stem that suits small images: a 3x3
// convolution of stride 1 and no pooling.
#include "model/models.h"

namespace ct {
namespace {

ValueId conv(Graph& g, ValueId x, const std::string& name, int width, int kernel, int stride) {
  return g.conv2d(x, name, width, kernel,
                  {.stride = stride, .pad = kernel / 2, .bias = false, .start = ConvOptions::kaiming_fan_out});
}

ValueId basic_block(Graph& g, ValueId x, const std::string& name, int width, int stride) {
  g.begin_unit(name);
  ValueId h = conv(g, x, name + ".conv1", width, 3, stride);
  h = g.batchnorm(h, name + ".bn1", Activation::relu);
  h = conv(g, h, name + ".conv2", width, 3, 1);
  ValueId skip = x;
  if (stride != 1 || g.shape(x)[3] != width)
    skip = g.batchnorm(conv(g, x, name + ".downsample.0", width, 1, stride), name + ".downsample.1");
  return g.batchnorm(h, name + ".bn2", Activation::relu, skip);
}

}  // namespace

ValueId resnet(Graph& g, ValueId images, int classes, const ResnetSize& size) {
  g.begin_unit("stem");
  ValueId h = conv(g, images, "conv1", size.width, 3, 1);
  h = g.batchnorm(h, "bn1", Activation::relu);
  for (size_t layer = 0; layer < size.blocks.size(); ++layer)
    for (int block = 0; block < size.blocks[layer]; ++block)
      h = basic_block(g, h, "layer" + std::to_string(layer + 1) + "." + std::to_string(block), size.width << layer,
                      layer > 0 && block == 0 ? 2 : 1);
  g.begin_unit("fc");
  return g.linear(g.average_pool(h), "fc", classes);
}

ValueId resnet18(Graph& g, ValueId images, int classes) { return resnet(g, images, classes, {64, {2, 2, 2, 2}}); }

}  // namespace ct
