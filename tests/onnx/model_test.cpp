#include "onnx/model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "onnx/read_model.h"

namespace ct::onnx {
namespace {

using Texts = std::vector<std::string>;
using Integers = std::vector<int64_t>;
using Reals = std::vector<float>;

constexpr std::array kPlain = {View{{}, 1}};

InputSpec small(Mode mode = Mode::evaluate) {
  return {.batch = 2, .height = 8, .width = 12, .classes = 5, .scale = {1, 2, 3}, .shift = {4, 5, 6}, .mode = mode};
}

ReadModel exported(const Builder& network, ModelOptions options = {}) {
  if (options.views.empty()) options.views = kPlain;
  ReadModel model = model_of(build_graph(network, small()), options);
  expect_sound(model);
  return model;
}

/// Types of nodes without those of the input and the last softmax.
Texts types_between(const ReadModel& model) {
  const Texts all = model.types();
  const Texts first = {"Transpose", "Cast", "Mul", "Add"};
  EXPECT_TRUE(std::equal(first.begin(), first.end(), all.begin()));
  EXPECT_EQ(all.back(), "Softmax");
  return {all.begin() + 4, all.end() - 1};
}

/// A network that ends in logits whatever comes before.
Builder ending(const std::function<ValueId(Graph&, ValueId)>& begin) {
  return [begin](Graph& g, ValueId images, int classes) { return g.linear(begin(g, images), "head", classes); };
}
/// A network of tokens, of which the first is classified.
Builder of_tokens(const std::function<ValueId(Graph&, ValueId)>& middle) {
  return ending([middle](Graph& g, ValueId images) { return g.take_token(middle(g, g.patches(images, 4))); });
}

TEST(OnnxModel, SaysWhatItIs) {
  const ReadModel model = exported(ending([](Graph& g, ValueId x) { return g.flatten(x); }),
                                   {.name = "a network", .doc = "for tests", .metadata = {{"key", "val\"ue, äöü"}}});
  EXPECT_EQ(model.ir_version, 8u);
  EXPECT_EQ(model.opset, 17u);
  EXPECT_EQ(model.producer, "cifar-train");
  EXPECT_EQ(model.name, "a network");
  EXPECT_EQ(model.doc, "for tests");
  EXPECT_EQ(model.metadata, (std::map<std::string, std::string>{{"key", "val\"ue, äöü"}}));
  EXPECT_EQ(model.inputs, (std::vector<ReadPort>{{"images", 2, {-1, 8, 12, 3}}}));
  EXPECT_EQ(model.outputs, (std::vector<ReadPort>{{"probabilities", 1, {-1, 5}}}));
  EXPECT_EQ(model.types(), (Texts{"Transpose", "Cast", "Mul", "Add", "Flatten", "Gemm", "Softmax"}));
  EXPECT_EQ(model.nodes.back().name, "probabilities/Softmax");
  EXPECT_TRUE(is_own_model(model.file));
}

TEST(OnnxModel, RawModelsEndInLogits) {
  const ReadModel model = exported(ending([](Graph& g, ValueId x) { return g.flatten(x); }), {.raw = true});
  EXPECT_EQ(model.outputs, (std::vector<ReadPort>{{"logits", 1, {-1, 5}}}));
  EXPECT_EQ(model.types().back(), "Gemm");
}

TEST(OnnxModel, RecognisesItsBeginnings) {
  EXPECT_TRUE(
      is_own_model("\x08\x08\x12\x0b"
                   "cifar-train and more"));
  EXPECT_TRUE(
      is_own_model("\x08\x08\x12\x0b"
                   "cif"));
  EXPECT_FALSE(is_own_model("\x08\x08\x12\x07pytorch"));
  EXPECT_FALSE(is_own_model("a text"));
}

TEST(OnnxModel, PixelsAreNormalised) {
  const ReadModel model = exported(ending([](Graph& g, ValueId x) { return g.flatten(x); }));
  EXPECT_EQ(model.nodes[0].integers.at("perm"), (Integers{0, 3, 1, 2}));
  EXPECT_EQ(model.nodes[1].integers.at("to"), Integers{1});
  EXPECT_EQ(elements<float>(model.tensors.at(model.node("Mul").inputs[1]).bytes), (Reals{1, 2, 3}));
  EXPECT_EQ(elements<float>(model.tensors.at(model.node("Add").inputs[1]).bytes), (Reals{4, 5, 6}));
  EXPECT_EQ(model.tensors.at(model.node("Add").inputs[1]).shape, (Integers{3, 1, 1}));
}

TEST(OnnxModel, ParametersHaveTheirNamesShapesAndBytes) {
  const Graph graph = build_graph(
      ending([](Graph& g, ValueId x) { return g.flatten(g.conv2d(x, "conv1", 4, 3, {.stride = 2, .pad = 1})); }),
      small());
  const Model model(graph, {.views = kPlain});
  std::vector<std::vector<float>> values;
  for (const Parameter& p : graph.parameters())
    values.emplace_back(static_cast<size_t>(p.layout.numel()), static_cast<float>(1 + values.size()));
  std::string file;
  model.write([&](size_t i) { return std::as_bytes(std::span(values[i])); },
              [&](std::span<const std::byte> b) { file.append(reinterpret_cast<const char*>(b.data()), b.size()); });
  const ReadModel read = read_model(file);
  for (size_t i = 0; i < values.size(); ++i) {
    const Parameter& p = graph.parameters()[i];
    const ReadTensor& tensor = read.tensors.at(p.name);
    EXPECT_EQ(tensor.shape, p.shape) << p.name;
    EXPECT_EQ(tensor.type, 1u);
    EXPECT_EQ(elements<float>(tensor.bytes), values[i]) << p.name;
  }
  EXPECT_EQ(read.tensors.at("conv1.weight").shape, (Integers{4, 3, 3, 3}));
  EXPECT_EQ(read.tensors.at("head.weight").shape, (Integers{5, 96}));
  const ReadNode& conv = read.node("Conv");
  EXPECT_EQ(conv.name, "conv1/Conv");
  EXPECT_EQ(conv.inputs, (Texts{"augmented/Add", "conv1.weight", "conv1.bias"}));
  EXPECT_EQ(conv.integers.at("strides"), (Integers{2, 2}));
  EXPECT_EQ(conv.integers.at("pads"), (Integers{1, 1, 1, 1}));
  EXPECT_EQ(conv.integers.at("kernel_shape"), (Integers{3, 3}));
  EXPECT_EQ(read.node("Gemm").inputs, (Texts{"conv1.flat/Flatten", "head.weight", "head.bias"}));
  EXPECT_EQ(read.node("Gemm").integers.at("transB"), Integers{1});
}

TEST(OnnxModel, ConvolutionsAndPoolings) {
  const ReadModel fused =
      exported(ending([](Graph& g, ValueId x) { return g.flatten(g.conv_relu_pool(x, "conv1", 4, 5)); }));
  EXPECT_EQ(types_between(fused), (Texts{"Conv", "Relu", "MaxPool", "Flatten", "Gemm"}));
  EXPECT_EQ(fused.node("MaxPool").integers.at("strides"), (Integers{2, 2}));
  EXPECT_EQ(fused.node("Conv").integers.at("pads"), (Integers{0, 0, 0, 0}));

  const ReadModel pools = exported(ending([](Graph& g, ValueId x) {
    return g.average_pool(g.max_pool(g.conv2d(x, "conv1", 4, 1, {.bias = false}), 3, {.stride = 2, .pad = 1}));
  }));
  EXPECT_EQ(types_between(pools), (Texts{"Conv", "MaxPool", "GlobalAveragePool", "Flatten", "Gemm"}));
  EXPECT_EQ(pools.node("Conv").inputs.size(), 2u);
  EXPECT_EQ(pools.node("MaxPool").integers.at("pads"), (Integers{1, 1, 1, 1}));
  EXPECT_EQ(pools.node("MaxPool").integers.at("kernel_shape"), (Integers{3, 3}));
}

TEST(OnnxModel, BatchNormsTakeTheRunningStatistics) {
  const ReadModel model = exported(ending([](Graph& g, ValueId x) {
    const ValueId h = g.conv2d(x, "conv1", 4, 1);
    return g.average_pool(g.batchnorm(g.batchnorm(h, "bn1"), "bn2", Activation::relu, h));
  }));
  EXPECT_EQ(types_between(model), (Texts{"Conv", "BatchNormalization", "BatchNormalization", "Add", "Relu",
                                         "GlobalAveragePool", "Flatten", "Gemm"}));
  const ReadNode& first = model.nodes[5];
  EXPECT_EQ(first.inputs, (Texts{"conv1/Conv", "bn1.weight", "bn1.bias", "bn1.running_mean", "bn1.running_var"}));
  EXPECT_EQ(first.reals.at("epsilon"), 1e-5F);
  EXPECT_FALSE(first.integers.contains("training_mode"));
  EXPECT_EQ(model.nodes[7].inputs, (Texts{"bn2/BatchNormalization", "conv1/Conv"}));
}

TEST(OnnxModel, LayerNormsAddTheResidualFirst) {
  const ReadModel model = exported(of_tokens([](Graph& g, ValueId x) {
    const ValueId first = g.layer_norm(x, "norm1", {.eps = 1e-6});
    const auto [sum, second] = g.add_layer_norm(first, x, "norm2");
    return g.add(sum, second);
  }));
  EXPECT_EQ(types_between(model), (Texts{"Reshape", "Transpose", "Reshape", "LayerNormalization", "Add",
                                         "LayerNormalization", "Add", "Gather", "Gemm"}));
  const ReadNode &first = model.nodes[7], &second = model.nodes[9], &sum = model.nodes[8];
  EXPECT_EQ(first.reals.at("epsilon"), 1e-6F);
  EXPECT_EQ(second.reals.at("epsilon"), 1e-5F);
  EXPECT_EQ(first.integers.at("axis"), Integers{-1});
  EXPECT_EQ(second.inputs, (Texts{sum.output, "norm2.weight", "norm2.bias"}));
  EXPECT_EQ(model.nodes[10].inputs, (Texts{sum.output, second.output}));
}

TEST(OnnxModel, GeluIsExact) {
  const ReadModel model = exported(
      ending([](Graph& g, ValueId x) { return g.linear(g.flatten(x), "fc", 8, {.activation = Activation::gelu}); }));
  EXPECT_EQ(types_between(model), (Texts{"Flatten", "Gemm", "Div", "Erf", "Add", "Mul", "Mul", "Gemm"}));
  EXPECT_EQ(elements<float>(model.tensors.at("fc/sqrt_2").bytes), Reals{std::numbers::sqrt2_v<float>});
  EXPECT_EQ(elements<float>(model.tensors.at("fc/half").bytes), Reals{0.5F});
  EXPECT_EQ(model.tensors.at("fc/half").shape, Integers{});
}

TEST(OnnxModel, LinearLayersOfTokensMultiplyByTheTransposedWeights) {
  const ReadModel model = exported(of_tokens([](Graph& g, ValueId x) {
    return g.linear(g.linear(x, "a", 7, {.bias = false}), "b", 6, {.activation = Activation::relu});
  }));
  EXPECT_EQ(types_between(model), (Texts{"Reshape", "Transpose", "Reshape", "Transpose", "MatMul", "Transpose",
                                         "MatMul", "Add", "Relu", "Gather", "Gemm"}));
  EXPECT_EQ(model.nodes[7].inputs, Texts{"a.weight"});
  EXPECT_EQ(model.nodes[8].inputs, (Texts{"patches/Reshape_2", "a/Transpose"}));
}

TEST(OnnxModel, PatchesAreInTheProgramsOrder) {
  const ReadModel model =
      exported(ending([](Graph& g, ValueId images) { return g.take_token(g.patches(images, 4, /*shift=*/1)); }));
  EXPECT_EQ(types_between(model),
            (Texts{"Pad", "Pad", "Pad", "Pad", "Concat", "Reshape", "Transpose", "Reshape", "Gather", "Gemm"}));
  // The image, then its copies that are moved to the right, left, down and up.
  const Texts copies = model.node("Concat").inputs;
  ASSERT_EQ(copies.size(), 5u);
  const std::vector<Integers> pads = {
      {0, 0, 0, 1, 0, 0, 0, -1}, {0, 0, 0, -1, 0, 0, 0, 1}, {0, 0, 1, 0, 0, 0, -1, 0}, {0, 0, -1, 0, 0, 0, 1, 0}};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(copies[i + 1], model.nodes[4 + i].output);
    EXPECT_EQ(elements<int64_t>(model.tensors.at(model.nodes[4 + i].inputs[1]).bytes), pads[i]);
  }
  EXPECT_EQ(elements<int64_t>(model.tensors.at("patches/grid").bytes), (Integers{0, 15, 2, 4, 3, 4}));
  EXPECT_EQ(model.nodes[10].integers.at("perm"), (Integers{0, 2, 4, 3, 5, 1}));
  EXPECT_EQ(elements<int64_t>(model.tensors.at("patches/tokens").bytes), (Integers{0, 6, 240}));
}

TEST(OnnxModel, TokensOfImagesWithAClassTokenForEach) {
  const ReadModel model = exported(ending([](Graph& g, ValueId images) {
    const ValueId x = g.conv2d(images, "proj", 16, 4, {.stride = 4});
    return g.take_token(g.tokens(x, {.class_token = "cls", .positions = "pos"}));
  }));
  EXPECT_EQ(types_between(model),
            (Texts{"Conv", "Reshape", "Transpose", "Shape", "Concat", "Expand", "Concat", "Add", "Gather", "Gemm"}));
  EXPECT_EQ(model.tensors.at("pos").shape, (Integers{1, 7, 16}));
  EXPECT_EQ(elements<int64_t>(model.tensors.at("tokens/pixels").bytes), (Integers{0, 16, -1}));
  EXPECT_EQ(model.node("Shape").integers, (std::map<std::string, Integers>{{"start", {0}}, {"end", {1}}}));
  EXPECT_EQ(model.node("Expand").inputs.front(), "cls");
  EXPECT_EQ(model.nodes[10].inputs.front(), model.node("Expand").output);  // it is the first token
}

TEST(OnnxModel, AttentionIsScaledMaskedAndJoined) {
  const auto network = [](const AttentionOptions& options) {
    return of_tokens([options](Graph& g, ValueId x) {
      for (const std::string name : {"a", "b"}) x = g.attention(g.linear(x, name, 24), 2, options);
      return x;
    });
  };
  const ReadModel plain = exported(network({}));
  EXPECT_EQ(std::ranges::count(plain.types(), "Where"), 0);
  EXPECT_EQ(elements<float>(plain.tensors.at("a.attention/scale").bytes), Reals{0.5F});
  EXPECT_EQ(elements<int64_t>(plain.tensors.at("a.attention/by_head").bytes), (Integers{0, 6, 3, 2, 4}));
  EXPECT_EQ(elements<int64_t>(plain.tensors.at("a.attention/joined").bytes), (Integers{0, 6, 8}));

  const ReadModel masked = exported(of_tokens([](Graph& g, ValueId x) {
    for (const std::string name : {"a", "b"})
      x = g.attention(g.linear(x, name, 24), 2, {.temperature_name = name + ".temperature", .mask_diagonal = true});
    return x;
  }));
  EXPECT_EQ(std::ranges::count(masked.types(), "Where"), 2);
  EXPECT_EQ(std::ranges::count(masked.types(), "Exp"), 2);
  EXPECT_EQ(masked.tensors.at("a.temperature").shape, Integers{});
  const ReadNode& mask = *std::ranges::find(masked.nodes, "Where", &ReadNode::type);
  EXPECT_EQ(mask.inputs, (Texts{"a.attention/Equal", "a.attention/masked", "a.attention/Mul"}));
  EXPECT_EQ(masked.tensors.at("a.attention/rows").shape, (Integers{6, 1}));
  EXPECT_EQ(masked.tensors.at("a.attention/columns").shape, (Integers{1, 6}));
  EXPECT_EQ(elements<int64_t>(masked.tensors.at("a.attention/rows").bytes), (Integers{0, 1, 2, 3, 4, 5}));
  EXPECT_TRUE(std::isinf(elements<float>(masked.tensors.at("a.attention/masked").bytes).at(0)));
}

TEST(OnnxModel, SequencePoolsWeighTokens) {
  const ReadModel model = exported(ending([](Graph& g, ValueId images) {
    const ValueId x = g.patches(images, 4);
    return g.sequence_pool(x, g.linear(x, "score", 1));
  }));
  EXPECT_EQ(model.nodes[model.nodes.size() - 5].integers.at("axis"), Integers{1});
  EXPECT_EQ(model.node("ReduceSum").integers.at("keepdims"), Integers{0});
}

TEST(OnnxModel, ViewsAreFurtherImagesOfTheBatch) {
  const std::vector<View> views = {{{}, 0.5F}, {{.dy = 1, .dx = -2, .flip = 1}, 0.5F}};
  const ReadModel model =
      exported(ending([](Graph& g, ValueId x) { return g.flatten(x); }), {.views = views, .raw = true});
  EXPECT_EQ(model.types(), (Texts{"Transpose", "Pad", "Slice", "Concat", "Cast", "Mul", "Add", "Flatten", "Gemm",
                                  "Reshape", "Mul", "ReduceSum"}));
  EXPECT_EQ(elements<int64_t>(model.tensors.at("images/pads").bytes), (Integers{0, 0, -1, 2, 0, 0, 1, -2}));
  EXPECT_EQ(elements<int64_t>(model.tensors.at("logits/by_view").bytes), (Integers{2, -1, 5}));
  EXPECT_EQ(elements<float>(model.tensors.at("logits/view_weights").bytes), (Reals{0.5F, 0.5F}));
}

/// The message and exit code of a model that is refused.
std::pair<ExitCode, std::string> refusal(const Graph& graph) {
  try {
    Model(graph, {.views = kPlain});
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  return {ExitCode::done, ""};
}

TEST(OnnxModel, RefusesWhatOnnxHasNot) {
  const auto [fff, of_fff] = refusal(build_graph(
      of_tokens([](Graph& g, ValueId x) { return g.fast_feed_forward(x, "fff", 48, {.count = 1, .depth = 2}); }),
      small()));
  EXPECT_EQ(fff, ExitCode::usage);
  EXPECT_NE(of_fff.find("fast feedforward layer (model.ffn: fff)"), std::string::npos) << of_fff;

  const auto [moe, of_moe] = refusal(build_graph(ending([](Graph& g, ValueId images) {
                                                   const ValueId x = g.linear(g.flatten(images), "fc", 8);
                                                   const ValueId gate = g.linear(x, "gate", 2, {.f32 = true});
                                                   const Routing routing = g.route(gate, {.capacity = 2});
                                                   return g.combine(g.dispatch(x, routing), routing);
                                                 }),
                                                 small()));
  EXPECT_EQ(moe, ExitCode::usage);
  EXPECT_NE(of_moe.find("mixture of experts"), std::string::npos) << of_moe;
}

TEST(OnnxModel, RefusesTwoGibibytes) {
  const auto wide = [](int64_t width) {
    return build_graph(ending([width](Graph& g, ValueId x) {
                         return g.linear(g.linear(g.flatten(x), "a", width), "b", width, {.bias = false});
                       }),
                       small());
  };
  const Graph below = wide(23000);
  EXPECT_LE(Model(below, {.views = kPlain}).bytes(), kMostBytes);
  const auto [code, what] = refusal(wide(23200));
  EXPECT_EQ(code, ExitCode::usage);
  EXPECT_NE(what.find("2 GiB"), std::string::npos) << what;
}

TEST(OnnxModel, OrdersOfElementsThatOnnxHasNotAreBugs) {
  const auto [flat, of_flat] = refusal(build_graph(
      ending([](Graph& g, ValueId x) { return g.activate(g.flatten(g.conv2d(x, "c", 4, 1)), Activation::relu); }),
      small()));
  EXPECT_EQ(flat, ExitCode::bug);
  EXPECT_NE(of_flat.find("flattened image"), std::string::npos) << of_flat;
  EXPECT_EQ(refusal(build_graph(ending([](Graph& g, ValueId x) { return g.flatten(x); }), small(Mode::train))).first,
            ExitCode::bug);
}

}  // namespace
}  // namespace ct::onnx
