// From a configuration to the pieces of a run: model, update rule, schedule, batch sizes, data.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "data/locate.h"
#include "data/pipeline.h"
#include "engine/engine.h"
#include "plan/lower.h"
#include "train/config/config.h"
#include "train/device.h"

namespace ct {

UpdateRule update_rule(const Config& config);
/// Optimizer steps of a whole run.
int64_t run_steps(const Config& config, int64_t steps_per_epoch);
/// What update number `step` of a run of `run_steps` uses, counted from 0: rates, and what the optimizer makes of them.
std::function<Rates(int64_t step)> step_rates(const Config& config, int64_t run_steps);
Schedule step_schedule(const Config& config, int64_t run_steps);
/// "Adam with decoupled (AdamW) weight decay 3e-07", for people.
std::string optimizer_note(const Config& config);
/// The rank whose program is wanted.
struct RankOf {
  int rank = 0, ranks = 1;
};
Distribution distribution(const Config& config, const BatchSizes& batch, RankOf who);
CommQueueOptions comm_queue_options(const Config& config);
InputSpec input_spec(const Config& config, int64_t batch, const DataSpec& data, Mode mode);
/// batch_for(). Error(usage) also where data.augment mixes images and the micro-batch has but one.
BatchSizes batch_sizes(const Config& config, int64_t ranks);
/// Error(usage) where steps of data.augment do not fit the samples or the micro-batch.
void check_augmentation(const Config& config, int64_t micro_batch, const DataSpec& data);

/// What `rank` asks of its pipeline.
PipelineOptions pipeline_options(const Config& config, const BatchSizes& batch, const Distribution& d, int rank);
/// How data sets of a kind are opened for a run. Error(usage) where the augmentation is not for pictures, and they are.
OpenOptions open_options(const Config& config, const DataKind& kind);

/// The training set, the part held out of it, and the test set. Collective: rank 0 locates (and writes the synthetic
/// set if it must and `if_absent` says so), the others open what it found.
struct Datasets {
  DataSource source;
  std::unique_ptr<DataSet> train, test;
  HoldOut parts;
  DataSpec spec() const { return {train->shape(), train->classes(), test->count(), train->direct(), train->cropped()}; }
};
Datasets open_datasets(const Config& config, Communicator& comm, IfAbsent if_absent = IfAbsent::write,
                       std::span<const DataKind> kinds = data_kinds());
/// Makes a set that IfAbsent::write_later left to be made, once nothing else can be refused. Collective.
void make_late_datasets(Datasets& sets, const Config& config, Communicator& comm);
/// Which images of `count` a run trains on, and which it holds out. Error(usage) where there are not so many.
HoldOut training_parts(uint64_t seed, int64_t count, int64_t limit, int64_t validation);

/// LoweredProgram programs of a configuration for one rank.
struct Programs {
  Graph graph;  // of the training step
  LoweredProgram train, evaluate;
};
/// A batch of evaluation is no larger than the test set; the configuration, which is saved, stays as it was asked for.
/// Error(usage) where the model does not take the samples.
Programs lower_programs(const Config& config, const BatchSizes& batch, RankOf who, const DataSpec& data);

/// How parameters begin that do so by training images (Init::whitens), by their number: the first values of each in
/// PyTorch's order, of which there may be fewer than it has. Collective.
using ImageValues = std::map<size_t, std::vector<float>>;
ImageValues values_by_images(const Graph& graph, const Config& config, Communicator& comm, const Datasets& data);

/// Weights drawn from the seed, but for those given, into what this rank holds. Collective.
void initialize(Engine& engine, const Graph& graph, uint64_t seed, const ImageValues& given = {});

}  // namespace ct
