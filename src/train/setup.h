// Creates the parts of a run from a configuration: model, update rule, schedule, batch sizes, data.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "data/hold_out.h"
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

/// The folders of the splits that the configuration names.
LocateOptions split_folders(const Config& config);

/// The images of a run: those to train on, those that choose the best weights, and those that judge them. Each part is
/// a set of its own or a part of the training set. Collective: rank 0 locates the set (and writes the synthetic set, if
/// necessary and allowed by `if_absent`), and all ranks open it.
struct Datasets {
  DataSource source;
  std::unique_ptr<DataSet> train, val, test;  // val, test: null if they are none of their own
  HoldOut held_out;
  Parts parts;  // of train
  std::vector<const DataSet*> all() const;
  ImagePart training() const { return {train.get(), parts.training}; }
  ImagePart validation() const { return val ? whole(val.get()) : ImagePart{train.get(), parts.validation}; }
  ImagePart testing() const { return test ? whole(test.get()) : ImagePart{train.get(), parts.test}; }
  DataSpec spec() const;
};
Datasets open_datasets(const Config& config, Communicator& comm, IfAbsent if_absent = IfAbsent::write,
                       std::span<const DataKind> kinds = data_kinds(), bool keeps_run = false);
/// Sets what the configuration leaves to the images: the kind of set, and the schedule's length.
void settle_by_data(Config& config, const Datasets& sets, const RunLength& length);
/// Writes a set that IfAbsent::write_later deferred, after all checks that may refuse the run. Collective.
void make_late_datasets(Datasets& sets, const Config& config, Communicator& comm);
/// Messages about the images, one line each: "2 classes: cat 14, dog 26; 32 train, 8 validation (stratified, seed 42)",
/// and what their sets say.
std::vector<std::string> notes_of(const Datasets& sets);
/// Pictures that train and also judge.
std::vector<std::string> warnings_of(const Datasets& sets);

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
