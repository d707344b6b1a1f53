// Whole networks against a scalar reference in double: the loss, and every parameter's gradient.
#include "model/network.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "reference/airbench.h"
#include "reference/resnet.h"
#include "reference/resnet9.h"

namespace ct {
namespace {

/// Rounding of a network's gradient: each of its sums (`longest` terms at most) adds some, relative to the tensor's
/// largest element.
void expect_gradients(const reference::Parameters<double>& found, const reference::Parameters<double>& expected,
                      double longest) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(found[i].size(), expected[i].size());
    double largest = 0;
    for (const double g : expected[i]) largest = std::max(largest, std::abs(g));
    EXPECT_GT(largest, 0);
    for (size_t j = 0; j < found[i].size(); ++j)
      ASSERT_NEAR(found[i][j], expected[i][j], (4 + 2 * std::sqrt(longest)) * kEps * largest)
          << "element " << j << " of parameter " << i;
  }
}

TEST(Reference, CnnGradientIsTheDerivativeOfItsLoss) {
  Network network("cnn", 3, kSgd, 0);
  const reference::Batch batch = network.feed(0);
  const auto params = network.parameters();
  reference::Parameters<double> gradients;
  reference::cnn_gradient(params, batch, gradients);
  reference::Parameters<std::complex<double>> point;
  for (const auto& p : params) point.emplace_back(p.begin(), p.end());
  for (size_t i = 0; i < params.size(); ++i)
    for (size_t j = 0; j < params[i].size(); j += 1 + params[i].size() / 3) {
      const auto kept = point[i][j];
      point[i][j] += std::complex<double>(0, reference::kComplexStep);
      const double derivative = reference::cnn_forward(point, batch).loss.imag() / reference::kComplexStep;
      point[i][j] = kept;
      EXPECT_NEAR(derivative, gradients[i][j], 1e-12) << "element " << j << " of parameter " << i;
    }
}

TEST(Network, CnnGradientIsTheReferences) {
  for (const char* model : {"cnn", "cnn_plain"})
    for (const int64_t n : {1, 4, 17}) {
      SCOPED_TRACE(testing::Message() << model << " batch " << n);
      Network network(model, n, kSgd, 0);
      const reference::Batch batch = network.feed(7);
      network.micro_step();
      reference::Parameters<double> expected;
      const double loss = reference::cnn_gradient(network.parameters(), batch, expected);
      EXPECT_NEAR(network.loss(), loss, 8 * kEps * loss);
      expect_gradients(network.gradients(), expected, static_cast<double>(n) * 28 * 28);
    }
}

TEST(Network, LinearGradientIsTheComplexStepOfItsLoss) {
  constexpr int64_t kN = 3;
  Network network("linear", kN, kSgd, 0);
  const reference::Batch batch = network.feed(1);
  network.micro_step();
  const auto params = network.parameters(), gradients = network.gradients();
  reference::Parameters<std::complex<double>> point;
  for (const auto& p : params) point.emplace_back(p.begin(), p.end());
  const auto mean_loss = [&] {
    const std::vector<std::complex<double>> x(batch.images.begin(), batch.images.end());
    const auto z = reference::linear(kN, 3072, 10, x, point[0], point[1]);
    std::complex<double> mean = 0;
    for (int64_t i = 0; i < kN; ++i)
      mean += reference::softmax_cross_entropy(
                  std::vector<std::complex<double>>(z.begin() + 10 * i, z.begin() + 10 * (i + 1)),
                  batch.labels[static_cast<size_t>(i)], 0) /
              static_cast<double>(kN);
    return mean;
  };
  EXPECT_NEAR(network.loss(), mean_loss().real(), 8 * kEps * mean_loss().real());
  for (size_t i = 0; i < params.size(); ++i)
    for (size_t j = 0; j < params[i].size(); j += 1 + params[i].size() / 97) {
      const auto kept = point[i][j];
      point[i][j] += std::complex<double>(0, reference::kComplexStep);
      // Logits are sums of 3,073 terms: their rounding is the gradient's.
      EXPECT_NEAR(gradients[i][j], mean_loss().imag() / reference::kComplexStep, (4 + 2 * std::sqrt(3073)) * kEps);
      point[i][j] = kept;
    }
}

