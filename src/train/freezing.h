// What train.freeze leaves as it is, and until when.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "train/config/config.h"
#include "train/run/run_state.h"

namespace ct {

/// Of patterns as in optim::matches().
IsFrozen frozen_by(const std::vector<std::string>& patterns);

/// Error(usage), which begins with `where`, for a pattern that matches no parameter, and if no parameter would learn.
void require_learning(const Config& config, const Graph& graph, const std::string& where);

/// The part of a run that a program trains: before train.unfreeze_at, or after it, where nothing is frozen and the
/// optimizer has begun anew, with moments of 0. Without train.unfreeze_at there is one part.
struct LearningPhase {
  bool freezes = true;          // as train.freeze says
  bool begins = false;          // this step is the first in which all parameters learn
  int64_t optimizer_begun = 0;  // see RunState
};
LearningPhase phase_at(const Config& config, const RunState& state);

/// The configuration of a run, or of the part of it, in which all parameters learn.
Config without_freezing(Config config);

/// "5130 of 11173962 parameters learn (train.freeze)"; empty: all do.
std::string learning_note(const Graph& graph);

}  // namespace ct
