// Transformers: names and numbers of parameters, how they begin, and gradients against a scalar reference in double.
#include "reference/transformers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <type_traits>

#include "base/error.h"
#include "model/network.h"

namespace ct {
namespace {

using Named = reference::NamedParameters<std::complex<double>>;
using Logits = std::vector<std::complex<double>> (*)(const reference::Transformer&, const Named&,
                                                     const std::vector<double>&);

// Widths that leave pads, two layers, of which the last is cut short.
const reference::Transformer kSmall{
    .n = 2, .side = 8, .patch = 4, .dim = 6, .depth = 2, .heads = 2, .head_width = 3, .mlp_dim = 5, .classes = 10};

Model small(const std::string& name) {
  return {
      .name = name,
      .vit_tiny =
          {.patch = 4, .dim = 6, .depth = 2, .heads = 2, .dim_head = 3, .mlp_dim = 5, .dropout = 0, .emb_dropout = 0},
      .vit = {.patch = 4, .dim = 6, .depth = 2, .heads = 2, .mlp_dim = 5},
      .cct = {.dim = 6, .depth = 2, .heads = 2, .mlp_dim = 5}};
}

Graph graph_of(const Model& model, Mode mode = Mode::evaluate) {
  return build_graph(find_model(model), {.batch = 2, .scale = {1, 1, 1}, .shift = {0, 0, 0}, .mode = mode});
}

using Shapes = std::map<std::string, std::vector<int64_t>>;
Shapes shapes_of(const Graph& graph) {
  Shapes shapes;
  for (const Parameter& p : graph.parameters()) {
    EXPECT_TRUE(shapes.emplace(p.name, p.shape).second) << p.name;
    EXPECT_FALSE(p.statistic) << p.name;
  }
  return shapes;
}

/// weight and bias of a layer, the latter unless it is left out.
void add_layer(Shapes& shapes, const std::string& name, std::vector<int64_t> weight, bool bias = true) {
  if (bias) shapes[name + ".bias"] = {weight[0]};
  shapes[name + ".weight"] = std::move(weight);
}

TEST(VitTiny, HasTheOriginalsParameters) {
  const Graph graph = graph_of({.name = "vit_tiny"}, Mode::train);
  EXPECT_EQ(graph.parameter_count(), 4371438);
  Shapes expected = {{"cls_token", {1, 1, 512}}, {"pos_embedding", {1, 65, 512}}};
  add_layer(expected, "to_patch_embedding.to_patch_tokens.1", {240});
  add_layer(expected, "to_patch_embedding.to_patch_tokens.2", {512, 240});
  for (int i = 0; i < 4; ++i) {
    const std::string layer = str("transformer.layers.", i);
    expected[layer + ".0.fn.temperature"] = {};
    add_layer(expected, layer + ".0.norm", {512});
    add_layer(expected, layer + ".0.fn.to_qkv", {1152, 512}, /*bias=*/false);
    add_layer(expected, layer + ".0.fn.to_out.0", {512, 384});
    add_layer(expected, layer + ".1.norm", {512});
    add_layer(expected, layer + ".1.fn.net.0", {256, 512});
    add_layer(expected, layer + ".1.fn.net.3", {512, 256});
  }
  add_layer(expected, "mlp_head.0", {512});
  add_layer(expected, "mlp_head.1", {10, 512});
  EXPECT_EQ(shapes_of(graph), expected);
  EXPECT_EQ(graph.units(),
            (std::vector<std::string>{"to_patch_embedding", "transformer.layers.0", "transformer.layers.1",
                                      "transformer.layers.2", "transformer.layers.3", "mlp_head"}));
}

TEST(Vit, HasTimmsParameters) {
  const Graph graph = graph_of({.name = "vit"});
  EXPECT_EQ(graph.parameter_count(), 5362762);
  Shapes expected = {{"cls_token", {1, 1, 192}}, {"pos_embed", {1, 65, 192}}};
  add_layer(expected, "patch_embed.proj", {192, 3, 4, 4});
  for (int i = 0; i < 12; ++i) {
    const std::string block = str("blocks.", i);
    add_layer(expected, block + ".norm1", {192});
    add_layer(expected, block + ".attn.qkv", {576, 192});
    add_layer(expected, block + ".attn.proj", {192, 192});
    add_layer(expected, block + ".norm2", {192});
    add_layer(expected, block + ".mlp.fc1", {768, 192});
    add_layer(expected, block + ".mlp.fc2", {192, 768});
  }
  add_layer(expected, "norm", {192});
  add_layer(expected, "head", {10, 192});
  EXPECT_EQ(shapes_of(graph), expected);
}

TEST(Cct, HasVitPytorchsParameters) {
  const Graph graph = graph_of({.name = "cct"});
  EXPECT_EQ(graph.parameter_count(), 3760139);
  Shapes expected = {{"classifier.positional_emb", {1, 256, 256}}};
  add_layer(expected, "tokenizer.conv_layers.0.0", {256, 3, 3, 3}, /*bias=*/false);
  for (int i = 0; i < 7; ++i) {
    const std::string block = str("classifier.blocks.", i);
    add_layer(expected, block + ".pre_norm", {256});
    add_layer(expected, block + ".self_attn.qkv", {768, 256}, /*bias=*/false);
    add_layer(expected, block + ".self_attn.proj", {256, 256});
    add_layer(expected, block + ".linear1", {512, 256});
    add_layer(expected, block + ".norm1", {256});
    add_layer(expected, block + ".linear2", {256, 512});
  }
  add_layer(expected, "classifier.norm", {256});
  add_layer(expected, "classifier.attention_pool", {1, 256});
  add_layer(expected, "classifier.fc", {10, 256});
  EXPECT_EQ(shapes_of(graph), expected);
  // Two convolutions of 7x7: strides of 2, 64 channels between them.
  const Shapes more = shapes_of(graph_of({.name = "cct", .cct = {.kernel = 7, .convolutions = 2}}));
  EXPECT_EQ(more.at("tokenizer.conv_layers.0.0.weight"), (std::vector<int64_t>{64, 3, 7, 7}));
  EXPECT_EQ(more.at("tokenizer.conv_layers.1.0.weight"), (std::vector<int64_t>{256, 64, 7, 7}));
  EXPECT_EQ(more.at("classifier.positional_emb"), (std::vector<int64_t>{1, 4, 256}));
}

struct Spread {
  double mean, deviation, largest;
};
Spread spread_of(const Graph& graph, const std::string& name) {
  for (size_t i = 0; i < graph.parameters().size(); ++i) {
    if (graph.parameters()[i].name != name) continue;
    const std::vector<float> values = initial_values(graph, i, 1);
    double sum = 0, squares = 0, largest = 0;
    for (const double v : values) {
      sum += v;
      squares += v * v;
      largest = std::max(largest, std::abs(v));
    }
    const auto n = static_cast<double>(values.size());
    return {sum / n, std::sqrt(squares / n), largest};
  }
  ADD_FAILURE() << "no parameter " << name;
  return {};
}
/// Drawn from a normal distribution, not a uniform one.
void expect_normal(const Graph& graph, const std::string& name, double deviation, double n) {
  const Spread found = spread_of(graph, name);
  EXPECT_NEAR(found.mean, 0, 5 * deviation / std::sqrt(n)) << name;
  EXPECT_NEAR(found.deviation, deviation, 5 * deviation / std::sqrt(2 * n)) << name;
  EXPECT_GT(found.largest, 2 * deviation) << name;
}
void expect_uniform(const Graph& graph, const std::string& name, double fan_in) {
  const double most = 1 / std::sqrt(fan_in);
  const Spread found = spread_of(graph, name);
  EXPECT_LE(found.largest, most * (1 + kEps)) << name;
  EXPECT_GT(found.largest, 0.95 * most) << name;
}
void expect_all(const Graph& graph, const std::string& name, double value) {
  const Spread found = spread_of(graph, name);
  EXPECT_NEAR(found.mean, value, 1e-6) << name;
  EXPECT_NEAR(found.deviation, std::abs(value), 1e-6) << name;
}

TEST(Transformers, BeginAsTheOriginalsDo) {
  const Graph ours = graph_of({.name = "vit_tiny"});
  expect_normal(ours, "cls_token", 1, 512);
  expect_normal(ours, "pos_embedding", 1, 65 * 512);
  expect_all(ours, "transformer.layers.2.0.fn.temperature", std::log(1 / 8.0));
  expect_uniform(ours, "to_patch_embedding.to_patch_tokens.2.weight", 240);
  expect_uniform(ours, "transformer.layers.0.0.fn.to_qkv.weight", 512);
  expect_uniform(ours, "transformer.layers.0.0.fn.to_out.0.bias", 384);
  expect_uniform(ours, "transformer.layers.3.1.fn.net.3.weight", 256);
  expect_all(ours, "mlp_head.0.weight", 1);
  expect_all(ours, "mlp_head.0.bias", 0);
  const Graph timms = graph_of({.name = "vit"});
  expect_normal(timms, "cls_token", 1e-6, 192);
  expect_normal(timms, "pos_embed", 0.02, 65 * 192);
  expect_normal(timms, "blocks.11.attn.qkv.weight", 0.02, 576 * 192);
  expect_normal(timms, "head.weight", 0.02, 1920);
  expect_all(timms, "blocks.0.mlp.fc1.bias", 0);
  expect_uniform(timms, "patch_embed.proj.weight", 48);
  expect_uniform(timms, "patch_embed.proj.bias", 48);
  const Graph compact = graph_of({.name = "cct"});
  expect_normal(compact, "classifier.positional_emb", 0.2, 65536);
  expect_normal(compact, "tokenizer.conv_layers.0.0.weight", std::sqrt(2 / 27.0), 6912);
  expect_normal(compact, "classifier.blocks.6.linear1.weight", 0.02, 131072);
  expect_all(compact, "classifier.blocks.6.linear1.bias", 0);
}

TEST(Transformers, DropOutInTrainingAlone) {
  const auto dropouts = [](const Graph& g) {
    return std::ranges::count_if(g.ops(), [](const ComputeOp& op) { return std::holds_alternative<Dropout>(op); });
  };
  const Model model{.name = "vit_tiny"}, without{.name = "vit_tiny", .vit_tiny = {.dropout = 0, .emb_dropout = 0}};
  EXPECT_EQ(dropouts(graph_of(model)), 0);
  EXPECT_EQ(dropouts(graph_of(without, Mode::train)), 0);
  EXPECT_EQ(dropouts(graph_of(model, Mode::train)), 2 * (1 + 3 * 4));  // forward and backward
}

/// `s` is what `model` is made of.
void expect_gradient_of_loss(const Model& model, Logits logits, const reference::Transformer& s = kSmall) {
  Network network(find_model(model), s.n, kSgd, 0, 42, s.side);
  const reference::Batch batch = network.feed(1);
  network.micro_step();
  const auto params = network.parameters(), gradients = network.gradients();
  const std::vector<Parameter>& parameters = network.graph().parameters();
  Named point;
  for (size_t i = 0; i < params.size(); ++i) point[parameters[i].name] = {params[i].begin(), params[i].end()};
  const auto loss = [&] { return reference::mean_loss(logits(s, point, batch.images), batch.labels); };
  EXPECT_NEAR(network.loss(), loss().real(), 32 * kEps * loss().real());
  EXPECT_NEAR(network.evaluate(1), loss().real(), 32 * kEps * loss().real());
  for (size_t i = 0; i < params.size(); ++i) {
    if (parameters[i].name == "classifier.attention_pool.bias") continue;  // moves all scores alike: nothing changes
    double largest = 0;
    for (const double g : gradients[i]) largest = std::max(largest, std::abs(g));
    EXPECT_GT(largest, 0) << parameters[i].name;
    for (size_t j = 0; j < params[i].size(); j += 1 + params[i].size() / 12) {
      std::complex<double>& moved = point[parameters[i].name][j];
      const auto kept = moved;
      moved += std::complex<double>(0, reference::kComplexStep);
      const double derivative = loss().imag() / reference::kComplexStep;
      moved = kept;
      // Two layers of a dozen roundings each, some of which are normalised; sums over all tokens. A temperature's is
      // one number, a sum over all scores whose terms cancel.
      const double roundings = params[i].size() == 1 ? 1600 : 400;
      EXPECT_NEAR(gradients[i][j], derivative, roundings * kEps * largest) << parameters[i].name << " element " << j;
    }
  }
}

TEST(VitTiny, GradientIsTheComplexStepOfItsLoss) { expect_gradient_of_loss(small("vit_tiny"), reference::vit_tiny); }
TEST(Vit, GradientIsTheComplexStepOfItsLoss) { expect_gradient_of_loss(small("vit"), reference::vit); }
TEST(Cct, GradientIsTheComplexStepOfItsLoss) { expect_gradient_of_loss(small("cct"), reference::cct); }

// ---- other feed-forward layers

/// vit_tiny with these, in the original's size.
Graph with(const FeedForwardKeys& keys, Mode mode = Mode::evaluate) {
  return graph_of({.name = "vit_tiny", .vit_tiny = {.feed_forward = keys}}, mode);
}
constexpr FeedForwardKeys kFast{.ffn = FeedForward::fff};
constexpr FeedForwardKeys kFanOut{.ffn = FeedForward::fff, .fff = {.depth = 3, .fanout = 4}};

TEST(FeedForward, HasTheOriginalsParameters) {
  for (const Mode mode : {Mode::train, Mode::evaluate}) {
    const Graph graph = with(kFast, mode);
    EXPECT_EQ(graph.parameter_count(), 4365290);
    Shapes expected = shapes_of(graph_of({.name = "vit_tiny"}));
    for (int i = 0; i < 4; ++i) {
      const std::string layer = str("transformer.layers.", i, ".1.fn.");
      for (const char* gone : {"net.0.weight", "net.0.bias", "net.3.weight", "net.3.bias"})
        expected.erase(layer + gone);
      add_layer(expected, layer + "linear_in", {255, 512});
      add_layer(expected, layer + "linear_out", {512, 255}, /*bias=*/false);
    }
    EXPECT_EQ(shapes_of(graph), expected);
  }
  EXPECT_EQ(with(kFanOut).parameter_count(), 4365290 + 4 * (340 - 255) * (512 + 1 + 512));
  FeedForwardKeys more = kFast;
  more.fff.dense = 8;
  EXPECT_EQ(with(more).parameter_count(), 4365290 + 4 * 8 * (512 + 512));
  const Shapes beside = shapes_of(with(more));
  EXPECT_EQ(beside.at("transformer.layers.3.1.fn.dense_in.weight"), (std::vector<int64_t>{8, 512}));
  EXPECT_FALSE(beside.contains("transformer.layers.3.1.fn.dense_in.bias"));
  EXPECT_EQ(with({.ffn_pairs = true}).parameter_count(), 4371438 + 4 * (2 * 512 * 256 + 256 + 512 + 2 * 512));
  more = kFast;
  more.ffn_pairs = true;
  const Shapes pairs = shapes_of(with(more));
  for (const char* part : {"0.norm", "0.fn.linear_in", "1.norm", "1.fn.to_qkv", "2.norm", "2.fn.linear_in"})
    EXPECT_TRUE(pairs.contains(str("transformer.layers.3.", part, ".weight"))) << part;
  const Shapes timms = shapes_of(graph_of({.name = "vit", .vit = {.feed_forward = {.ffn_pairs = true}}}));
  EXPECT_EQ(timms.at("blocks.11.mlp0.fc1.weight"), (std::vector<int64_t>{768, 192}));
  EXPECT_EQ(timms.at("blocks.11.norm0.weight"), (std::vector<int64_t>{192}));
}

TEST(FeedForward, FastOnesBeginAsTheOriginalsDo) {
  const Graph graph = with(kFast), fan_out = with(kFanOut);
  expect_uniform(graph, "transformer.layers.1.1.fn.linear_in.weight", 512);
  expect_uniform(graph, "transformer.layers.1.1.fn.linear_in.bias", 512);
  expect_uniform(graph, "transformer.layers.1.1.fn.linear_out.weight", 8);
  expect_uniform(fan_out, "transformer.layers.1.1.fn.linear_out.weight", 4);
}

/// Evaluation computes what a token visits; training masks the rest.
TEST(FeedForward, FastOnesComputeNoMoreThanIsVisitedInEvaluation) {
  const auto count = [](const Graph& g, auto kind) {
    return std::ranges::count_if(
        g.ops(), [](const ComputeOp& op) { return std::holds_alternative<typename decltype(kind)::type>(op); });
  };
  const Graph train = with(kFast, Mode::train), evaluate = with(kFast);
  EXPECT_EQ(count(train, std::type_identity<Fff>()), 0);
  EXPECT_EQ(count(train, std::type_identity<TreeGelu>()), 4);
  EXPECT_EQ(count(train, std::type_identity<TreeGeluGrad>()), 4);
  EXPECT_EQ(count(evaluate, std::type_identity<Fff>()), 4);
  EXPECT_EQ(count(evaluate, std::type_identity<TreeGelu>()), 0);
}

struct Variant {
  const char* text;
  FeedForwardKeys keys;
};
const Variant kVariants[] = {
    {"pairs", {.ffn_pairs = true}},
    {"a tree", {.ffn = FeedForward::fff, .fff = {.depth = 3}}},
    {"a tree and dense units", {.ffn = FeedForward::fff, .fff = {.depth = 2, .dense = 3}}},
    {"pairs of fan-out", {.ffn = FeedForward::fff, .ffn_pairs = true, .fff = {.depth = 2, .fanout = 4}}},
    {"trees", {.ffn = FeedForward::fff, .ffn_pairs = true, .fff = {.depth = 1, .fanout = 3, .trees = 2, .dense = 2}}}};

TEST(FeedForward, GradientIsTheComplexStepOfTheLoss) {
  for (const auto& [text, keys] : kVariants) {
    SCOPED_TRACE(text);
    reference::Transformer s = kSmall;
    s.pairs = keys.ffn_pairs;
    s.dense = keys.fff.dense;
    if (keys.ffn == FeedForward::fff)
      s.trees = {static_cast<int>(keys.fff.trees), static_cast<int>(keys.fff.depth), static_cast<int>(keys.fff.fanout)};
    Model model = small("vit_tiny");
    model.vit_tiny.feed_forward = keys;
    expect_gradient_of_loss(model, reference::vit_tiny, s);
    model = small("vit");
    model.vit.feed_forward = keys;
    expect_gradient_of_loss(model, reference::vit, s);
  }
}

TEST(FeedForward, FastOnesLearnInBothPrecisions) {
  for (const DType compute : {DType::f32, DType::bf16}) {
    Model model = small("vit_tiny");
    model.vit_tiny.dim = 32;
    model.vit_tiny.feed_forward = {.ffn = FeedForward::fff, .ffn_pairs = true, .fff = {.depth = 3, .dense = 4}};
    Network network(find_model(model), 8, kSgd, 0.05, 42, 8, compute);
    network.feed(0);
    const double first = network.step();
    for (int step = 0; step < 60; ++step) network.step();
    EXPECT_LT(network.step(), first / 4) << name_of(compute);
    EXPECT_LT(network.evaluate(0), first / 4) << name_of(compute);
  }
}

TEST(FeedForward, RefusesWhatDoesNotGoTogether) {
  const auto fault = [](const FeedForwardKeys& keys) {
    const Model model{.name = "vit_tiny", .vit_tiny = {.feed_forward = keys}};
    return model.fault() ? model.fault()->key : "";
  };
  EXPECT_EQ(fault({}), "");
  EXPECT_EQ(fault({.ffn_pairs = true}), "");
  EXPECT_EQ(fault(kFanOut), "");
  EXPECT_EQ(fault({.fff = {.depth = 3}}), "fff_depth");  // of an mlp
  EXPECT_EQ(fault({.ffn = FeedForward::fff, .fff = {.depth = 13}}), "");
  EXPECT_EQ(fault({.ffn = FeedForward::fff, .fff = {.depth = 13, .trees = 2}}), "fff_depth");
  EXPECT_EQ(fault({.ffn = FeedForward::fff, .fff = {.depth = 13, .fanout = 64, .trees = 64}}), "fff_depth");
  EXPECT_EQ(fault({.ffn = FeedForward::fff, .fff = {.depth = 7, .trees = 64}}), "");
  EXPECT_EQ(fault({.ffn = FeedForward::fff, .fff = {.depth = 1, .fanout = 5, .trees = 64}}), "fff_trees");
  const Model plain{.name = "vit", .vit = {.feed_forward = {.fff = {.trees = 2}}}};
  ASSERT_TRUE(plain.fault());
  EXPECT_EQ(plain.fault()->key, "fff_trees");
}

TEST(Transformers, LearnInBothPrecisions) {
  for (const char* name : {"vit_tiny", "vit", "cct"})
    for (const DType compute : {DType::f32, DType::bf16}) {
      Model model = small(name);
      model.vit_tiny.dim = model.vit.dim = model.cct.dim = 32;
      Network network(find_model(model), 8, kSgd, 0.05, 42, 8, compute);
      network.feed(0);
      const double first = network.step();
      double last = first;
      for (int step = 0; step < 60; ++step) last = network.step();
      EXPECT_LT(last, first / 4) << name << " " << name_of(compute);
    }
}

TEST(Transformers, RefuseWhatDoesNotGoTogether) {
  const auto refusal = [](const Model& model, int64_t height, int64_t width) {
    try {
      require_fitting(model, 3, height, width);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::usage);
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal({.name = "vit_tiny", .vit_tiny = {.patch = 5}}, 32, 32),
            "model.patch: 5 does not divide the sides of the data set's images, 3x32x32; use 4");
  EXPECT_NE(refusal({.name = "vit", .vit = {.patch = 64}}, 48, 32).find("use 16"), std::string::npos);
  EXPECT_EQ(refusal({.name = "vit", .vit = {.patch = 16}}, 48, 32), "");
  EXPECT_EQ(refusal({.name = "cct"}, 31, 29), "");
  EXPECT_FALSE(Model{.name = "vit"}.fault());
  EXPECT_FALSE(
      (Model{.name = "vit_tiny", .vit_tiny = {.dim = 100, .heads = 7}}.fault()));  // heads have their own width
  for (const Model& model :
       {Model{.name = "vit", .vit = {.dim = 100, .heads = 7}}, Model{.name = "cct", .cct = {.dim = 100, .heads = 7}}}) {
    ASSERT_TRUE(model.fault()) << model.name;
    EXPECT_EQ(model.fault()->key, "heads");
    EXPECT_NE(model.fault()->text.find("100 is not a multiple of 7"), std::string::npos);
  }
  EXPECT_EQ(some_side({.name = "vit", .vit = {.patch = 24}}), 48);
  EXPECT_EQ(some_side({.name = "cnn"}), 32);
}

}  // namespace
}  // namespace ct