TEST(Network, CnnEqualsItsPlainForm) {
  Network fused("cnn", 4, kSgd, 0.01), plain("cnn_plain", 4, kSgd, 0.01);
  ASSERT_EQ(fused.parameters(), plain.parameters());
  constexpr int kSteps = 20;
  for (int step = 0; step < kSteps; ++step) {
    fused.feed(static_cast<uint64_t>(step));
    plain.feed(static_cast<uint64_t>(step));
    const double a = fused.step(), b = plain.step();
    // A step's gradient is off by the roundings of sums of up to 4*28*28 terms, and steps add up.
    ASSERT_NEAR(a, b, (step + 1) * (4 + 2 * std::sqrt(4.0 * 28 * 28)) * kEps * b) << "step " << step;
  }
  EXPECT_NE(fused.parameters(), Network("cnn", 4, kSgd, 0).parameters());
}

const reference::Resnet kNarrow{.n = 3, .side = 8, .width = 4, .classes = 10, .blocks = {1, 1}};
ValueId narrow_resnet(Graph& g, ValueId images, int classes) {
  return resnet(g, images, classes, {{1, 1}}, {.width = 4});
}

const reference::Resnet kBottlenecks{
    .n = 3, .side = 8, .width = 4, .classes = 10, .blocks = {1, 2}, .bottlenecks = true};
ValueId narrow_bottlenecks(Graph& g, ValueId images, int classes) {
  return resnet(g, images, classes, {{1, 2}, ResnetBlocks::bottleneck}, {.width = 4});
}

/// An odd side, so that the stem's windows hang over the edge: 21 pixels, 11 after the convolution, 6 after the
/// pooling.
const reference::Resnet kLargeStem{.n = 3, .side = 21, .width = 4, .classes = 10, .blocks = {1, 1}, .large_stem = true};
ValueId narrow_with_large_stem(Graph& g, ValueId images, int classes) {
  return resnet(g, images, classes, {{1, 1}}, {.stem = Stem::imagenet, .width = 4});
}

/// The loss of a narrow network at its parameters, any of which may have been moved by a complex step.
std::complex<double> narrow_loss(const reference::Resnet& net, const Graph& graph,
                                 const reference::Parameters<std::complex<double>>& point,
                                 const reference::Batch& batch) {
  using Complex = std::complex<double>;
  reference::NamedParameters<Complex> named;
  for (size_t i = 0; i < point.size(); ++i) named[graph.parameters()[i].name] = point[i];
  const auto images = reference::to_channels_last(batch.images, net.n, 3, net.side * net.side);
  const std::vector<Complex> x(images.begin(), images.end());
  if (named.contains("whiten.weight")) return airbench_loss(net, named, x, batch.labels);
  return named.contains("prep.conv.weight") ? resnet9_loss(net, named, x, batch.labels)
                                            : resnet_loss(net, named, x, batch.labels);
}

void expect_gradient_of_loss(const reference::Resnet& net, const Builder& model) {
  Network network(model, net.n, kSgd, 0, 42, net.side);
  const reference::Batch batch = network.feed(1);
  network.micro_step();
  const auto params = network.parameters(), gradients = network.gradients();
  reference::Parameters<std::complex<double>> point;
  for (const auto& p : params) point.emplace_back(p.begin(), p.end());
  const double loss = narrow_loss(net, network.graph(), point, batch).real();
  EXPECT_NEAR(network.loss(), loss, 32 * kEps * loss);
  for (size_t i = 0; i < params.size(); ++i) {
    const Parameter& parameter = network.graph().parameters()[i];
    if (parameter.statistic) continue;
    double largest = 0;
    for (const double g : gradients[i]) largest = std::max(largest, std::abs(g));
    EXPECT_GT(largest, 0) << parameter.name;
    for (size_t j = 0; j < params[i].size(); j += 1 + params[i].size() / 40) {
      const auto kept = point[i][j];
      point[i][j] += std::complex<double>(0, reference::kComplexStep);
      const double derivative = narrow_loss(net, network.graph(), point, batch).imag() / reference::kComplexStep;
      point[i][j] = kept;
      // A dozen layers deep, each of which normalises what the last has rounded; sums over all pixels of a layer.
      const auto terms = static_cast<double>(net.n * (net.large_stem ? 11 * 11 : net.side * net.side));
      EXPECT_NEAR(gradients[i][j], derivative, 12 * (4 + 2 * std::sqrt(terms)) * kEps * largest)
          << parameter.name << " element " << j;
    }
  }
}

