// What a run would refuse, asked before the first of several runs begins.
#pragma once

#include <cstdint>

#include "cli/training_words.h"
#include "graph/graph.h"
#include "train/config/config.h"

namespace ct {

/// Throws what a run with this network would refuse of the initial weights of `words`.
void require_fitting_initial_weights(const TrainingWords& words, const Graph& graph);

/// Throws what a run with this configuration and the initial weights of `words` would refuse on this host once it knows
/// its images. Writes nothing.
void require_fitting_run(const Config& config, int64_t ranks, const TrainingWords& words);

}  // namespace ct
