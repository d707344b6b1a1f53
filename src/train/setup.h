// Creates the parts of a run from a configuration: model, update rule, schedule, batch sizes, data.
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
/// The rates of update number `step` of a run, counted from 0; and the optimizer's coefficients for them.
/// `optimizer_begun`: the applied steps before the optimizer's own count begins.
std::function<Rates(int64_t step)> step_rates(const Config& config, const RunLength& run);
Schedule step_schedule(const Config& config, const RunLength& run, int64_t optimizer_begun = 0);
/// "Adam with decoupled (AdamW) weight decay 3e-07", for messages.
std::string optimizer_note(const Config& config);
/// The rank of a program.
struct RankOf {
  int rank = 0, ranks = 1;
};
Distribution distribution(const Config& config, const BatchSizes& batch, RankOf who);
CommQueueOptions comm_queue_options(const Config& config);
InputSpec input_spec(const Config& config, int64_t batch, const DataSpec& data, Mode mode);
/// As batch_for(); Error(usage) also if data.augment mixes images and the micro-batch is one image.
BatchSizes batch_sizes(const Config& config, int64_t ranks);
/// Throws Error(usage) if steps of data.augment do not fit the samples or the micro-batch.
void check_augmentation(const Config& config, int64_t micro_batch, const DataSpec& data);

/// The pipeline options of `rank`.
PipelineOptions pipeline_options(const Config& config, const BatchSizes& batch, const Distribution& d, int rank);
/// The options for opening data sets of a kind in a run. Error(usage) if the set has pictures and the augmentation does
/// not support them.
OpenOptions open_options(const Config& config, const DataKind& kind);

/// The training set, the part held out of it, and the test set. Collective: rank 0 locates the set (and writes the
/// synthetic set, if necessary and allowed by `if_absent`), and all ranks open it.
struct Datasets {
  DataSource source;
  std::unique_ptr<DataSet> train, test;
  HoldOut parts;
  DataSpec spec() const { return {train->shape(), train->classes(), test->count(), train->direct(), train->cropped()}; }
};
Datasets open_datasets(const Config& config, Communicator& comm, IfAbsent if_absent = IfAbsent::write,
                       std::span<const DataKind> kinds = data_kinds());
/// Writes a set that IfAbsent::write_later deferred, after all checks that may refuse the run. Collective.
void make_late_datasets(Datasets& sets, const Config& config, Communicator& comm);
/// Of `count` images, those that a run trains on and those that it holds out. Error(usage) if there are too few.
HoldOut training_parts(uint64_t seed, int64_t count, int64_t limit, int64_t validation);

/// The lowered programs of a configuration for one rank.
struct Programs {
  Graph graph;  // of the training step
  LoweredProgram train, evaluate;
};
/// The batch of evaluation is limited to the test set; the saved configuration keeps the given size. Error(usage) if
/// the model does not accept the samples.
Programs lower_programs(const Config& config, const BatchSizes& batch, RankOf who, const DataSpec& data);

/// The initial values of parameters that depend on training images (Init::whitens), by parameter number: the first
/// values of each in PyTorch's order, possibly fewer than it has elements. Collective.
using ImageValues = std::map<size_t, std::vector<float>>;
ImageValues values_by_images(const Graph& graph, const Config& config, Communicator& comm, const Datasets& data);

/// Initialises this rank's weights from the seed, except those given. Collective.
void initialize(Engine& engine, const Graph& graph, uint64_t seed, const ImageValues& given = {});

}  // namespace ct