TEST(Network, ResnetGradientIsTheComplexStepOfItsLoss) { expect_gradient_of_loss(kNarrow, narrow_resnet); }
TEST(Network, GradientOfBottlenecksIsTheComplexStepOfTheirLoss) {
  expect_gradient_of_loss(kBottlenecks, narrow_bottlenecks);
}
TEST(Network, GradientWithTheLargeStemIsTheComplexStepOfItsLoss) {
  expect_gradient_of_loss(kLargeStem, narrow_with_large_stem);
}
TEST(Network, GradientOfResnet9IsTheComplexStepOfItsLoss) {
  const reference::Resnet narrow{.n = 3, .side = 16, .width = 2, .classes = 10};
  expect_gradient_of_loss(narrow, find_model({.name = "resnet9", .resnet9 = {.width = narrow.width}}));
}

TEST(Network, GradientOfAirbenchIsTheComplexStepOfItsLoss) {
  const reference::Resnet narrow{.n = 3, .side = 24, .width = 2, .classes = 10};
  expect_gradient_of_loss(narrow, find_model({.name = "airbench", .airbench = {.width = narrow.width}}));
}

/// What bf16 keeps of a direction: the cosine between the gradients of both precisions.
TEST(Network, Bf16GradientsPointTheSameWay) {
  for (const Builder& model : {Builder(narrow_resnet), Builder(narrow_with_large_stem), Builder(cnn)}) {
    Network exact(model, 16, kSgd, 0, 42, 32), half(model, 16, kSgd, 0, 42, 32, DType::bf16);
    exact.feed(5), half.feed(5);
    exact.micro_step(), half.micro_step();
    EXPECT_NE(half.loss(), exact.loss());
    const auto a = exact.gradients(), b = half.gradients();
    double ab = 0, aa = 0, bb = 0;
    for (size_t i = 0; i < a.size(); ++i)
      for (size_t j = 0; j < a[i].size() && !exact.graph().parameters()[i].statistic; ++j)
        ab += a[i][j] * b[i][j], aa += a[i][j] * a[i][j], bb += b[i][j] * b[i][j];
    EXPECT_GT(ab / std::sqrt(aa * bb), 0.98);
  }
}

TEST(Network, LearnsInBothPrecisions) {
  for (const DType compute : {DType::f32, DType::bf16}) {
    Network network(narrow_resnet, 8, kSgd, 0.05, 42, 8, compute);
    network.feed(0);
    const double first = network.step();
    double last = first;
    for (int step = 0; step < 30; ++step) last = network.step();
    EXPECT_LT(last, first / 4) << name_of(compute);
  }
}

TEST(Network, RunningStatisticsFollowTheBatches) {
  Network network(narrow_resnet, 4, kSgd, 0, 42, 8);
  network.feed(0);
  const auto before = network.parameters();
  network.step();
  const auto after = network.parameters(), batch = network.gradients();
  for (size_t i = 0; i < before.size(); ++i) {
    if (!network.graph().parameters()[i].statistic) continue;
    for (size_t j = 0; j < before[i].size(); ++j)
      EXPECT_NEAR(after[i][j], 0.9 * before[i][j] + 0.1 * batch[i][j], 4 * kEps * (1 + std::abs(batch[i][j])));
    EXPECT_NE(after[i], before[i]);
  }
}

Graph resnet_graph(const std::string& name, const ResnetKeys& keys = {}, int classes = 10) {
  return build_graph(find_model({.name = name, .resnet = keys}),
                     {.batch = 2, .classes = classes, .scale = {1, 1, 1}, .shift = {0, 0, 0}});
}

