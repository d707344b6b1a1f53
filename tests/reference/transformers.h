// Scalar references of transformers, by name of parameter: all tokens of all layers, as the papers say.
#pragma once

#include <cmath>
#include <string>

#include "reference/named_parameters.h"
#include "selftest/reference/attention.h"
#include "selftest/reference/conv.h"
#include "selftest/reference/dense.h"
#include "selftest/reference/fff.h"
#include "selftest/reference/gelu.h"
#include "selftest/reference/layer_norm.h"
#include "selftest/reference/tokens.h"

namespace ct::reference {

struct Transformer {
  int64_t n, side, patch, dim, depth, heads, head_width, mlp_dim, classes;
  bool pairs = false;             // a feed-forward layer before attention too
  FffTrees trees = {.count = 0};  // of fast feedforward layers; none: two linear ones
  int64_t dense = 0;              // units beside the trees
};

template <class T>
std::vector<T> sum(std::vector<T> a, const std::vector<T>& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

/// The layers of one network on tokens, rows of `dim` elements or of what is said.
template <class T>
struct TransformerLayers {
  const Transformer& s;
  const NamedParameters<T>& p;
  double eps = 1e-5;

  std::vector<T> norm(const std::string& name, const std::vector<T>& x, int64_t columns) const {
    return layer_norm(LayerNorm{static_cast<int64_t>(x.size()) / columns, columns, eps}, x, p.at(name + ".weight"),
                      p.at(name + ".bias"));
  }
  std::vector<T> norm(const std::string& name, const std::vector<T>& x) const { return norm(name, x, s.dim); }
  std::vector<T> linear(const std::string& name, const std::vector<T>& x, int64_t in) const {
    const std::vector<T>& w = p.at(name + ".weight");
    const int64_t out = static_cast<int64_t>(w.size()) / in;
    const auto b = p.find(name + ".bias");
    return reference::linear(static_cast<int64_t>(x.size()) / in, in, out, x, w,
                             b == p.end() ? std::vector<T>(static_cast<size_t>(out)) : b->second);
  }
  std::vector<T> attention(const std::vector<T>& qkv, T scale, bool mask_diagonal) const {
    const int64_t tokens = static_cast<int64_t>(qkv.size()) / (3 * s.n * s.heads * s.head_width);
    return reference::attention(AttentionSizes{s.n, tokens, s.heads, s.head_width, mask_diagonal}, qkv, scale).y;
  }
  std::vector<T> mlp(const std::string& first, const std::string& second, const std::vector<T>& x) const {
    return linear(second, gelu(linear(first, x, s.dim)), s.mlp_dim);
  }
  /// A fast feedforward layer, with what lies beside it.
  std::vector<T> fast(const std::string& name, const std::vector<T>& x) const {
    const std::vector<T> y = fff(s.trees, s.dim, s.dim, x, p.at(name + ".linear_in.weight"),
                                 p.at(name + ".linear_in.bias"), p.at(name + ".linear_out.weight"));
    if (s.dense == 0) return y;
    return sum(y, linear(name + ".dense_out", gelu(linear(name + ".dense_in", x, s.dim)), s.dense));
  }
  /// Positions, and a class token if there is one, added to tokens.
  std::vector<T> embed(const std::string& class_token, const std::string& positions, const std::vector<T>& x) const {
    const std::vector<T> own = class_token.empty() ? std::vector<T>() : p.at(class_token);
    const int64_t count = static_cast<int64_t>(p.at(positions).size()) / s.dim;
    return tokens(TokenRows{s.n, count, s.dim, !class_token.empty()}, x, own, p.at(positions));
  }
  std::vector<T> class_tokens(const std::vector<T>& x) const {
    return take_token(s.n, static_cast<int64_t>(x.size()) / (s.n * s.dim), s.dim, x);
  }
  T scale() const { return 1 / std::sqrt(static_cast<double>(s.head_width)); }
};

/// Logits; images [n][3][side][side], normalised.
template <class T>
std::vector<T> vit_tiny(const Transformer& s, const NamedParameters<T>& p, const std::vector<double>& images) {
  const TransformerLayers<T> layers{s, p};
  const PatchGrid grid{s.n, 3, s.side, s.side, s.patch, /*shift=*/1};
  const std::vector<double> pixels = patches(grid, images);
  const std::string embedding = "to_patch_embedding.to_patch_tokens";
  std::vector<T> x(pixels.begin(), pixels.end());
  x = layers.linear(embedding + ".2", layers.norm(embedding + ".1", x, grid.columns()), grid.columns());
  x = layers.embed("cls_token", "pos_embedding", x);
  for (int64_t i = 0; i < s.depth; ++i) {
    const std::string layer = "transformer.layers." + std::to_string(i) + ".";
    const auto feed_forward = [&](const std::string& name) {
      const std::vector<T> h = layers.norm(name + ".norm", x);
      return s.trees.count > 0 ? layers.fast(name + ".fn", h) : layers.mlp(name + ".fn.net.0", name + ".fn.net.3", h);
    };
    if (s.pairs) x = sum(x, feed_forward(layer + "0"));
    const std::string name = layer + (s.pairs ? "1" : "0");
    const std::vector<T> qkv = layers.linear(name + ".fn.to_qkv", layers.norm(name + ".norm", x), s.dim);
    const std::vector<T> y = layers.attention(qkv, std::exp(p.at(name + ".fn.temperature")[0]), true);
    x = sum(x, layers.linear(name + ".fn.to_out.0", y, s.heads * s.head_width));
    x = sum(x, feed_forward(layer + (s.pairs ? "2" : "1")));
  }
  return layers.linear("mlp_head.1", layers.norm("mlp_head.0", layers.class_tokens(x)), s.dim);
}

template <class T>
std::vector<T> vit(const Transformer& s, const NamedParameters<T>& p, const std::vector<double>& images) {
  const TransformerLayers<T> layers{s, p, 1e-6};
  const std::vector<double> pixels = patches({s.n, 3, s.side, s.side, s.patch, /*shift=*/0}, images);
  const int64_t area = s.patch * s.patch;
  std::vector<T> x(pixels.begin(), pixels.end());  // (row, column, channel), as a filter with channels last
  x = linear(static_cast<int64_t>(x.size()) / (3 * area), 3 * area, s.dim, x,
             to_channels_last(p.at("patch_embed.proj.weight"), s.dim, 3, area), p.at("patch_embed.proj.bias"));
  x = layers.embed("cls_token", "pos_embed", x);
  for (int64_t i = 0; i < s.depth; ++i) {
    const std::string name = "blocks." + std::to_string(i);
    const auto feed_forward = [&](const std::string& which) {
      const std::vector<T> h = layers.norm(name + ".norm" + which, x);
      const std::string mlp = name + ".mlp" + (which == "2" ? "" : which);
      return s.trees.count > 0 ? layers.fast(mlp, h) : layers.mlp(mlp + ".fc1", mlp + ".fc2", h);
    };
    if (s.pairs) x = sum(x, feed_forward("0"));
    const std::vector<T> qkv = layers.linear(name + ".attn.qkv", layers.norm(name + ".norm1", x), s.dim);
    x = sum(x, layers.linear(name + ".attn.proj", layers.attention(qkv, layers.scale(), false), s.dim));
    x = sum(x, feed_forward("2"));
  }
  return layers.linear("head", layers.class_tokens(layers.norm("norm", x)), s.dim);
}

template <class T>
std::vector<T> cct(const Transformer& s, const NamedParameters<T>& p, const std::vector<double>& images) {
  const TransformerLayers<T> layers{s, p};
  const std::vector<double> pixels = to_channels_last(images, s.n, 3, s.side * s.side);
  const Conv conv{s.n, 3, s.side, s.side, s.dim, 3, 1, 1};
  const Pool pool{s.n, s.side, s.side, s.dim, 3, 2, 1};
  std::vector<uint8_t> places;
  std::vector<T> x = conv2d(conv, std::vector<T>(pixels.begin(), pixels.end()),
                            to_channels_last(p.at("tokenizer.conv_layers.0.0.weight"), s.dim, 3, 9), {});
  x = layers.embed("", "classifier.positional_emb", max_pool(pool, relu(x), places));
  for (int64_t i = 0; i < s.depth; ++i) {
    const std::string name = "classifier.blocks." + std::to_string(i) + ".";
    const std::vector<T> qkv = layers.linear(name + "self_attn.qkv", layers.norm(name + "pre_norm", x), s.dim);
    x = sum(x, layers.linear(name + "self_attn.proj", layers.attention(qkv, layers.scale(), false), s.dim));
    x = layers.norm(name + "norm1", x);
    x = sum(x, layers.mlp(name + "linear1", name + "linear2", x));
  }
  x = layers.norm("classifier.norm", x);
  const std::vector<T> score = layers.linear("classifier.attention_pool", x, s.dim);
  const auto count = static_cast<int64_t>(score.size()) / s.n;
  return layers.linear("classifier.fc", sequence_pool(s.n, count, s.dim, x, score), s.dim);
}

}  // namespace ct::reference
