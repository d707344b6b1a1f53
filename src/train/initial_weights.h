// --init: the weights that a run begins with, whoever wrote them.
#pragma once

#include <string>
#include <vector>

#include "train/weights.h"

namespace ct {

/// What of a file's weights a model does not begin with as they are.
struct InitOptions {
  bool reset_head = false;        // the last layer begins anew, whatever the file has of it
  bool resize_positions = false;  // position embeddings for pictures of another size are resampled
  /// " --init-head reset", as on the command line.
  std::string words() const;
};

/// load_weights() for a run's beginning, of the file's evaluated_set(). Error(checkpoint) also naming the first element
/// that is not finite, and the first variance below 0: what was trained from them would be lost. Names may be those
/// that other programs give (take_wanted_names()); returns what was done to the file's, a text for each.
std::vector<std::string> load_initial_weights(const SafetensorsFile& file, const InitOptions& options,
                                              const Graph& graph, const FlatLayout& flat, const StateBuffer& weights);

}  // namespace ct