using Shapes = std::map<std::string, std::vector<int64_t>>;

/// The state_dict of torchvision's ResNet, as its structure makes it, but for the counters of batches.
Shapes torchvisions(const std::vector<int>& blocks, bool bottlenecks, int64_t classes) {
  Shapes shapes;
  const auto conv = [&](const std::string& name, int64_t in, int64_t out, int64_t kernel) {
    shapes[name + ".weight"] = {out, in, kernel, kernel};
  };
  const auto norm = [&](const std::string& name, int64_t channels) {
    for (const char* of : {".weight", ".bias", ".running_mean", ".running_var"}) shapes[name + of] = {channels};
  };
  conv("conv1", 3, 64, 7);
  norm("bn1", 64);
  int64_t in = 64;
  for (size_t layer = 0; layer < blocks.size(); ++layer)
    for (int block = 0; block < blocks[layer]; ++block) {
      const std::string name = str("layer", layer + 1, ".", block, ".");
      const int64_t width = 64 << layer, out = bottlenecks ? 4 * width : width;
      conv(name + "conv1", in, width, bottlenecks ? 1 : 3);
      norm(name + "bn1", width);
      conv(name + "conv2", width, width, 3);
      norm(name + "bn2", width);
      if (bottlenecks) {
        conv(name + "conv3", width, out, 1);
        norm(name + "bn3", out);
      }
      if (block == 0 && (layer > 0 || in != out)) {
        conv(name + "downsample.0", in, out, 1);
        norm(name + "downsample.1", out);
      }
      in = out;
    }
  shapes["fc.weight"] = {classes, in};
  shapes["fc.bias"] = {classes};
  return shapes;
}

TEST(Resnets, AreTorchvisions) {
  struct Size {
    const char* name;
    std::vector<int> blocks;
    bool bottlenecks;
    int64_t large, small;  // parameters: the large stem and 1000 classes, the small one and 10
  };
  const Size sizes[] = {{"resnet18", {2, 2, 2, 2}, false, 11689512, 11173962},
                        {"resnet34", {3, 4, 6, 3}, false, 21797672, 21282122},
                        {"resnet50", {3, 4, 6, 3}, true, 25557032, 23520842},
                        {"resnet101", {3, 4, 23, 3}, true, 44549160, 42512970},
                        {"resnet152", {3, 8, 36, 3}, true, 60192808, 58156618}};
  for (const Size& size : sizes) {
    SCOPED_TRACE(size.name);
    const Graph large = resnet_graph(size.name, {.stem = Stem::imagenet}, 1000), small = resnet_graph(size.name);
    EXPECT_EQ(large.parameter_count(), size.large);
    EXPECT_EQ(small.parameter_count(), size.small);
    Shapes expected = torchvisions(size.blocks, size.bottlenecks, 1000), found;
    int unit = 0;
    for (const Parameter& p : large.parameters()) {
      EXPECT_TRUE(found.emplace(p.name, p.shape).second) << p.name;
      EXPECT_TRUE(p.unit == unit || p.unit == unit + 1) << p.name;  // one unit after the other
      unit = p.unit;
      EXPECT_EQ(p.statistic, p.name.find(".running_") != std::string::npos) << p.name;
    }
    EXPECT_EQ(found, expected);
    size_t blocks = 0;
    for (const int count : size.blocks) blocks += static_cast<size_t>(count);
    EXPECT_EQ(large.units().size(), 2 + blocks);  // the stem, the blocks, the last layer

    expected = torchvisions(size.blocks, size.bottlenecks, 10);
    expected["conv1.weight"] = {64, 3, 3, 3};
    found.clear();
    for (const Parameter& p : small.parameters()) found[p.name] = p.shape;
    EXPECT_EQ(found, expected);
  }
}

