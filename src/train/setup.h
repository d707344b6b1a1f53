// From a configuration to the pieces of a run: model, update rule, schedule, batch sizes, data.
#pragma once

#include <memory>

#include "data/locate.h"
#include "data/pipeline.h"
#include "engine/engine.h"
#include "plan/lower.h"
#include "train/config/config.h"
#include "train/device.h"

namespace ct {

UpdateRule update_rule(const Config& config);
/// What update number `step` uses, counted from 0.
Schedule step_schedule(const Config& config);
/// "Adam with decoupled (AdamW) weight decay 3e-07", for people.
std::string optimizer_note(const Config& config);
/// Whose program is wanted.
struct RankOf {
  int rank = 0, ranks = 1;
};
Distribution distribution(const Config& config, const BatchSizes& batch, RankOf who);
LaneOptions lane_options(const Config& config);
std::vector<AugmentStep> augment_steps(const Config& config);
InputSpec input_spec(const Config& config, int64_t batch, int classes, Mode mode);

/// What `rank` asks of its pipeline.
PipelineOptions pipeline_options(const Config& config, const BatchSizes& batch, const Distribution& d, int rank);

/// Puts global micro-batch k of a step where the engine takes it from.
void fill_micro_batch(Pipeline& pipeline, int64_t epoch, int64_t step, int64_t k, Engine& engine);

/// The training set, the part held out of it, and the test set. Collective: rank 0 locates (and writes the synthetic
/// set if it must), the others open what it found.
struct Datasets {
  DataSource source;
  std::unique_ptr<ImageSet> train, test;
  HoldOut parts;
};
Datasets open_datasets(const Config& config, Communicator& comm, IfAbsent if_absent = IfAbsent::write);

/// Lowered programs of a configuration for one rank.
struct Programs {
  Graph graph;  // of the training step
  Lowered train, evaluate;
};
/// A batch of evaluation is no larger than the test set; the configuration, which is saved, stays as it was asked for.
Programs lower_programs(const Config& config, const BatchSizes& batch, RankOf who, int classes, int64_t test_images);

/// Weights drawn from the seed, into what this rank holds. Collective.
void initialize(Engine& engine, const Graph& graph, uint64_t seed);

}  // namespace ct
