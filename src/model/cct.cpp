#include "model/cct.h"

#include <algorithm>

#include "model/residual_stream.h"
#include "model/transformer_keys.h"

namespace ct {
namespace {

/// vit-pytorch's start of a linear layer; its truncation, at a hundred deviations, changes nothing.
LinearOptions vit_pytorch_linear(bool bias = true, Activation activation = Activation::none) {
  return {.bias = bias,
          .activation = activation,
          .weight = Init{Init::normal, 0.02},
          .bias_start = Init{Init::constant, 0}};
}

/// Convolution, ReLU, pooling, as often as it is wanted.
ValueId tokenizer(Graph& g, ValueId h, const CctKeys& k) {
  constexpr int64_t kInner = 64;  // channels between convolutions
  const int kernel = static_cast<int>(k.kernel), half = kernel / 2;
  for (int64_t i = 0; i < k.convolutions; ++i) {
    const int64_t width = i + 1 == k.convolutions ? k.dim : kInner;
    h = g.conv2d(h, "tokenizer.conv_layers." + std::to_string(i) + ".0", static_cast<int>(width), kernel,
                 {.stride = std::max(1, half - 1),
                  .pad = std::max(1, half),
                  .bias = false,
                  .start = ConvOptions::kaiming_fan_in});
    h = g.max_pool(g.relu(h), 3, {.stride = 2, .pad = 1});
  }
  return h;
}

ValueId self_attention(Graph& g, ValueId x, const std::string& name, const CctKeys& k) {
  const ValueId qkv = g.linear(x, name + ".qkv", 3 * k.dim, vit_pytorch_linear(/*bias=*/false));
  return g.dropout(g.linear(g.attention(qkv, static_cast<int>(k.heads)), name + ".proj", k.dim, vit_pytorch_linear()),
                   k.dropout);
}

ValueId feed_forward(Graph& g, ValueId x, const std::string& name, const CctKeys& k) {
  x = g.dropout(g.linear(x, name + ".linear1", k.mlp_dim, vit_pytorch_linear(/*bias=*/true, Activation::gelu)),
                k.dropout);
  return g.dropout(g.linear(x, name + ".linear2", k.dim, vit_pytorch_linear()), k.dropout);
}

}  // namespace

std::vector<ConfigKey> CctKeys::keys() {
  return {dim_key(dim),
          depth_key(depth),
          heads_key(heads),
          mlp_dim_key(mlp_dim),
          {"kernel", &kernel, "size of the convolutions that compute the tokens", {.min = 1, .max = 15}},
          {"convolutions",
           &convolutions,
           "number of these convolutions, each with a pooling that halves the sides",
           {.min = 1, .max = 4}},
          dropout_key(dropout)};
}
std::optional<ConfigFault> CctKeys::fault() const { return heads_fault(dim, heads); }

ValueId cct(Graph& g, ValueId images, int classes, const CctKeys& k) {
  g.begin_unit("tokenizer");
  ValueId h = tokenizer(g, images, k);
  h = g.tokens(h, {.positions = "classifier.positional_emb", .positions_start = {Init::normal, 0.2}});
  ResidualStream x(g, g.dropout(h, k.dropout));
  for (int64_t i = 0; i < k.depth; ++i) {
    const std::string block = "classifier.blocks." + std::to_string(i);
    g.begin_unit(block);
    x.add(self_attention(g, x.norm(block + ".pre_norm"), block + ".self_attn", k));
    h = x.norm(block + ".norm1");
    x.restart(h);
    x.add(feed_forward(g, h, block, k));
  }
  g.begin_unit("classifier");
  h = x.norm("classifier.norm");
  h = g.sequence_pool(h, g.linear(h, "classifier.attention_pool", 1, vit_pytorch_linear()));
  return g.linear(h, "classifier.fc", classes, vit_pytorch_linear());
}

}  // namespace ct
