#include "model/vit_tiny.h"

#include <algorithm>
#include <iterator>

#include "model/residual_stream.h"
#include "model/transformer_keys.h"

namespace ct {
namespace {

/// Locality self-attention, but for its last product.
ValueId attention(Graph& g, ValueId x, const std::string& name, const VitTinyKeys& k) {
  const ValueId qkv = g.linear(x, name + ".to_qkv", 3 * k.heads * k.dim_head, {.bias = false});
  return g.attention(qkv, static_cast<int>(k.heads),
                     {.temperature_name = name + ".temperature", .mask_diagonal = true});
}

ValueId feed_forward(Graph& g, ValueId x, const std::string& name, const VitTinyKeys& k) {
  switch (k.feed_forward.ffn) {
    case FeedForward::mlp:
      break;
    case FeedForward::fff:
      return fast_feed_forward(g, x, name, k.dim, k.feed_forward);
  }
  x = g.dropout(g.linear(x, name + ".net.0", k.mlp_dim, {.activation = Activation::gelu}), k.dropout);
  return g.dropout(g.linear(x, name + ".net.3", k.dim), k.dropout);
}

}  // namespace

std::vector<ConfigKey> VitTinyKeys::keys() {
  std::vector<ConfigKey> all = {patch_key(patch),
                                dim_key(dim),
                                depth_key(depth),
                                heads_key(heads),
                                {"dim_head", &dim_head, "width of a head", {.min = 1, .max = 512}},
                                mlp_dim_key(mlp_dim),
                                dropout_key(dropout),
                                emb_dropout_key(emb_dropout)};
  std::ranges::move(feed_forward.keys(), std::back_inserter(all));
  return all;
}

std::string name_in_vit_tiny(std::string_view name) {
  static constexpr std::pair<std::string_view, std::string_view> kSpellings[] = {
      {".net.0.", ".norm."},       {".net.1.", ".fn.net.0."},           {".net.4.", ".fn.net.3."},
      {".to_qkv.", ".fn.to_qkv."}, {".temperature", ".fn.temperature"}, {".to_out.", ".fn.to_out."}};
  for (const auto& [theirs, own] : kSpellings)
    if (const size_t at = name.find(theirs); at != std::string_view::npos)
      return str(name.substr(0, at), own, name.substr(at + theirs.size()));
  return std::string(name);
}

ValueId vit_tiny(Graph& g, ValueId images, int classes, const VitTinyKeys& k) {
  const std::string embedding = "to_patch_embedding.to_patch_tokens";
  g.begin_unit("to_patch_embedding");
  ValueId h = g.layer_norm(g.patches(images, k.patch, /*shift=*/1), embedding + ".1");
  h = g.linear(h, embedding + ".2", k.dim);
  h = g.tokens(h, {.class_token = "cls_token", .positions = "pos_embedding"});
  ResidualStream x(g, g.dropout(h, k.emb_dropout));
  for (int64_t i = 0; i < k.depth; ++i) {
    const std::string layer = "transformer.layers." + std::to_string(i);
    g.begin_unit(layer);
    int parts = 0;
    const auto next_part = [&] { return layer + "." + std::to_string(parts++); };
    const auto add_feed_forward = [&] {
      const std::string part = next_part();
      x.add(feed_forward(g, x.norm(part + ".norm"), part + ".fn", k));
    };
    if (k.feed_forward.ffn_pairs) add_feed_forward();
    const std::string part = next_part();
    h = attention(g, x.norm(part + ".norm"), part + ".fn", k);
    if (i + 1 == k.depth) {  // the class token alone is looked at from here on
      h = g.take_token(h);
      x.take_token();
    }
    x.add(g.dropout(g.linear(h, part + ".fn.to_out.0", k.dim), k.dropout));
    add_feed_forward();
  }
  g.begin_unit("mlp_head");
  return g.linear(x.norm("mlp_head.0"), "mlp_head.1", classes);
}

}  // namespace ct
