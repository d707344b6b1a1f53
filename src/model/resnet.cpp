// Residual networks (He et al., 2015) as torchvision names their parts, with the stem that suits small images: a 3x3
// convolution of stride 1 and no pooling.
#include "model/models.h"

namespace ct {
namespace {

ValueId conv(Graph& g, ValueId x, const std::string& name, int width, int kernel, int stride) {
  return g.conv2d(x, name, width, kernel,
                  {.stride = stride, .pad = kernel / 2, .bias = false, .start = ConvOptions::kaiming_fan_out});
}

/// What a block adds to its result: its input, brought to that shape where it has another.
ValueId shortcut(Graph& g, ValueId x, const std::string& name, int width, int stride) {
  if (stride == 1 && g.shape(x)[3] == width) return x;
  return g.batchnorm(conv(g, x, name + ".downsample.0", width, 1, stride), name + ".downsample.1");
}

ValueId basic_block(Graph& g, ValueId x, const std::string& name, int width, int stride) {
  g.begin_unit(name);
  ValueId h = conv(g, x, name + ".conv1", width, 3, stride);
  h = g.batchnorm(h, name + ".bn1", Activation::relu);
  h = conv(g, h, name + ".conv2", width, 3, 1);
  const ValueId skip = shortcut(g, x, name, width, stride);
  return g.batchnorm(h, name + ".bn2", Activation::relu, skip);
}

/// The stride is the 3x3 convolution's: torchvision's version 1.5, not He et al.'s 1x1.
ValueId bottleneck(Graph& g, ValueId x, const std::string& name, int width, int stride) {
  constexpr int kExpansion = 4;
  g.begin_unit(name);
  ValueId h = conv(g, x, name + ".conv1", width, 1, 1);
  h = g.batchnorm(h, name + ".bn1", Activation::relu);
  h = conv(g, h, name + ".conv2", width, 3, stride);
  h = g.batchnorm(h, name + ".bn2", Activation::relu);
  h = conv(g, h, name + ".conv3", kExpansion * width, 1, 1);
  const ValueId skip = shortcut(g, x, name, kExpansion * width, stride);
  return g.batchnorm(h, name + ".bn3", Activation::relu, skip);
}

}  // namespace

ValueId resnet(Graph& g, ValueId images, int classes, const ResnetSize& size) {
  const auto block = size.block == ResnetSize::bottleneck ? bottleneck : basic_block;
  g.begin_unit("stem");
  ValueId h = conv(g, images, "conv1", size.width, 3, 1);
  h = g.batchnorm(h, "bn1", Activation::relu);
  for (size_t layer = 0; layer < size.blocks.size(); ++layer)
    for (int i = 0; i < size.blocks[layer]; ++i)
      h = block(g, h, "layer" + std::to_string(layer + 1) + "." + std::to_string(i), size.width << layer,
                layer > 0 && i == 0 ? 2 : 1);
  g.begin_unit("fc");
  return g.linear(g.average_pool(h), "fc", classes);
}

ValueId resnet18(Graph& g, ValueId images, int classes) { return resnet(g, images, classes, {64, {2, 2, 2, 2}}); }
ValueId resnet34(Graph& g, ValueId images, int classes) { return resnet(g, images, classes, {64, {3, 4, 6, 3}}); }
ValueId resnet50(Graph& g, ValueId images, int classes) {
  return resnet(g, images, classes, {64, {3, 4, 6, 3}, ResnetSize::bottleneck});
}
ValueId resnet101(Graph& g, ValueId images, int classes) {
  return resnet(g, images, classes, {64, {3, 4, 23, 3}, ResnetSize::bottleneck});
}
ValueId resnet152(Graph& g, ValueId images, int classes) {
  return resnet(g, images, classes, {64, {3, 8, 36, 3}, ResnetSize::bottleneck});
}

}  // namespace ct
