#include "graph/autodiff.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace ct {
namespace {

ValueId small_net(Graph& g, ValueId images, int classes) {
  const ValueId h = g.linear(g.flatten(images), "hidden", 20, {.activation = Activation::relu});
  return g.linear(h, "out", classes);
}

ValueId residual_net(Graph& g, ValueId images, int classes) {
  const ValueId h = g.linear(g.flatten(images), "a", 32);
  const ValueId k = g.linear(g.relu(h), "b", 32);
  return g.linear(g.add(h, k), "c", classes);
}

ValueId norm_net(Graph& g, ValueId images, int classes) {
  const ValueId x = g.batchnorm(g.conv2d(images, "conv1", 4, 3, {.pad = 1, .bias = false}), "bn1", Activation::relu);
  const ValueId h = g.conv2d(x, "conv2", 4, 3, {.pad = 1, .bias = false});
  return g.linear(g.average_pool(g.batchnorm(h, "bn2", Activation::relu, x)), "fc", classes);
}

/// Tokens out of images whose bytes are theirs.
ValueId attention_net(Graph& g, ValueId images, int classes) {
  const ValueId patches = g.conv2d(images, "patches", 96, 8, {.stride = 8});
  const ValueId tokens = g.add_value({.name = "tokens", .shape = {2, 16, 96}, .dtype = g.compute()});
  g.add_op(Flatten{patches, tokens});
  const ValueId attended =
      g.attention(g.dropout(tokens, 0.1), 2, {.temperature_name = "attend.fn.temperature", .mask_diagonal = true});
  const ValueId score = g.linear(attended, "score", 1);
  return g.linear(g.dropout(g.sequence_pool(attended, score), 0.5), "out", classes);
}

/// A block of a transformer without attention.
ValueId token_net(Graph& g, ValueId images, int classes) {
  const ValueId flat = g.linear(g.flatten(images), "embed", 32, {.bias = false});
  const ValueId a = g.layer_norm(flat, "first");
  const ValueId h = g.linear(a, "up", 64, {.activation = Activation::gelu});
  const auto [sum, b] = g.add_layer_norm(g.linear(h, "down", 32), flat, "second");
  return g.linear(g.add(g.activate(b, Activation::gelu), sum), "out", classes);
}

InputSpec spec(Mode mode, DType compute = DType::f32) {
  return {.batch = 2, .classes = 10, .scale = {1, 1, 1}, .shift = {0, 0, 0}, .mode = mode, .compute = compute};
}

template <class T>
int count(const Graph& g) {
  int n = 0;
  for (const ComputeOp& op : g.ops()) n += std::holds_alternative<T>(op);
  return n;
}

TEST(Autodiff, EveryParameterGetsAGradientOfItsShape) {
  const Graph g = build_graph(small_net, spec(Mode::train));
  ASSERT_EQ(g.parameters().size(), 4u);
  for (const Parameter& p : g.parameters()) {
    ASSERT_NE(p.grad, kNone) << p.name;
    EXPECT_EQ(g[p.grad].shape, g[p.value].shape) << p.name;
  }
}

TEST(Autodiff, ImagesNeedNoGradient) {
  const Graph g = build_graph(small_net, spec(Mode::train));
  EXPECT_EQ(count<LinearGradW>(g), 2);
  EXPECT_EQ(count<LinearGradX>(g), 1);  // not into the pixels
  EXPECT_EQ(count<FlattenGrad>(g), 0);
}

TEST(Autodiff, GradientsThatMeetAreAdded) {
  const Graph g = build_graph(residual_net, spec(Mode::train));
  EXPECT_EQ(count<Add>(g), 2);  // the residual itself, and its two gradients
  // The sum comes after both of its parts.
  ValueId total = kNone;
  for (const ComputeOp& op : g.ops())
    if (const auto* add = std::get_if<Add>(&op)) total = add->y;
  bool used = false;
  for (const ComputeOp& op : g.ops())
    if (const auto* grad = std::get_if<LinearGradW>(&op)) used = used || grad->dy == total;
  EXPECT_TRUE(used);
}

TEST(Autodiff, OperationsReadOnlyWhatWasWritten) {
  for (const Builder& model :
       {Builder(small_net), Builder(residual_net), Builder(norm_net), Builder(token_net), Builder(attention_net)}) {
    const Graph g = build_graph(model, spec(Mode::train));
    std::vector<bool> written(g.values().size());
    for (ValueId input : {g.ports.images, g.ports.draws, g.ports.labels, g.ports.dropout_key})
      written[static_cast<size_t>(input)] = true;
    for (const Parameter& p : g.parameters()) written[static_cast<size_t>(p.value)] = true;
    for (const ComputeOp& op : g.ops()) {
      for (ValueId v : reads(op)) EXPECT_TRUE(written[static_cast<size_t>(v)]) << g[v].name;
      for (ValueId v : writes(op)) {
        EXPECT_FALSE(written[static_cast<size_t>(v)]) << g[v].name << " is written twice";
        written[static_cast<size_t>(v)] = true;
      }
    }
  }
}

template <class T>
std::vector<T> all(const Graph& g) {
  std::vector<T> found;
  for (const ComputeOp& op : g.ops())
    if (const T* one = std::get_if<T>(&op)) found.push_back(*one);
  return found;
}

Graph frozen(const Builder& model, const std::string& prefix) {
  InputSpec input = spec(Mode::train);
  input.frozen = [prefix](const std::string& name) { return name.starts_with(prefix); };
  return build_graph(model, input);
}

TEST(Autodiff, NothingIsAppendedWhereNothingLearns) {
  const Graph g = frozen(small_net, "hidden");
  EXPECT_EQ(count<LinearGradW>(g), 1);
  EXPECT_EQ(count<LinearGradX>(g), 0);
  EXPECT_EQ(count<ActivationGrad>(g), 0);
  for (const Parameter& p : g.parameters()) EXPECT_EQ(p.grad == kNone, p.frozen) << p.name;
  EXPECT_EQ(g.learnt_count(), 20 * 10 + 10);
}

TEST(Autodiff, GradientsPassThroughAFrozenLayer) {
  const Graph g = frozen(small_net, "out");
  EXPECT_EQ(count<LinearGradX>(g), 1);
  const Graph bias = frozen(small_net, "out.weight");
  EXPECT_EQ(count<LinearGradW>(bias), 2);  // the weight's is a scratch value
  EXPECT_EQ(bias.parameters()[2].grad, kNone);
  EXPECT_NE(bias.parameters()[3].grad, kNone);
}

TEST(Autodiff, AFrozenBatchNormIsThatOfEvaluation) {
  const Graph g = frozen(norm_net, "bn2");
  const auto forward = all<BatchNorm>(g);
  const auto backward = all<BatchNormGrad>(g);
  EXPECT_NE(forward[0].mean, kNone);
  EXPECT_EQ(forward[1].mean, kNone);
  ASSERT_EQ(backward.size(), 2u);
  EXPECT_EQ(backward[0].mean, forward[1].running_mean);
  for (const ValueId id : {backward[0].x, backward[0].b, backward[0].dw, backward[0].batch_var}) EXPECT_EQ(id, kNone);
  EXPECT_NE(backward[0].dresidual, kNone);
  for (const Parameter& p : g.parameters()) EXPECT_EQ(p.frozen, p.name.starts_with("bn2")) << p.name;
  // Of one whose bias learns, statistics are the batch's.
  const Graph half = frozen(norm_net, "bn2.weight");
  EXPECT_NE(all<BatchNorm>(half)[1].mean, kNone);
}

TEST(Autodiff, EvaluationHasNoBackwardPass) {
  const Graph g = build_graph(small_net, spec(Mode::evaluate));
  EXPECT_EQ(count<LinearGradW>(g), 0);
  for (const Parameter& p : g.parameters()) EXPECT_EQ(p.grad, kNone);
}

TEST(Autodiff, BatchNormPassesItsGradientToTheResidual) {
  const Graph g = build_graph(norm_net, spec(Mode::train));
  const auto forward = all<BatchNorm>(g);
  const auto backward = all<BatchNormGrad>(g);  // the last layer's first
  ASSERT_EQ(backward.size(), 2u);
  EXPECT_NE(backward[0].dresidual, kNone);
  EXPECT_EQ(backward[1].dresidual, kNone);
  EXPECT_EQ(backward[0].y, forward[1].y);  // ReLU's mask
  EXPECT_EQ(backward[0].b, kNone);         // which x alone does not tell
  EXPECT_EQ(backward[1].b, forward[0].b);
  const auto sums = all<Add>(g);  // of what reaches bn1 past and through conv2
  ASSERT_EQ(sums.size(), 1u);
  EXPECT_TRUE(sums[0].a == backward[0].dresidual || sums[0].b == backward[0].dresidual);
  EXPECT_EQ(backward[1].dy, sums[0].y);
}

TEST(Autodiff, ResidualWithoutReluSharesTheGradient) {
  const auto net = [](Graph& g, ValueId images, int classes) {
    const ValueId x = g.conv2d(images, "a", 4, 1);
    return g.linear(g.average_pool(g.batchnorm(g.conv2d(x, "b", 4, 1), "bn", Activation::none, x)), "fc", classes);
  };
  const Graph g = build_graph(net, spec(Mode::train));
  const auto backward = all<BatchNormGrad>(g);
  ASSERT_EQ(backward.size(), 1u);
  EXPECT_EQ(backward[0].y, kNone);
  EXPECT_EQ(backward[0].dresidual, kNone);
  ASSERT_EQ(all<Add>(g).size(), 1u);
  EXPECT_TRUE(all<Add>(g)[0].a == backward[0].dy || all<Add>(g)[0].b == backward[0].dy);
}

TEST(Autodiff, AttentionPassesItsGradientToTokensAndTemperature) {
  const Graph g = build_graph(attention_net, spec(Mode::train));
  const auto forward = all<Attention>(g);
  const auto backward = all<AttentionGrad>(g);
  ASSERT_EQ(backward.size(), 1u);
  EXPECT_EQ(backward[0].qkv, forward[0].qkv);
  EXPECT_EQ(backward[0].log_sum_exp, forward[0].log_sum_exp);
  EXPECT_TRUE(backward[0].mask_diagonal);
  bool found = false;
  for (const Parameter& p : g.parameters()) {
    if (p.name != "attend.fn.temperature") continue;
    found = true;
    EXPECT_TRUE(p.shape.empty());
    EXPECT_EQ(p.grad, backward[0].dtemperature);
    EXPECT_DOUBLE_EQ(std::exp(p.init.spread), 0.25);  // 1 / sqrt(16)
  }
  EXPECT_TRUE(found);
}

TEST(Autodiff, DropoutIsItsOwnGradientAndEvaluationHasNone) {
  const Graph g = build_graph(attention_net, spec(Mode::train));
  const auto drops = all<Dropout>(g);  // two forward, and the last one's gradient first
  ASSERT_EQ(drops.size(), 4u);
  EXPECT_EQ(drops[0].number, 0);
  EXPECT_EQ(drops[1].number, 1);
  EXPECT_EQ(drops[2].number, 1);
  EXPECT_EQ(drops[3].number, 0);
  EXPECT_EQ(drops[3].p, drops[0].p);
  EXPECT_EQ(drops[3].key, g.ports.dropout_key);
  const Graph evaluation = build_graph(attention_net, spec(Mode::evaluate));
  EXPECT_EQ(count<Dropout>(evaluation), 0);
  EXPECT_EQ(all<Attention>(evaluation)[0].log_sum_exp, kNone);
}

TEST(Autodiff, ImpossibleAttentionAndDropoutAreBugs) {
  Graph g;
  const ValueId qkv = g.add_value({.name = "qkv", .shape = {2, 16, 96}});
  const ValueId single = g.add_value({.name = "single", .shape = {2, 1, 96}});
  EXPECT_THROW(g.attention(qkv, 5), Error);
  EXPECT_THROW(g.attention(single, 1, {.mask_diagonal = true}), Error);
  EXPECT_NO_THROW(g.attention(single, 1));
  EXPECT_THROW(g.dropout(qkv, 1), Error);
  EXPECT_THROW(g.dropout(qkv, -0.1), Error);
  EXPECT_EQ(g.dropout(qkv, 0), qkv);
}

TEST(Autodiff, LayerNormAddsWhatReachesItsSumOtherwise) {
  const Graph g = build_graph(token_net, spec(Mode::train));
  const auto forward = all<LayerNorm>(g);
  const auto backward = all<LayerNormGrad>(g);  // the last layer's first
  ASSERT_EQ(forward.size(), 2u);
  ASSERT_EQ(backward.size(), 2u);
  EXPECT_EQ(forward[0].sum, kNone);
  EXPECT_EQ(backward[0].x, forward[1].sum);
  EXPECT_EQ(backward[1].x, forward[0].x);
  EXPECT_EQ(backward[0].dsum, all<ActivationGrad>(g)[0].dy);  // of the sum that goes past GELU
  EXPECT_EQ(backward[1].dsum, backward[0].dx);                // the residual's is the sum's
  EXPECT_EQ(all<Add>(g).size(), 1u);                          // the forward pass's: no gradient is added by itself
  for (const auto& [op, into] : {std::pair(backward[0], "down"), {backward[1], "embed"}})
    EXPECT_TRUE(std::ranges::any_of(all<LinearGradW>(g), [&, op = op](const auto& w) { return w.dy == op.dx; }))
        << into;
}

TEST(Autodiff, NormalisedInputsNeedNoGradient) {
  const auto net = [](Graph& g, ValueId images, int classes) {
    return g.linear(g.layer_norm(g.flatten(images), "norm"), "out", classes);
  };
  const auto grads = all<LayerNormGrad>(build_graph(net, spec(Mode::train)));
  ASSERT_EQ(grads.size(), 1u);
  EXPECT_EQ(grads[0].dx, kNone);
  EXPECT_EQ(grads[0].dsum, kNone);
}

TEST(Autodiff, GeluOfALayerKeepsItsArgumentForTrainingAlone) {
  for (const Mode mode : {Mode::train, Mode::evaluate}) {
    const Graph g = build_graph(token_net, spec(mode));
    const auto layers = all<Linear>(g);
    EXPECT_EQ(layers[1].before != kNone, mode == Mode::train);
    EXPECT_EQ(layers[0].before, kNone);
    EXPECT_EQ(all<LayerNorm>(g)[0].mean != kNone, mode == Mode::train);
    if (mode == Mode::evaluate) continue;
    const auto grads = all<ActivationGrad>(g);  // of the block's end, then of the layer
    ASSERT_EQ(grads.size(), 2u);
    EXPECT_EQ(grads[1].x, layers[1].before);
  }
}

TEST(Graph, LinearLayersOfTokensAndWithoutBias) {
  Graph g;
  const ValueId tokens = g.add_value({.name = "tokens", .shape = {2, 5, 24}});
  const ValueId y = g.linear(tokens, "fc", 7, {.bias = false, .weight = Init{Init::normal, 0.02}});
  EXPECT_EQ(g.shape(y), Shape({2, 5, 7}));
  EXPECT_EQ(g.shape(y).stored(), 2 * 5 * 16);
  ASSERT_EQ(g.parameters().size(), 1u);
  EXPECT_EQ(g.parameters()[0].name, "fc.weight");
  EXPECT_EQ(g.parameters()[0].init.kind, Init::normal);
  EXPECT_EQ(g.parameters()[0].init.spread, 0.02);
  const ValueId z = g.linear(y, "next", 3, {.bias_start = Init{Init::constant, 0}});
  EXPECT_EQ(g.shape(z), Shape({2, 5, 3}));
  EXPECT_EQ(g.parameters()[1].init.kind, Init::uniform);  // PyTorch's, by the number of inputs
  EXPECT_EQ(g.parameters()[1].init.spread, 1 / std::sqrt(7.0));
  EXPECT_EQ(g.parameters()[2].init.kind, Init::constant);
  EXPECT_THROW(g.flatten(y), Error);  // its rows are padded
}

TEST(Statistics, AreNotLearntButHaveABatchsStatisticForAGradient) {
  const Graph g = build_graph(norm_net, spec(Mode::train));
  int64_t learnt = 0;
  int statistics = 0;
  for (const Parameter& p : g.parameters()) {
    EXPECT_NE(p.grad, kNone) << p.name;
    p.statistic ? statistics += 1 : learnt += p.layout.numel();
    EXPECT_EQ(p.momentum, p.statistic ? 0.1 : 0) << p.name;
  }
  EXPECT_EQ(statistics, 4);
  EXPECT_EQ(g.parameter_count(), learnt);
  const auto is = [&](const char* name, ValueId grad) {
    for (const Parameter& p : g.parameters())
      if (p.name == name) return p.grad == grad;
    return false;
  };
  const BatchNormGrad last = all<BatchNormGrad>(g)[0];
  EXPECT_TRUE(is("bn2.running_mean", last.batch_mean));
  EXPECT_TRUE(is("bn2.running_var", last.batch_var));
  EXPECT_TRUE(is("bn2.weight", last.dw));
}

TEST(Statistics, AreReadInEvaluationOnly) {
  for (const Mode mode : {Mode::train, Mode::evaluate}) {
    const Graph g = build_graph(norm_net, spec(mode));
    for (const BatchNorm& op : all<BatchNorm>(g)) {
      const Ids ids = op.reads();
      EXPECT_EQ(std::count(ids.begin(), ids.end(), op.running_var) > 0, mode == Mode::evaluate);
      EXPECT_EQ(op.mean == kNone, mode == Mode::evaluate);
    }
  }
}

TEST(Precision, Bf16IsForActivationsAndMatricesAlone) {
  for (const Builder& model : {Builder(small_net), Builder(residual_net), Builder(norm_net)}) {
    const Graph g = build_graph(model, spec(Mode::train, DType::bf16));
    for (const Parameter& p : g.parameters()) {
      EXPECT_EQ(g[p.value].dtype, p.is_vector() ? DType::f32 : DType::bf16) << p.name;
      EXPECT_EQ(g[p.grad].dtype, DType::f32) << p.name;
    }
    EXPECT_EQ(g[g.augmented].dtype, DType::bf16);
    const SoftmaxCrossEntropy loss = all<SoftmaxCrossEntropy>(g)[0];
    EXPECT_EQ(g[loss.logits].dtype, DType::f32);
    EXPECT_EQ(g[loss.dlogits].dtype, DType::f32);
    for (const ComputeOp& op : g.ops())
      if (const auto* grad = std::get_if<LinearGradX>(&op)) {
        EXPECT_EQ(g[grad->dx].dtype, DType::bf16);
      }
    for (const BatchNorm& op : all<BatchNorm>(g)) {
      EXPECT_EQ(g[op.y].dtype, DType::bf16);
      EXPECT_EQ(g[op.mean].dtype, DType::f32);
    }
  }
}

TEST(Autodiff, UnusedParameterIsABugNotAZero) {
  const auto loose_end = [](Graph& g, ValueId images, int classes) {
    const ValueId flat = g.flatten(images);
    g.linear(flat, "unused", 4);
    return g.linear(flat, "out", classes);
  };
  EXPECT_THROW(build_graph(loose_end, spec(Mode::train)), Error);
}

TEST(Layout, ConvolutionAndFlattenedMatrixRoundTrip) {
  for (const Layout& layout :
       {Layout::vector(7), Layout::vector(1), Layout::matrix(3, 20), Layout::matrix(1, 1), Layout::matrix(4, 16),
        Layout::convolution(4, 3, 5), Layout::convolution(4, 3, 1), Layout::convolution(1, 1, 3),
        Layout::convolution(4, 3, 5).rows(2), Layout::matrix_of_flattened(3, 16, 5, 5),
        Layout::matrix_of_flattened(3, 16, 1, 1), Layout::tokens(2, 5, 20), Layout::tokens(1, 5, 16)}) {
    std::vector<float> torch(static_cast<size_t>(layout.numel())), back(torch.size());
    for (size_t i = 0; i < torch.size(); ++i) torch[i] = static_cast<float>(i + 1);
    std::vector<float> storage(static_cast<size_t>(layout.stored), -1.0f);
    layout.from_torch(torch, storage);
    layout.to_torch(storage, back);
    EXPECT_EQ(torch, back);
    for (size_t i = 0; i < torch.size(); ++i) {
      auto rest = static_cast<int64_t>(i), at = int64_t{0};
      for (size_t d = layout.dims.size(); d-- > 0; rest /= layout.dims[d])
        at += rest % layout.dims[d] * layout.strides[d];
      EXPECT_EQ(storage[static_cast<size_t>(at)], torch[i]);
    }
    double sum = 0, expected = 0;  // pads are zero
    for (float v : storage) sum += v;
    for (float v : torch) expected += v;
    EXPECT_EQ(sum, expected);
  }
}

TEST(Layout, FlattenedColumnsFollowNhwc) {
  const Layout layout = Layout::matrix_of_flattened(1, 2, 2, 2);  // PyTorch: c,y,x; stored: y,x,c
  std::vector<float> torch{0, 1, 2, 3, 4, 5, 6, 7}, storage(16);
  layout.from_torch(torch, storage);
  EXPECT_EQ(std::vector<float>(storage.begin(), storage.begin() + 8), (std::vector<float>{0, 4, 1, 5, 2, 6, 3, 7}));
}

}  // namespace
}  // namespace ct
