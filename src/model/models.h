// The models by name. A model is a function that writes operations into a graph.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/config_key.h"
#include "graph/graph.h"
#include "model/airbench.h"
#include "model/cct.h"
#include "model/cnn_moe.h"
#include "model/resnet.h"
#include "model/resnet9.h"
#include "model/vit.h"
#include "model/vit_tiny.h"

namespace ct {

/// The network of the PyTorch and DeepSpeed CIFAR-10 tutorials: 62,006 parameters.
ValueId cnn(Graph& g, ValueId images, int classes);
/// cnn()'s network from separate operations, one for each layer; tests compare cnn() with it.
ValueId cnn_plain(Graph& g, ValueId images, int classes);
/// One linear layer on the pixels.
ValueId linear_model(Graph& g, ValueId images, int classes);

/// The model of a configuration: its name, and the keys of all models with keys.
struct Model {
  std::string name = "cnn";
  CnnMoeKeys cnn_moe;
  ResnetKeys resnet;
  Resnet9Keys resnet9;
  AirbenchKeys airbench;
  VitTinyKeys vit_tiny;
  VitKeys vit;
  CctKeys cct;

  /// The keys of the named model, bound to this object.
  std::vector<ConfigKey> keys();
  /// A rule between these keys that does not hold.
  std::optional<ConfigFault> fault() const;
  /// Sets the keys that the program chooses, for images of that size.
  void settle(int64_t height, int64_t width) { resnet.settle(height, width); }
  /// Sets them to the values of another, settled model.
  void settle_like(const Model& other) {
    if (resnet.stem == Stem::automatic) resnet.stem = other.resnet.stem;
  }
};

std::vector<std::string> model_names();
/// Throws ExitCode::usage for a name that is not among them.
Builder find_model(const Model& model);

/// Throws Error(usage) with both shapes unless the model accepts images of that shape; most accept any.
void require_fitting(const Model& model, int64_t channels, int64_t height, int64_t width);
/// A side of square images that the model accepts, for inspecting its graph.
int64_t some_side(const Model& model);

/// The initial values of a parameter or statistic, in PyTorch's order: drawn from PyTorch's distributions and keyed by
/// (seed, parameter, element).
std::vector<float> initial_values(const Graph& graph, size_t parameter, uint64_t seed);

}  // namespace ct