TEST(Resnets, TakeTheStemThatSuitsTheImages) {
  const auto kernel = [](int64_t height, int64_t width, Stem stem = Stem::automatic) {
    const Graph g = build_graph(
        find_model({.name = "resnet18", .resnet = {.stem = stem, .width = 8}}),
        {.batch = 1, .height = height, .width = width, .scale = {1, 1, 1}, .shift = {0, 0, 0}, .mode = Mode::evaluate});
    EXPECT_EQ(g.parameters()[0].shape[0], 8);
    return g.parameters()[0].shape[3];
  };
  EXPECT_EQ(kernel(63, 200), 3);
  EXPECT_EQ(kernel(64, 64), 7);
  EXPECT_EQ(kernel(224, 224), 7);
  EXPECT_EQ(kernel(224, 224, Stem::cifar), 3);
  EXPECT_EQ(kernel(32, 32, Stem::imagenet), 7);
  EXPECT_EQ(kernel(1, 1, Stem::imagenet), 7);  // one pixel is left everywhere
}

TEST(Resnets, MayBeginAsIdentities) {
  for (const auto& [name, last] : {std::pair{"resnet18", ".bn2.weight"}, {"resnet50", ".bn3.weight"}})
    for (const bool zero : {false, true}) {
      const Graph graph = resnet_graph(name, {.width = 2, .zero_init_residual = zero});
      int zeros = 0;
      for (size_t i = 0; i < graph.parameters().size(); ++i) {
        const std::string& of = graph.parameters()[i].name;
        if (!of.ends_with(".weight") || of.find("bn") == std::string::npos) continue;
        const bool is_zero = initial_values(graph, i, 1)[0] == 0;
        EXPECT_EQ(is_zero, zero && of.ends_with(last)) << of;
        zeros += is_zero;
      }
      EXPECT_EQ(zeros, zero ? std::string(name) == "resnet18" ? 8 : 16 : 0);
    }
}

TEST(Resnet9, TakesImagesOfAnySize) {
  for (const auto& [width, height, images] :
       {std::tuple{64, 32, 32}, {32, 32, 32}, {2, 28, 28}, {2, 3, 50}, {2, 1, 1}}) {
    const Graph g =
        build_graph(find_model({.name = "resnet9", .resnet9 = {.width = width}}),
                    {.batch = 2, .height = height, .width = images, .scale = {1, 1, 1}, .shift = {0, 0, 0}});
    if (width != 2) {
      EXPECT_EQ(g.parameter_count(), width == 64 ? 6573130 : 1646122);
    }
    EXPECT_EQ(g.units().size(), 5);  // the first convolution, three layers, the last one
  }
}

TEST(Airbench, TakesImagesOfAnySize) {
  for (const auto& [width, height, images] : {std::tuple{64, 32, 32}, {2, 28, 28}, {2, 3, 50}, {2, 1, 1}}) {
    const Graph g =
        build_graph(find_model({.name = "airbench", .airbench = {.width = width}}),
                    {.batch = 2, .height = height, .width = images, .scale = {1, 1, 1}, .shift = {0, 0, 0}});
    if (width == 64) {
      EXPECT_EQ(g.parameter_count(), 1972792);
    }
    EXPECT_EQ(g.units().size(), 5);  // the first convolution, three groups, the last layer
  }
}

/// Whatever the network and the size of its images; an evaluation normalises by what was learnt.
TEST(BatchNorms, OfOneValueAChannelAreRefusedByName) {
  const auto build = [](const Model& model, int64_t side, int64_t batch, Mode mode) {
    build_graph(find_model(model),
                {.batch = batch, .height = side, .width = side, .scale = {1, 1, 1}, .shift = {0, 0, 0}, .mode = mode});
  };
  const ResnetKeys large{.stem = Stem::imagenet, .width = 2};
  for (const auto& [model, side, layer] :
       {std::tuple{Model{.name = "resnet18", .resnet = large}, 32, "layer4.0.bn1"},
        {Model{.name = "resnet50", .resnet = large}, 32, "layer4.0.bn2"},
        {Model{.name = "resnet18", .resnet = {.stem = Stem::cifar, .width = 2}}, 8, "layer4.0.bn1"},
        {Model{.name = "resnet9", .resnet9 = {.width = 2}}, 8, "layer3"},
        {Model{.name = "airbench", .airbench = {.width = 2}}, 16, "layers.3.norm1"}}) {
    try {
      build(model, side, 1, Mode::train);
      ADD_FAILURE() << model.name;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::usage);
      EXPECT_NE(std::string(error.what()).find(str("batch norm ", layer)), std::string::npos) << error.what();
    }
    build(model, side, 2, Mode::train);
    build(model, 2 * side, 1, Mode::train);
    build(model, side, 1, Mode::evaluate);
  }
}

