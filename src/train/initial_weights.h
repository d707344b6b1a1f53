// --init: the initial weights of a run, from a file of any program.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "train/session.h"
#include "train/weights.h"

namespace ct {

/// The exceptions for weights that a model does not take from the file.
struct InitOptions {
  std::string option = "--init";         // that named the file, for messages
  enum class Head { keep, reset, fit };  // fit: reset it if the file's has other shapes or is missing
  Head head = Head::keep;                // reset: initialise the last layer from the seed, and ignore the file's
  bool resize_positions = false;         // resample position embeddings of another picture size
  /// " --init-head reset", as on the command line.
  std::string words() const;
};

/// Is the last layer initialised from the seed?
bool resets_head(const SafetensorsFile& file, const InitOptions& options, const Graph& graph);

/// Error(checkpoint) with all differences unless the model can begin with these tensors.
void require_fitting_weights(const SafetensorsFile& file, const InitOptions& options, const Graph& graph);

/// load_weights() of the file's evaluated_set(), for the start of a run. Error(checkpoint) also for a non-finite
/// element or a variance below 0 (it names the first), because training would be wasted. Names of other programs are
/// converted (take_wanted_names()). Returns a text for each conversion, and one that says what was loaded.
std::vector<std::string> load_initial_weights(const SafetensorsFile& file, const InitOptions& options,
                                              const Graph& graph, const FlatLayout& flat, const StateBuffer& weights);

/// The same for all ranks of a session, whose parameters need not be initialised; a last layer that the file does not
/// provide is. `warn` (may be empty) is told of a file of another network before its tensors are compared. Collective.
std::vector<std::string> load_initial_weights(const Path& path, const InitOptions& options, TrainingSession& session,
                                              const std::function<void(const std::string&)>& warn = {});

}  // namespace ct
