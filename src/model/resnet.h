// Residual networks (He et al., 2015) with torchvision's names.
#pragma once

#include <vector>

#include "base/config_key.h"
#include "graph/graph.h"

namespace ct {

/// The first layers. cifar: a 3x3 convolution of stride 1; imagenet: a 7x7 one of stride 2 and a 3x3 pooling of stride
/// 2, after which images have a quarter of their height and width; automatic: depends on the images' size.
enum class Stem : uint8_t { automatic, cifar, imagenet };
constexpr auto words_of(Stem) { return std::to_array<std::string_view>({"auto", "cifar", "imagenet"}); }

/// The keys of a ResNet.
struct ResnetKeys {
  Stem stem = Stem::automatic;
  int64_t width = 64;  // channels of the first layer; they double from layer to layer
  bool zero_init_residual =
      false;  // the weight of each block's last batch norm is initially 0: blocks begin as identities

  std::vector<ConfigKey> keys();
  /// Replaces `automatic` by the stem for images of that size.
  void settle(int64_t height, int64_t width);
};

/// The number of blocks in each layer. A basic block has two 3x3 convolutions, a bottleneck a 1x1, a 3x3 and a 1x1
/// convolution of four times the width.
struct ResnetBlocks {
  std::vector<int> counts;
  enum Kind : uint8_t { basic, bottleneck } kind = basic;
};
ValueId resnet(Graph& g, ValueId images, int classes, const ResnetBlocks& blocks, const ResnetKeys& keys);

/// With 1000 classes and the large stem they have torchvision's 11,689,512, 21,797,672, 25,557,032, 44,549,160 and
/// 60,192,808 parameters, with 10 classes and the small stem 11,173,962, 21,282,122, 23,520,842, 42,512,970 and
/// 58,156,618.
ValueId resnet18(Graph& g, ValueId images, int classes, const ResnetKeys& keys);
ValueId resnet34(Graph& g, ValueId images, int classes, const ResnetKeys& keys);
ValueId resnet50(Graph& g, ValueId images, int classes, const ResnetKeys& keys);
ValueId resnet101(Graph& g, ValueId images, int classes, const ResnetKeys& keys);
ValueId resnet152(Graph& g, ValueId images, int classes, const ResnetKeys& keys);

}  // namespace ct
