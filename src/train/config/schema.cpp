#include "train/config/schema.h"

#include <algorithm>

#include "data/kinds.h"
#include "model/models.h"
#include "train/config/foreign.h"

namespace ct {
namespace {

/// The keys of a part of the program, as the fields of a block.
void add_keys(std::vector<ConfigField>& fields, const std::string& block, const std::vector<ConfigKey>& keys) {
  for (const ConfigKey& key : keys) fields.push_back(as_field(key, block + "."));
}

std::vector<ConfigField> model_fields(Model& model) {
  std::vector<ConfigField> fields = {{"model.name",
                                      &model.name,
                                      "cnn (the tutorial's network) | cnn_plain (the same, a layer an operation) | "
                                      "cnn_moe (with mixtures of experts) | "
                                      "resnet18 to resnet152 | vit_tiny | vit | cct | linear",
                                      {.values = model_names()}}};
  add_keys(fields, "model", model.keys());
  return fields;
}

std::vector<ConfigField> update_fields(Config& c) {
  const std::vector<std::string> optimizers = optim::types<optim::Optimizer>();
  const std::vector<std::string> schedules = optim::types<optim::LrSchedule>();
  std::vector<ConfigField> fields = {
      {"optimizer.type", &c.optimizer, join_choices(optimizers), {.values = optimizers, .any_case = true}}};
  if (c.optimizer) add_keys(fields, "optimizer.params", optim::keys_of(*c.optimizer));
  fields.push_back({"optimizer.groups", &c.optimizer_groups,
                    "parameters by pattern of name or dimensions, or first rows of them, with lr_scale and "
                    "weight_decay of their own"});
  fields.push_back({"scheduler.type",
                    &c.scheduler,
                    join_choices(schedules) + "; an empty block is constant",
                    {.values = schedules}});
  add_keys(fields, "scheduler.params", optim::keys_of(c.scheduler));
  return fields;
}

}  // namespace

std::vector<ConfigField> config_fields(Config& c) {
  const ConfigRule positive{.min = 1}, natural{.min = 0}, at_least_one{.min = 1, .resume_may_change = true},
      batch{.max = kLargestBatch};
  const ConfigRule changeable{.resume_may_change = true}, interval{.min = 0, .resume_may_change = true};
  const ConfigRule may_be_empty{.may_be_empty = true, .resume_may_change = true},
      fraction{.min = 0, .max = 1, .below_max = true};
  const ConfigRule patience{.min = 0, .max = 1e6, .above_min = true, .resume_may_change = true};
  const std::vector<std::string> datasets = dataset_choices();
  const ConfigRule images{.min = 1, .max = kLargestBatch};
  auto& zero = c.zero_optimization;
  Elasticity& elastic = c.elasticity.keys;
  auto& profiler = c.flops_profiler;
  auto& logger = c.comms_logger;
  std::vector<ConfigField> fields = {
      {"seed", &c.seed, "seed of all random numbers", natural},
      {"device",
       &c.device,
       "auto (a GPU, if there is one) | cpu | cuda | cuda:N",
       {.values = {"auto", "cpu", "cuda"}, .numbered = "cuda", .resume_may_change = true}},
      {"output", &c.output, "the run's folder", changeable},
      {"data.dataset",
       &c.data.dataset,
       "of " + join_choices(datasets) +
           "; auto: CIFAR-10 or CIFAR-100, a packed file, or folders of pictures in data.path, or the synthetic set if "
           "there "
           "is nothing",
       {.values = datasets}},
      {"data.path", &c.data.path, "the folder of the data set", changeable},
      {"data.train", &c.data.train, "the folder of the training pictures; empty: train/ in data.path", may_be_empty},
      {"data.val", &c.data.val, "the folder of the validation pictures; empty: val/ in data.path", may_be_empty},
      {"data.validation",
       &c.data.validation,
       "images that choose the best weights: 20% or a number, held out of the training set, 1/5: the first of five "
       "folds, or a folder; 0: none, or val/ in data.path",
       {}},
      {"data.test",
       &c.data.test,
       "test images, where the set has none: 10% or a number, held out of the training set, or a folder",
       {}},
      {"data.shuffle", &c.data.shuffle, "a new permutation every epoch; false: file order", {}},
      {"data.sampler",
       &c.data.sampler,
       "uniform: each image once an epoch; balanced: every class equally often, drawn with replacement",
       {}},
      {"data.normalize.mean", &c.data.mean, "of pixels scaled to 0..1, per channel", {}},
      {"data.normalize.std", &c.data.std, "of pixels scaled to 0..1, per channel", {.min = 0, .above_min = true}},
      {"data.augment",
       &c.data.augment,
       "steps in order: random_crop {padding}, flip {p}, alternating_flip, random_resized_crop {scale, ratio}, cutout "
       "{length}, color_jitter {brightness, contrast, saturation, hue}, rand_augment {num_ops, magnitude, "
       "num_magnitude_bins}, mixup {alpha, p}, cutmix {alpha, p}; normalize {mean, std} as the last step means "
       "data.normalize",
       {}},
      {"data.size", &c.data.size, "width and height of a sample, for pictures", {.min = 1, .max = 1024}},
      {"data.resize",
       &c.data.resize,
       "shorter side of a resized picture, before the centre crop",
       {.min = 1, .max = 2000}},
      {"data.exact",
       &c.data.exact,
       "random_resized_crop decodes in full resolution; false: in the lowest sufficient one",
       {}},
      {"data.max_pixels",
       &c.data.max_pixels,
       "larger pictures count as damaged, and are not decoded",
       {.min = 1, .max = 1e9}},
      {"data.on_corrupt", &c.data.on_corrupt, "reaction to a damaged image", changeable},
      {"data.labels", &c.data.labels, "fine | coarse: the classes of a set with two kinds of labels (CIFAR-100)", {}},
      {"data.limit", &c.data.limit, "use the first N training images only, for trials; 0: all", natural},
      {"data.workers",
       &c.data.workers,
       "threads of a rank that read and decode images; 0: by cores; none if images need no decoding",
       {.min = 0, .max = 1024, .resume_may_change = true}},
      {"train.epochs", &c.train.epochs, "passes over the training set", interval},
      {"train.max_steps", &c.train.max_steps, "optimizer steps; -1: no limit", {.min = -1, .resume_may_change = true}},
      {"train.log_interval", &c.train.log_interval,
       "micro-batches of all ranks between two printed losses; optimizer steps if log_format is ema_loss",
       at_least_one},
      {"train.log_format", &c.train.log_format, "tutorial | example | ema_loss: how losses and accuracies are printed",
       changeable},
      {"train.sample_grid", &c.train.sample_grid, "sample_grid.png in the run's folder: the images of the first batch",
       changeable},
      {"train.save_interval", &c.train.save_interval, "optimizer steps; 0: every epoch", interval},
      {"train.eval_interval", &c.train.eval_interval, "optimizer steps; 0: every epoch", interval},
      {"train.eval_batch_size",
       &c.train.eval_batch_size,
       "images of an evaluation batch; may change last digits",
       {.min = 1, .max = kLargestBatch}},
      {"train.eval_views", &c.train.eval_views, "the copies of an image whose logits an evaluation averages"},
      {"train.best.split", &c.train.best.split, "the split that chooses best.bin"},
      {"train.best.metric", &c.train.best.metric, "accuracy | loss"},
      {"train.early_stopping.patience", &c.train.early_stopping.patience, "evaluations without improvement; 0: off",
       interval},
      {"train.early_stopping.metric", &c.train.early_stopping.metric, "accuracy | loss"},
      {"train.ema.decay", &c.train.ema.decay,
       "decay of an exponential moving average of the weights in each step; 0: none", fraction},
      {"train.ema.start", &c.train.ema.start, "applied optimizer steps up to which the average equals the weights",
       natural},
      {"train.ema.evaluate", &c.train.ema.evaluate, "evaluations, best.bin and early stopping use the average", {}},
      {"train.recompute", &c.train.recompute,
       "none | blocks: recompute the activations of each block in its backward pass", changeable},
      {"train.label_smoothing", &c.train.label_smoothing, "share of the target spread over all classes", fraction},
      {"train.class_weights", &c.train.class_weights,
       "weights of classes in the loss, by name, such as {cat: 3}; auto: inversely proportional to their images",
       natural},
      {"train.freeze", &c.train.freeze,
       "patterns of the names of parameters that do not learn, such as ['conv1*', 'layer[1-3]*']"},
      {"train.unfreeze_at", &c.train.unfreeze_at, "epochs after which all parameters learn; 0: never", natural},
      {"train.layer_decay",
       &c.train.layer_decay,
       "each layer's rate is this times the rate of the layer behind it; 1: all have the same",
       {.min = 0, .max = 1, .above_min = true}},
      {"train.max_bad_steps", &c.train.max_bad_steps, "non-finite steps in a row that end the run", positive},
      {"checkpoint.keep_last", &c.checkpoint.keep_last, "checkpoints kept", at_least_one},
      {"checkpoint.on_failure", &c.checkpoint.on_failure, "reaction to a failed save during training", changeable},
      {"checkpoint.asynchronous", &c.checkpoint.asynchronous, "save in parallel with training; false: training waits",
       changeable},
      {"communication.backend", &c.communication.backend, "auto | threads | mpi | nccl", changeable},
      {"communication.reproducible", &c.communication.reproducible, "the same bits on any number of ranks", changeable},
      {"communication.heartbeat_s", &c.communication.supervision.heartbeat_s,
       "a rank that is silent for this many seconds is lost", patience},
      {"communication.timeout_s", &c.communication.supervision.timeout_s,
       "a rank without progress for this many seconds is lost", patience},
      {"communication.check_interval", &c.communication.check_interval,
       "optimizer steps between comparing the replicas' weight hashes; 0: never", interval},
      {"communication.share_device", &c.communication.share_device, "several ranks may use one GPU", changeable},
      {"cpu.threads", &c.cpu.threads, "threads of a rank", {.min = 1, .only = "1"}},
      {"cpu.winograd", &c.cpu.winograd, "use Winograd's algorithm for 3x3 convolutions where it is the fastest"},
      {"cpu.autotune", &c.cpu.autotune,
       "time the convolution algorithms instead of using the table; a resumed run keeps its choice", changeable},
      {"cuda.autotune", &c.cuda.autotune, "time the libraries' plans; a resumed run keeps its choice", changeable},
      {"cuda.tf32", &c.cuda.tf32, "f32 products with TF32's 10-bit mantissas"},
      {"cuda.record", &c.cuda.record, "steps as CUDA graphs", changeable},
      {"cuda.path", &c.cuda.path, "the folder that is searched first for CUDA's libraries", may_be_empty},
      {"compat", &c.compat,
       "unexpected behaviours of the reference: seed (all) or a list of first_step, cosine_rises, scaler_b, "
       "scale_2_32, "
       "scale_first, adam_t, fixed_order, elastic_excess, console"},
      {"train_batch_size", &c.batch.train, "images of one optimizer step", batch},
      {"train_micro_batch_size_per_gpu", &c.batch.micro, "images of one pass on one rank", batch},
      {"gradient_accumulation_steps", &c.batch.accumulation, "passes of one optimizer step", batch},
      {"elasticity.enabled", &c.elasticity.enabled, "choose a batch size that fits many numbers of ranks", {}},
      {"elasticity.max_train_batch_size", &elastic.max_train_batch_size,
       "largest number of images of one optimizer step", images},
      {"elasticity.micro_batch_sizes",
       &elastic.micro_batch_sizes,
       "the micro-batches to choose from",
       {.min = 1,
        .max = kLargestBatch,
        .refusal = "Elasticity expected micro_batch_sizes to only contain positive integers, instead contains: "}},
      {"elasticity.min_gpus", &elastic.min_gpus, "the fewest ranks", images},
      {"elasticity.max_gpus", &elastic.max_gpus, "the most ranks", images},
      {"elasticity.prefer_larger_batch",
       &elastic.prefer_larger_batch,
       "prefer the larger of batches that fit equally many numbers of ranks",
       {}},
      {"elasticity.ignore_non_elastic_batch_info",
       &c.elasticity.ignore_non_elastic_batch_info,
       "ignore batch keys that are also given; false: they are an error",
       {}},
      {"elasticity.version",
       &elastic.version,
       "0.1: single ranks are added and removed; 0.2: whole nodes",
       {.min = 0.1}},
      {"elasticity.num_gpus_per_node", &elastic.num_gpus_per_node, "ranks of a node, in version 0.2", images},
      {"gradient_clipping", &c.gradient_clipping, "largest global L2 norm; 0: off", natural},
      {"prescale_gradients", &c.prescale_gradients, "divide gradients before they are summed, not after", {}},
      {"gradient_predivide_factor",
       &c.gradient_predivide_factor,
       "unless they are prescaled: divide by this before the sum, and by the rest after it",
       {.min = 0, .max = 1e9, .above_min = true}},
      {"communication_data_type",
       &c.communication_data_type,
       "fp32 | fp16 | bf16: type of gradients between hosts, if communication.reproducible is false",
       {.any_case = true,
        .refusal = "Invalid communication_data_type. Supported data types: ['fp16', 'bf16', 'fp32']. Got: ",
        .resume_may_change = true}},
      {"bf16.enabled",
       &c.bf16.enabled,
       "compute in bf16; master weights, gradients and the update in f32; auto: if the machine computes in it",
       {.open = "auto"}},
      {"fp16.enabled", &c.fp16.enabled, "compute in fp16 with a loss scale", {}},
      {"fp16.loss_scale", &c.fp16.loss_scale, "0: dynamic", natural},
      {"fp16.initial_scale_power", &c.fp16.initial_scale_power, "begin at 2^this", {.min = 0, .max = 126}},
      {"fp16.loss_scale_window", &c.fp16.loss_scale_window, "steps without an overflow that double the scale",
       positive},
      {"fp16.hysteresis", &c.fp16.hysteresis, "overflows that halve it", positive},
      {"fp16.consecutive_hysteresis", &c.fp16.consecutive_hysteresis, "only overflows in a row count", {}},
      {"fp16.min_loss_scale", &c.fp16.min_loss_scale, "an overflow here ends the run", {.min = 0, .above_min = true}},
      {"zero_optimization.stage",
       &zero.stage,
       "what ranks partition: nothing (0), optimizer state (1), gradients too (2), parameters too (3)",
       {.min = 0, .max = 3, .resume_may_change = true}},
      {"zero_optimization.reduce_bucket_size", &zero.reduce_bucket_size,
       "elements of one gradient exchange; absent or 0: the program's choice", interval},
      {"zero_optimization.allgather_bucket_size", &zero.allgather_bucket_size,
       "elements of one parameter exchange; absent or 0: the program's choice", interval},
      {"zero_optimization.overlap_comm", &zero.overlap_comm,
       "communicate while computing; absent: if the transport leaves the core free", changeable},
      {"zero_optimization.stage3_param_persistence_threshold", &zero.stage3_param_persistence_threshold,
       "vectors of at most this many elements stay whole on every rank", interval},
      {"zero_optimization.offload_optimizer.device", &zero.offload_optimizer_device,
       "none | cpu: where the optimizer's state is stored", changeable},
      {"zero_optimization.offload_param.device", &zero.offload_param_device,
       "none | cpu: where parameters are stored; a GPU's stay on it", changeable},
      {"steps_per_print", &c.steps_per_print,
       "optimizer steps between two step records, and groups of lines of progress", at_least_one},
      {"tensorboard.enabled", &c.tensorboard.enabled, "event files for TensorBoard", changeable},
      {"tensorboard.output_path", &c.tensorboard.output_path, "their folder; empty: tb/ in the run's folder",
       may_be_empty},
      {"tensorboard.job_name", &c.tensorboard.job_name, "a subfolder; empty: none", may_be_empty},
      {"csv_monitor.enabled", &c.csv_monitor.enabled, "CSV files as DeepSpeed's", changeable},
      {"csv_monitor.output_path", &c.csv_monitor.output_path, "their folder; empty: csv/ in the run's folder",
       may_be_empty},
      {"csv_monitor.job_name", &c.csv_monitor.job_name, "a subfolder; empty: none", may_be_empty},
      {"wall_clock_breakdown", &c.wall_clock_breakdown, "the times of the parts of a step, every steps_per_print steps",
       changeable},
      {"dump_state", &c.dump_state, "print every effective key when training begins", changeable},
      {"memory_breakdown", &c.memory_breakdown, "print planned and used memory, by kind", changeable},
      {"flops_profiler.enabled", &profiler.enabled, "a table of one step's operations by module", changeable},
      {"flops_profiler.profile_step", &profiler.profile_step, "number of steps before the profiled one", interval},
      {"flops_profiler.module_depth",
       &profiler.module_depth,
       "depth of modules in the table; 0: the model alone, -1: all",
       {.min = -1, .resume_may_change = true}},
      {"flops_profiler.top_modules", &profiler.top_modules, "number of modules for each depth", at_least_one},
      {"flops_profiler.detailed", &profiler.detailed, "also every module and every kind of operation", changeable},
      {"flops_profiler.output_file", &profiler.output_file, "the file of the table; empty: the console", may_be_empty},
      {"comms_logger.enabled", &logger.enabled, "a table of collectives, their sizes, times and bandwidths, at the end",
       changeable},
      {"comms_logger.verbose", &logger.verbose, "also a line for each", changeable},
      {"comms_logger.prof_all", &logger.prof_all, "all of them; false: those of prof_ops", changeable},
      {"comms_logger.debug", &logger.debug, "also the content of each", changeable},
      {"comms_logger.prof_ops", &logger.prof_ops, "all_reduce, reduce_scatter, all_gather", changeable},
  };
  const auto insert = [&](std::vector<ConfigField> some, const char* before) {
    const auto at = std::find_if(fields.begin(), fields.end(), [&](const auto& f) { return f.key == before; });
    fields.insert(at, std::make_move_iterator(some.begin()), std::make_move_iterator(some.end()));
  };
  insert(model_fields(c.model), "data.dataset");
  insert(update_fields(c), "gradient_clipping");
  return fields;
}

std::vector<Config> configs_of_all_types() {
  std::vector<Config> all;
  for (const optim::Optimizer& optimizer : optim::all_of<optim::Optimizer>()) all.emplace_back().optimizer = optimizer;
  for (const optim::LrSchedule& scheduler : optim::all_of<optim::LrSchedule>())
    all.emplace_back().scheduler = scheduler;
  for (const std::string& name : model_names()) all.emplace_back().model.name = name;
  return all;
}

std::vector<ConfigField> effective_fields(Config& config) {
  std::vector<ConfigField> fields = config_fields(config);
  const auto counts = [&](const ConfigField& field) {
    const bool of_batch = config.elasticity.enabled && std::ranges::find(kBatchKeys, field.key) != std::end(kBatchKeys);
    if (const auto* number = std::get_if<std::optional<int64_t>*>(&field.target))
      return (*number)->has_value() && !of_batch;
    if (const auto* number = std::get_if<std::optional<double>*>(&field.target)) return (*number)->has_value();
    if (const auto* count = std::get_if<std::optional<StepCount>*>(&field.target)) return (*count)->has_value();
    if (const auto* choice = std::get_if<std::optional<bool>*>(&field.target))
      return (*choice)->has_value() || !field.rule.open.empty();
    if (field.key == "zero_optimization.offload_param.device")
      return config.zero_optimization.offload_param_device != OffloadDevice::none;
    if (field.key == "gradient_predivide_factor") return !config.prescale_gradients;
    if (const auto* compat = std::get_if<Compat*>(&field.target)) return !(*compat)->empty();
    if (const auto* weights = std::get_if<ClassWeights*>(&field.target)) return !(*weights)->empty();
    for (const auto& [block, enabled] : {std::pair{"fp16.", config.fp16.enabled},
                                         {"elasticity.", config.elasticity.enabled},
                                         {"tensorboard.", config.tensorboard.enabled},
                                         {"csv_monitor.", config.csv_monitor.enabled},
                                         {"flops_profiler.", config.flops_profiler.enabled},
                                         {"comms_logger.", config.comms_logger.enabled}})
      if (field.key.starts_with(block)) return enabled || field.key.ends_with(".enabled");
    if (field.key.starts_with("train.ema.")) return config.train.ema.decay > 0 || field.key == "train.ema.decay";
    if (const auto* groups = std::get_if<std::vector<optim::ParameterGroup>*>(&field.target))
      return !(*groups)->empty();
    if (field.key == "train.freeze") return !config.train.freeze.empty();
    if (field.key == "train.unfreeze_at") return !config.train.freeze.empty() && config.train.unfreeze_at > 0;
    if (field.key == "train.layer_decay") return config.train.layer_decay != 1;
    if (field.key == "optimizer.type") return config.optimizer.has_value();
    if (field.key == "scheduler.type") return !optim::type_of(config.scheduler).empty();
    return true;
  };
  std::erase_if(fields, [&](const ConfigField& field) { return !counts(field); });
  return fields;
}

std::string text_of_key(const Config& config, const std::string& key, const std::string& absent) {
  Config copy = config;
  const std::vector<ConfigField> fields = effective_fields(copy);
  const auto found = std::ranges::find(fields, key, &ConfigField::key);
  return found == fields.end() ? absent : field_text(*found);
}

bool is_config_block(const std::string& key, const std::vector<ConfigField>& fields) {
  const auto inside = [prefix = key + "."](const auto& known) { return known.key.starts_with(prefix); };
  const auto& inert = inert_keys();
  return std::any_of(fields.begin(), fields.end(), inside) || std::any_of(inert.begin(), inert.end(), inside);
}

bool operator==(const Config& a, const Config& b) {
  // The table binds pointers to members, so it is made from copies.
  Config left = a, right = b;
  const std::vector<ConfigField> x = effective_fields(left), y = effective_fields(right);
  return std::equal(x.begin(), x.end(), y.begin(), y.end(), [](const ConfigField& i, const ConfigField& j) {
    return i.key == j.key && field_text(i) == field_text(j);
  });
}

}  // namespace ct
