#include "graph/autodiff.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace ct {
namespace {

ValueId small_net(Graph& g, ValueId images, int classes) {
  const ValueId h = g.linear(g.flatten(images), "hidden", 20, Activation::relu);
  return g.linear(h, "out", classes);
}

ValueId residual_net(Graph& g, ValueId images, int classes) {
  const ValueId h = g.linear(g.flatten(images), "a", 32);
  const ValueId k = g.linear(g.relu(h), "b", 32);
  return g.linear(g.add(h, k), "c", classes);
}

InputSpec spec(Mode mode) { return {.batch = 2, .classes = 10, .scale = {1, 1, 1}, .shift = {0, 0, 0}, .mode = mode}; }

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
  for (const Builder& model : {Builder(small_net), Builder(residual_net)}) {
    const Graph g = build_graph(model, spec(Mode::train));
    std::vector<bool> written(g.values().size());
    for (size_t i = 0; i < written.size(); ++i) written[i] = g.values()[i].home == Home::input;
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

TEST(Autodiff, EvaluationHasNoBackwardPass) {
  const Graph g = build_graph(small_net, spec(Mode::evaluate));
  EXPECT_EQ(count<LinearGradW>(g), 0);
  for (const Parameter& p : g.parameters()) EXPECT_EQ(p.grad, kNone);
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
  for (const Layout& layout : {Layout::vector(7), Layout::matrix(3, 20), Layout::convolution(4, 3, 5),
                               Layout::matrix_of_flattened(3, 16, 5, 5)}) {
    std::vector<float> torch(static_cast<size_t>(layout.numel())), back(torch.size());
    for (size_t i = 0; i < torch.size(); ++i) torch[i] = static_cast<float>(i + 1);
    std::vector<float> storage(static_cast<size_t>(layout.stored), -1.0f);
    layout.from_torch(torch, storage);
    layout.to_torch(storage, back);
    EXPECT_EQ(torch, back);
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
