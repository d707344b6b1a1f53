// A vision transformer for small data sets (Lee, Lee & Song, 2021): shifted patch tokens, and attention with a learnt
// temperature and a masked diagonal. The names are those of vit-pytorch's ViT for small data sets.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/config_key.h"
#include "graph/graph.h"
#include "model/feed_forward.h"

namespace ct {

/// The keys of vit_tiny.
struct VitTinyKeys {
  int64_t patch = 4, dim = 512, depth = 4, heads = 6, dim_head = 64, mlp_dim = 256;
  double dropout = 0.1, emb_dropout = 0.1;
  FeedForwardKeys feed_forward;

  std::vector<ConfigKey> keys();
  std::optional<ConfigFault> fault() const { return feed_forward.fault(); }
};

/// Converts a tensor's name in later versions of vit-pytorch (1.26), whose layers contain their norms, to the name
/// here.
std::string name_in_vit_tiny(std::string_view name);

/// 4,371,438 parameters with 32x32 images and 10 classes; with ffn fff, 4,365,290.
ValueId vit_tiny(Graph& g, ValueId images, int classes, const VitTinyKeys& keys);

}  // namespace ct
