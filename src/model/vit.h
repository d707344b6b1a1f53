// The vision transformer (Dosovitskiy et al., 2021) with timm's names.
#pragma once

#include <optional>
#include <vector>

#include "base/config_key.h"
#include "graph/graph.h"
#include "model/feed_forward.h"

namespace ct {

/// The keys of vit.
struct VitKeys {
  int64_t patch = 4, dim = 192, depth = 12, heads = 3, mlp_dim = 768;
  double dropout = 0, emb_dropout = 0;
  FeedForwardKeys feed_forward;

  std::vector<ConfigKey> keys();
  std::optional<ConfigFault> fault() const;
};

/// 5,362,762 parameters with 32x32 images and 10 classes: timm's vit_tiny_patch16_224 with its patch and image size set
/// to 4 and 32.
ValueId vit(Graph& g, ValueId images, int classes, const VitKeys& keys);

}  // namespace ct
