#include "model/resnet.h"

#include <algorithm>

namespace ct {
namespace {

ValueId conv(Graph& g, ValueId x, const std::string& name, int64_t width, int kernel, int stride) {
  return g.conv2d(x, name, static_cast<int>(width), kernel,
                  {.stride = stride, .pad = kernel / 2, .bias = false, .start = ConvOptions::kaiming_fan_out});
}

struct Block {
  std::string name;
  int64_t width;
  int stride;
  double last_scale;  // what the last batch norm's weight begins at
};

/// What a block adds to its result: its input, brought to that shape where it has another.
ValueId shortcut(Graph& g, ValueId x, const Block& b, int64_t width) {
  if (b.stride == 1 && g.shape(x)[3] == width) return x;
  return g.batchnorm(conv(g, x, b.name + ".downsample.0", width, 1, b.stride), b.name + ".downsample.1");
}

ValueId basic_block(Graph& g, ValueId x, const Block& b) {
  g.begin_unit(b.name);
  ValueId h = conv(g, x, b.name + ".conv1", b.width, 3, b.stride);
  h = g.batchnorm(h, b.name + ".bn1", Activation::relu);
  h = conv(g, h, b.name + ".conv2", b.width, 3, 1);
  const ValueId skip = shortcut(g, x, b, b.width);
  return g.batchnorm(h, b.name + ".bn2", Activation::relu, skip, b.last_scale);
}

/// The stride is the 3x3 convolution's: torchvision's version 1.5, not He et al.'s 1x1.
ValueId bottleneck(Graph& g, ValueId x, const Block& b) {
  constexpr int64_t kExpansion = 4;
  g.begin_unit(b.name);
  ValueId h = conv(g, x, b.name + ".conv1", b.width, 1, 1);
  h = g.batchnorm(h, b.name + ".bn1", Activation::relu);
  h = conv(g, h, b.name + ".conv2", b.width, 3, b.stride);
  h = g.batchnorm(h, b.name + ".bn2", Activation::relu);
  h = conv(g, h, b.name + ".conv3", kExpansion * b.width, 1, 1);
  const ValueId skip = shortcut(g, x, b, kExpansion * b.width);
  return g.batchnorm(h, b.name + ".bn3", Activation::relu, skip, b.last_scale);
}

}  // namespace

std::vector<ConfigKey> ResnetKeys::keys() {
  return {{"stem", &stem, "cifar (3x3) | imagenet (7x7 of stride 2, pooling) | auto: cifar below 64 pixels"},
          {"width", &width, "channels of the first layer", {.min = 1, .max = 1024}},
          {"zero_init_residual", &zero_init_residual, "the last batch norm of a block begins with a weight of 0"}};
}

void ResnetKeys::settle(int64_t height, int64_t width) {
  constexpr int64_t kLarge = 64;  // pixels: smaller images would have none to spare for the large stem
  if (stem == Stem::automatic) stem = std::min(height, width) < kLarge ? Stem::cifar : Stem::imagenet;
}

ValueId resnet(Graph& g, ValueId images, int classes, const ResnetBlocks& blocks, const ResnetKeys& given) {
  ResnetKeys keys = given;
  keys.settle(g.shape(images)[2], g.shape(images)[3]);
  const bool large = keys.stem == Stem::imagenet;
  const auto block = blocks.kind == ResnetBlocks::bottleneck ? bottleneck : basic_block;
  g.begin_unit("stem");
  ValueId h = large ? conv(g, images, "conv1", keys.width, 7, 2) : conv(g, images, "conv1", keys.width, 3, 1);
  h = g.batchnorm(h, "bn1", Activation::relu);
  if (large) h = g.max_pool(h, 3, {.stride = 2, .pad = 1});
  for (size_t layer = 0; layer < blocks.counts.size(); ++layer)
    for (int i = 0; i < blocks.counts[layer]; ++i)
      h = block(g, h,
                {.name = "layer" + std::to_string(layer + 1) + "." + std::to_string(i),
                 .width = keys.width << layer,
                 .stride = layer > 0 && i == 0 ? 2 : 1,
                 .last_scale = keys.zero_init_residual ? 0.0 : 1.0});
  g.begin_unit("fc");
  return g.linear(g.average_pool(h), "fc", classes);
}

ValueId resnet18(Graph& g, ValueId images, int classes, const ResnetKeys& keys) {
  return resnet(g, images, classes, {{2, 2, 2, 2}}, keys);
}
ValueId resnet34(Graph& g, ValueId images, int classes, const ResnetKeys& keys) {
  return resnet(g, images, classes, {{3, 4, 6, 3}}, keys);
}
ValueId resnet50(Graph& g, ValueId images, int classes, const ResnetKeys& keys) {
  return resnet(g, images, classes, {{3, 4, 6, 3}, ResnetBlocks::bottleneck}, keys);
}
ValueId resnet101(Graph& g, ValueId images, int classes, const ResnetKeys& keys) {
  return resnet(g, images, classes, {{3, 4, 23, 3}, ResnetBlocks::bottleneck}, keys);
}
ValueId resnet152(Graph& g, ValueId images, int classes, const ResnetKeys& keys) {
  return resnet(g, images, classes, {{3, 8, 36, 3}, ResnetBlocks::bottleneck}, keys);
}

}  // namespace ct
