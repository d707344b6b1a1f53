// The models by name. A model is a function that writes operations into a graph.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace ct {

/// The network of the PyTorch and DeepSpeed CIFAR-10 tutorials: 62,006 parameters.
ValueId cnn(Graph& g, ValueId images, int classes);
/// cnn()'s network from plain operations, one layer each: what cnn() must equal.
ValueId cnn_plain(Graph& g, ValueId images, int classes);
/// One linear layer on the pixels.
ValueId linear_model(Graph& g, ValueId images, int classes);

/// Residual networks: so many blocks in each layer, whose widths double from `width` on. A basic block has two 3x3
/// convolutions, a bottleneck a 1x1, a 3x3 and a 1x1 of four times the width.
struct ResnetSize {
  int width;
  std::vector<int> blocks;
  enum Block : uint8_t { basic, bottleneck } block = basic;
};
ValueId resnet(Graph& g, ValueId images, int classes, const ResnetSize& size);
/// ResNets for small images. With 10 classes they have 11,173,962, 21,282,122, 23,520,842, 42,512,970 and 58,156,618
/// parameters.
ValueId resnet18(Graph& g, ValueId images, int classes);
ValueId resnet34(Graph& g, ValueId images, int classes);
ValueId resnet50(Graph& g, ValueId images, int classes);
ValueId resnet101(Graph& g, ValueId images, int classes);
ValueId resnet152(Graph& g, ValueId images, int classes);

std::vector<std::string> model_names();
/// Throws ExitCode::usage for a name that is not among them.
Builder find_model(std::string_view name);

/// Error(usage) naming both shapes unless the model takes images of that shape; most take any.
void require_fitting(std::string_view name, int64_t channels, int64_t height, int64_t width);

/// How a parameter or statistic begins, in PyTorch's order: drawn from PyTorch's distributions and keyed by (seed,
/// parameter, element).
std::vector<float> initial_values(const Graph& graph, size_t parameter, uint64_t seed);

}  // namespace ct
