// The models by name. A model is a function that writes operations into a graph.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "plan/flat.h"

namespace ct {

/// The network of the PyTorch and DeepSpeed CIFAR-10 tutorials: 62,006 parameters.
ValueId cnn(Graph& g, ValueId images, int classes);
/// The same network from plain operations, one layer each: what cnn() must equal.
ValueId cnn_plain(Graph& g, ValueId images, int classes);
/// One linear layer on the pixels.
ValueId linear_model(Graph& g, ValueId images, int classes);

std::vector<std::string> model_names();
/// Throws ExitCode::usage for a name that is not among them.
Builder find_model(std::string_view name);

/// Initial parameters, drawn in PyTorch's default distributions and keyed by (seed, parameter, element).
void initialize(const Graph& graph, const FlatLayout& flat, uint64_t seed, std::span<float> params);

}  // namespace ct