TEST(Airbench, ConvolutionsMayBeginByHandingTheirInputOn) {
  const Graph graph = build_graph(find_model({.name = "airbench", .airbench = {.width = 4}}),
                                  {.batch = 1, .scale = {1, 1, 1}, .shift = {0, 0, 0}});
  for (size_t i = 0; i < graph.parameters().size(); ++i) {
    const Parameter& p = graph.parameters()[i];
    if (p.shape.size() != 4) continue;
    const std::vector<float> values = initial_values(graph, i, 1);
    const auto in = static_cast<size_t>(p.shape[1]), out = static_cast<size_t>(p.shape[0]);
    const auto taps = static_cast<size_t>(p.shape[2] * p.shape[3]);
    const bool first = p.name.starts_with("whiten.");
    for (size_t k = 0; k < out; ++k) {
      const std::span filter = std::span(values).subspan(k * in * taps, in * taps);
      const auto others = std::ranges::count_if(filter, [](float v) { return v != 0; });
      EXPECT_EQ(others == 1 && filter[(k % in) * taps + taps / 2] == 1, !first && k < in) << p.name << " " << k;
    }
  }
}

TEST(Initialize, NormalWeightsHaveKaimingsSpreadAndStatisticsAreNeutral) {
  const Graph graph = resnet_graph("resnet18");
  for (size_t i = 0; i < graph.parameters().size(); ++i) {
    const Parameter& p = graph.parameters()[i];
    const std::vector<float> values = initial_values(graph, i, 1);
    double sum = 0, squares = 0;
    for (const double v : values) sum += v, squares += v * v;
    const auto n = static_cast<double>(values.size());
    if (p.shape.size() == 4) {
      const double spread = std::sqrt(2.0 / static_cast<double>(p.shape[0] * p.shape[2] * p.shape[3]));
      EXPECT_NEAR(sum / n, 0, 5 * spread / std::sqrt(n)) << p.name;
      EXPECT_NEAR(std::sqrt(squares / n), spread, 5 * spread / std::sqrt(2 * n)) << p.name;
    } else if (p.name.find("bn") != std::string::npos || p.name.find("downsample") != std::string::npos) {
      const bool one = p.name.ends_with(".weight") || p.name.ends_with("_var");
      EXPECT_EQ(sum, one ? n : 0) << p.name;
      EXPECT_EQ(squares, sum) << p.name;
    }
  }
}

TEST(Initialize, DrawsWithinPyTorchsBoundsAndBySeed) {
  const auto weights = [](uint64_t seed) { return Network("cnn", 1, kSgd, 0, seed).parameters(); };
  const auto a = weights(1);
  EXPECT_EQ(a, weights(1));
  EXPECT_NE(a, weights(2));
  const double fan_in[] = {75, 75, 150, 150, 400, 400, 120, 120, 84, 84};
  for (size_t i = 0; i < a.size(); ++i) {
    double largest = 0;
    for (const double w : a[i]) largest = std::max(largest, std::abs(w));
    EXPECT_LE(largest, 1 / std::sqrt(fan_in[i]) * (1 + kEps));
    EXPECT_GT(largest, 0.5 / std::sqrt(fan_in[i]));
  }
}

TEST(Models, AreFoundByName) {
  for (const std::string& name : model_names()) EXPECT_TRUE(find_model({.name = name})) << name;
  try {
    find_model({.name = "resnet"});
    FAIL();
  } catch (const std::exception& e) {
    EXPECT_NE(std::string(e.what()).find("cnn_plain"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace ct
