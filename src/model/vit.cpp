#include "model/vit.h"

#include <algorithm>
#include <iterator>

#include "model/residual_stream.h"
#include "model/transformer_keys.h"

namespace ct {
namespace {

/// timm's start of a linear layer; its truncation, at a hundred deviations, changes nothing.
LinearOptions timm_linear(Activation activation = Activation::none) {
  return {.activation = activation, .weight = Init{Init::normal, 0.02}, .bias_start = Init{Init::constant, 0}};
}

ValueId mlp(Graph& g, ValueId x, const std::string& name, const VitKeys& k) {
  switch (k.feed_forward.ffn) {
    case FeedForward::mlp:
      break;
    case FeedForward::fff:
      return fast_feed_forward(g, x, name, k.dim, k.feed_forward);
  }
  x = g.dropout(g.linear(x, name + ".fc1", k.mlp_dim, timm_linear(Activation::gelu)), k.dropout);
  return g.dropout(g.linear(x, name + ".fc2", k.dim, timm_linear()), k.dropout);
}

}  // namespace

std::vector<ConfigKey> VitKeys::keys() {
  std::vector<ConfigKey> all = {patch_key(patch),
                                dim_key(dim),
                                depth_key(depth),
                                heads_key(heads),
                                mlp_dim_key(mlp_dim),
                                dropout_key(dropout),
                                emb_dropout_key(emb_dropout)};
  std::ranges::move(feed_forward.keys(), std::back_inserter(all));
  return all;
}
std::optional<ConfigFault> VitKeys::fault() const {
  const auto of_heads = heads_fault(dim, heads);
  return of_heads ? of_heads : feed_forward.fault();
}

ValueId vit(Graph& g, ValueId images, int classes, const VitKeys& k) {
  constexpr double kEps = 1e-6;
  g.begin_unit("patch_embed");
  const int patch = static_cast<int>(k.patch);
  ValueId h = g.conv2d(images, "patch_embed.proj", static_cast<int>(k.dim), patch, {.stride = patch});
  h = g.tokens(h, {.class_token = "cls_token",
                   .class_token_start = {Init::normal, 1e-6},
                   .positions = "pos_embed",
                   .positions_start = {Init::normal, 0.02}});
  ResidualStream x(g, g.dropout(h, k.emb_dropout), kEps);
  for (int64_t i = 0; i < k.depth; ++i) {
    const std::string block = "blocks." + std::to_string(i);
    g.begin_unit(block);
    if (k.feed_forward.ffn_pairs) x.add(mlp(g, x.norm(block + ".norm0"), block + ".mlp0", k));
    h = g.linear(x.norm(block + ".norm1"), block + ".attn.qkv", 3 * k.dim, timm_linear());
    h = g.attention(h, static_cast<int>(k.heads));
    if (i + 1 == k.depth) {  // the class token alone is looked at from here on
      h = g.take_token(h);
      x.take_token();
    }
    x.add(g.dropout(g.linear(h, block + ".attn.proj", k.dim, timm_linear()), k.dropout));
    x.add(mlp(g, x.norm(block + ".norm2"), block + ".mlp", k));
  }
  g.begin_unit("head");
  return g.linear(x.norm("norm"), "head", classes, timm_linear());
}

}  // namespace ct
