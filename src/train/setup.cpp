#include "train/setup.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/cores.h"
#include "base/error.h"
#include "base/text.h"
#include "data/deferred_data_set.h"
#include "data/description.h"
#include "data/same_pictures.h"
#include "data/whitening.h"
#include "model/models.h"
#include "train/agree.h"
#include "train/config/validate.h"
#include "train/freezing.h"
#include "train/weights.h"

namespace ct {

namespace {
LossScaleOptions loss_scale_options(const Config& config) {
  const auto& f = config.fp16;
  return {.dynamic = f.loss_scale == 0,
          .initial = f.loss_scale > 0 ? f.loss_scale : std::ldexp(1.0, static_cast<int>(f.initial_scale_power)),
          .min = f.min_loss_scale,
          .window = f.loss_scale_window,
          .hysteresis = f.hysteresis,
          .consecutive_hysteresis = f.consecutive_hysteresis,
          .without_hysteresis = config.compat.has(CompatFlag::scaler_b) && config.zero_optimization.stage == 0,
          .unscale_by_new = config.compat.has(CompatFlag::scale_first)};
}
}  // namespace

UpdateRule update_rule(const Config& config) {
  UpdateRule rule{.optimizer = config.optimizer.value(),
                  .groups = config.optimizer_groups,
                  .layer_decay = config.train.layer_decay,
                  .clip = config.gradient_clipping};
  const bool all_decay = std::visit([](const auto& o) { return o.no_decay == optim::NoDecay::none; }, rule.optimizer);
  if (!all_decay) rule.groups.push_back(optim::kVectorsDoNotDecay);
  if (config.fp16.enabled) rule.loss_scale = loss_scale_options(config);
  rule.predivision = {.whole = config.prescale_gradients, .factor = config.gradient_predivide_factor};
  if (config.train.ema.decay > 0) rule.ema = {config.train.ema.decay, config.train.ema.start};
  return rule;
}

int64_t run_steps(const Config& config, int64_t steps_per_epoch) {
  const int64_t most = StepCount::kMost / std::max<int64_t>(steps_per_epoch, 1);  // more than any run takes
  const int64_t steps = std::min(config.train.epochs, most) * steps_per_epoch;
  return config.train.max_steps >= 0 ? std::min(steps, config.train.max_steps) : steps;
}

std::function<Rates(int64_t step)> step_rates(const Config& config, const RunLength& run) {
  optim::LrSchedule scheduler = config.scheduler;
  optim::fit_run(scheduler, run);
  if (const auto fault = optim::fault_of_run(scheduler, config.optimizer.value(), run.steps))
    fail(ExitCode::usage, "scheduler.params.", fault->key, " ", fault->text);
  const Compat& compat = config.compat;
  if (auto* cosine = std::get_if<optim::WarmupCosineLr>(&scheduler))
    cosine->rises_again = compat.has(CompatFlag::cosine_rises);
  const bool begins_at_rate = compat.has(CompatFlag::first_step) && optim::type_of(scheduler).starts_with("Warmup");
  return [optimizer = config.optimizer.value(), scheduler, begins_at_rate](int64_t step) {
    if (begins_at_rate && step == 0) return optim::rates_at(optim::Constant{}, optimizer, step);
    return optim::rates_at(scheduler, optimizer, step);
  };
}

Schedule step_schedule(const Config& config, const RunLength& run, int64_t optimizer_begun) {
  // DeepSpeed's FP16_Optimizer makes an empty step as it is made.
  const int64_t ahead =
      config.compat.has(CompatFlag::adam_t) && config.fp16.enabled && config.zero_optimization.stage == 0;
  return [optimizer = config.optimizer.value(), rates = step_rates(config, run), optimizer_begun, ahead](int64_t step) {
    return optim::schedule_row(rates(step), optimizer, step - optimizer_begun, ahead);
  };
}

std::string optimizer_note(const Config& config) {
  return std::visit(
      [](const auto& o) {
        std::string kind;
        if constexpr (requires { o.decay(); }) kind = str(o.decay(), " ");
        return o.weight_decay == 0 ? std::string(o.kType)
                                   : str(o.kType, " with ", kind, "weight decay ", o.weight_decay);
      },
      config.optimizer.value());
}

static DType wire_of(CommDataType type) {
  switch (type) {
    case CommDataType::fp32:
      return DType::f32;
    case CommDataType::fp16:
      return DType::f16;
    case CommDataType::bf16:
      return DType::bf16;
  }
  fail(ExitCode::bug, "no such type of communication");
}

Distribution distribution(const Config& config, const BatchSizes& batch, RankOf who) {
  const auto& zero = config.zero_optimization;
  return {.ranks = who.ranks,
          .rank = who.rank,
          .accumulation = static_cast<int>(batch.accumulation),
          .zero_stage = static_cast<int>(zero.stage),
          .reproducible = config.communication.reproducible,
          .zero = {.reduce_bucket_size = zero.reduce_bucket_size.value_or(0),
                   .allgather_bucket_size = zero.allgather_bucket_size.value_or(0),
                   .persistence_threshold = zero.stage3_param_persistence_threshold,
                   .offload_optimizer = zero.offload_optimizer_device == OffloadDevice::cpu && wants_cuda(config)},
          .wire = wire_of(config.communication_data_type)};
}

CommQueueOptions comm_queue_options(const Config& config) {
  return {.overlap_comm = config.zero_optimization.overlap_comm};
}

/// One value for each of `channels`: the given values, or, if all of these are equal, that value for every channel.
static std::vector<double> by_channel(const char* key, const std::vector<double>& given, int64_t channels) {
  if (static_cast<int64_t>(given.size()) == channels) return given;
  if (!std::equal(given.begin() + 1, given.end(), given.begin()))
    fail(ExitCode::usage, "data.normalize.", key, ": ", given.size(), " numbers for images of ",
         counted(channels, "channel"), "; give one for each");
  return std::vector<double>(static_cast<size_t>(channels), given.front());
}

InputSpec input_spec(const Config& config, int64_t batch, const DataSpec& data, Mode mode) {
  const auto& [channels, height, width] = data.sample;
  InputSpec spec{.batch = batch,
                 .channels = channels,
                 .height = height,
                 .width = width,
                 .classes = data.classes,
                 .mode = mode,
                 .compute = compute_type(config),
                 .frozen = frozen_by(config.train.freeze)};
  const std::vector<double> mean = by_channel("mean", config.data.mean, channels),
                            std = by_channel("std", config.data.std, channels);
  for (size_t c = 0; c < mean.size(); ++c) {  // (u8/255 - mean) / std
    spec.scale.push_back(static_cast<float>(1 / (255 * std[c])));
    spec.shift.push_back(static_cast<float>(-mean[c] / std[c]));
  }
  if (mode == Mode::train) {
    spec.label_smoothing = static_cast<float>(config.train.label_smoothing);
    spec.edits = edits_of(config.data.augment, data.cropped);
    spec.mixes_labels = mixes_labels(config.data.augment);
    spec.weights_classes = !config.train.class_weights.empty();
    if (data.resident) spec.resident_images = data.train_images;
    spec.relu_bits = wants_cuda(config);
  }
  return spec;
}

static void check_mixing(const Config& config, int64_t micro_batch) {
  if (mixes_labels(config.data.augment) && micro_batch < 2)
    fail(ExitCode::usage, "data.augment mixes images of one micro-batch (mixup, cutmix), which must have 2 or more: ",
         "train_micro_batch_size_per_gpu is ", micro_batch);
}

BatchSizes batch_sizes(const Config& config, int64_t ranks) {
  const BatchSizes sizes = batch_for(config.batch, ranks);
  check_mixing(config, sizes.micro);
  return sizes;
}

void check_augmentation(const Config& config, int64_t micro_batch, const DataSpec& data) {
  check_mixing(config, micro_batch);
  const int64_t side = std::max(data.sample.height, data.sample.width);
  for (const AugmentStep& step : config.data.augment)
    if (const auto* cutout = std::get_if<Cutout>(&step); cutout && cutout->length > 2 * side)
      fail(ExitCode::usage, "data.augment.cutout.length must be at least 1 and at most ", 2 * side,
           ", twice the side of an image of ", to_string(data.sample), ", found ", cutout->length);
}

PipelineOptions pipeline_options(const Config& config, const BatchSizes& batch, const Distribution& d, int rank) {
  const int first = d.micro_batch(rank, 0);
  return {.seed = static_cast<uint64_t>(config.seed),
          .shuffle = config.data.shuffle,
          .same_order = config.compat.has(CompatFlag::fixed_order),
          .sampler = config.data.sampler,
          .augment = config.data.augment,
          .train_batch = batch.train,
          .micro_batch = batch.micro,
          .first_micro = first,
          .micros = d.accumulation,
          .micro_stride = d.accumulation > 1 ? d.micro_batch(rank, 1) - first : 1,
          .workers = loader_workers(config.data.workers, d.ranks)};
}

/// Of pictures the crop is made where they are decoded, which flips before it do not change: a mirrored picture has the
/// mirrored boxes.
static std::optional<RandomResizedCrop> crop_of_pictures(const std::vector<AugmentStep>& steps) {
  std::optional<RandomResizedCrop> crop;
  bool first = true;
  for (const AugmentStep& step : steps) {
    if (const auto* found = std::get_if<RandomResizedCrop>(&step)) {
      if (!first || crop)
        fail(ExitCode::usage,
             "data.augment: random_resized_crop is applied while pictures are decoded: list it once, with no steps but "
             "flips before it");
      crop = *found;
    } else if (!std::holds_alternative<Flip>(step) && !std::holds_alternative<AlternatingFlip>(step)) {
      first = false;
    }
  }
  return crop;
}

OpenOptions open_options(const Config& config, const DataKind& kind) {
  const auto& data = config.data;
  OpenOptions options{.on_corrupt = data.on_corrupt,
                      .labels = data.labels,
                      .pictures = {.size = static_cast<int>(data.size),
                                   .resize = static_cast<int>(data.resize),
                                   .exact = data.exact,
                                   .max_pixels = data.max_pixels}};
  if (kind.pictures) options.pictures.crop = crop_of_pictures(data.augment);
  return options;
}

LocateOptions split_folders(const Config& config) {
  const auto& data = config.data;
  return {.train = data.train,
          .val = data.validation.is_folder() ? data.validation.folder : data.val,
          .test = data.test.folder};
}

/// Rank 0 finds the set, or writes it, and tells the others.
static DataSource locate_together(std::string_view dataset, const Config& config, Communicator& comm,
                                  IfAbsent if_absent, std::span<const DataKind> kinds) {
  DataSource source;
  const auto progress = [&] { comm.heartbeat().advance(Phase::data); };
  progress();
  LocateOptions where = split_folders(config);
  where.if_absent = if_absent;
  where.progress = progress;
  if (comm.rank() == 0) source = locate_data(dataset, config.data.path, where, kinds);
  source.kind = find_kind(from_rank_0(comm, source.kind ? std::string(source.kind->key) : ""), kinds);
  source.folder = from_rank_0(comm, source.folder.string());
  source.train = from_rank_0(comm, source.train.string());
  source.val = from_rank_0(comm, source.val.string());
  source.test = from_rank_0(comm, source.test.string());
  source.note = from_rank_0(comm, source.note);
  source.to_write = broadcast_value(comm, source.to_write);
  return source;
}

static OpenOptions open_options(const Config& config, const DataKind& kind, const Communicator& comm) {
  OpenOptions options = open_options(config, kind);
  options.threads = loader_workers(/*asked=*/0, comm.size());
  return options;
}

/// Where images come from that choose or judge, and what is held out for it.
struct Roles {
  bool val = false, test = false;  // sets of their own
  HoldOut held_out;
};

static Roles roles_of(const Config& config, const DataSource& source) {
  const auto& [split, metric] = config.train.best;
  const Portion &validation = config.data.validation, &test = config.data.test;
  const bool has_val = has_split(source, Split::val), has_test = has_split(source, Split::test);
  if (test.is_share() && has_test)
    fail(ExitCode::usage, "data.test: ", source.kind->name, " in ", source.folder.string(),
         " has test images of its own; leave data.test out");
  Roles roles{.held_out = {.seed = static_cast<uint64_t>(config.seed), .limit = config.data.limit, .test = test}};
  // Validation images of the set that choose nothing are test images.
  const bool is_fold = validation.unit == Portion::Unit::fold;
  roles.val = has_val && !is_fold && (split == BestSplit::val || has_test || !test.empty() || validation.is_folder());
  roles.test = has_test || (has_val && !roles.val && !test.is_share());
  if (!roles.val && validation.is_share()) roles.held_out.validation = validation;
  const bool judged = roles.test || test.is_share(), chosen = roles.val || !roles.held_out.validation.empty();
  const Portion usual{.unit = Portion::Unit::percent, .amount = 20};
  if (!chosen && !has_test && !has_val && (split == BestSplit::val || !judged)) roles.held_out.validation = usual;
  if (split == BestSplit::val && !roles.val && roles.held_out.validation.empty())
    fail(ExitCode::usage, place_of_key(config, "train.best.split"),
         "train.best.split val needs validation images: set data.validation, for example to 10%");
  if (split == BestSplit::test && !judged)
    fail(ExitCode::usage, place_of_key(config, "train.best.split"),
         "train.best.split test needs test images: set data.test, for example to 10%");
  return roles;
}

Datasets open_datasets(const Config& config, Communicator& comm, IfAbsent if_absent, std::span<const DataKind> kinds,
                       bool keeps_run) {
  if (comm.rank() == 0 && config.data.train.empty() && config.data.val.empty())
    require_named_folder(config.data.path, config.data.dataset);
  Datasets sets{.source = locate_together(config.data.dataset, config, comm, if_absent, kinds)};
  OpenOptions options = open_options(config, *sets.source.kind, comm);
  if (keeps_run) options.output = config.output;
  run_on_all_ranks(comm, [&] {
    const Roles roles = roles_of(config, sets.source);
    const auto open = [&](Split split) { return sets.source.kind->open(sets.source, split, options); };
    sets.train = open(Split::train);
    if (roles.val) sets.val = open(Split::val);
    if (roles.test) sets.test = open(Split::test);
    sets.held_out = roles.held_out;
    sets.parts = divide(*sets.train, sets.held_out);
  });
  Facts facts;
  for (const auto& [set, images] :
       {std::pair{sets.train.get(), "training"}, {sets.val.get(), "validation"}, {sets.test.get(), "test"}})
    if (set != nullptr) facts.emplace_back(str("the number of ", images, " images"), std::to_string(set->count()));
  require_same(comm, facts, "give all hosts the same data");
  return sets;
}

std::vector<const DataSet*> Datasets::all() const {
  std::vector<const DataSet*> sets;
  for (const auto& set : {train.get(), val.get(), test.get()})
    if (set != nullptr) sets.push_back(set);
  return sets;
}

DataSpec Datasets::spec() const {
  const ImagePart judges = testing();
  const auto last = std::ranges::max_element(parts.training);
  return {.sample = train->shape(),
          .classes = train->classes(),
          .test_images = judges.empty() ? validation().count() : judges.count(),
          .direct = train->direct(),
          .cropped = train->cropped(),
          .train_images = last == parts.training.end() ? 0 : int64_t{*last} + 1};
}

std::vector<std::string> notes_of(const Datasets& sets) {
  std::vector<std::string> notes;
  std::string line = str(class_line(*sets.train), "; ", sets.training().count(), " train");
  if (const ImagePart part = sets.validation(); !part.empty()) line += str(", ", part.count(), " validation");
  if (const ImagePart part = sets.testing(); !part.empty()) line += str(", ", part.count(), " test");
  const bool divided = !sets.parts.validation.empty() || !sets.parts.test.empty();
  notes.push_back(divided ? str(line, " (stratified, seed ", sets.held_out.seed, ")") : line);
  for (const auto& [part, use] : {std::pair{sets.parts.validation, "validation"}, {sets.parts.test, "test"}}) {
    if (part.empty()) continue;
    constexpr size_t kMost = 20;  // classes that are named
    const std::vector<int64_t> trained = class_counts(*sets.train, sets.parts.training),
                               held_out = class_counts(*sets.train, part);
    for (size_t c = 0; c < trained.size() && trained.size() <= kMost; ++c)
      if (trained[c] > 0 && held_out[c] == 0)
        notes.push_back(str("the class ", in_quotes(sets.train->class_names()[c]), " has no ", use,
                            " image: give it more pictures, or hold more out"));
  }
  for (const auto& [set, split] :
       {std::pair{sets.train.get(), Split::train}, {sets.val.get(), Split::val}, {sets.test.get(), Split::test}})
    if (set != nullptr)
      for (std::string& note : notes_of(*set, split)) notes.push_back(std::move(note));
  return notes;
}

std::vector<std::string> warnings_of(const Datasets& sets) {
  std::vector<std::string> warnings;
  if (std::string line = repeated_images(*sets.train); !line.empty()) warnings.push_back(std::move(line));
  // Is the whole set the training set?
  const auto check = [&](const DataSet* set, const ImagePart& part, Split split, std::string_view use) {
    const std::string whole_set = set != nullptr ? same_images(*sets.train, *set, split) : "";
    std::string line = whole_set;
    if (line.empty() && !part.empty()) line = same_pictures(sets.training(), part, use, available_cores());
    if (!line.empty()) warnings.push_back(line);
    return !whole_set.empty();
  };
  const bool val_trains = check(sets.val.get(), sets.validation(), Split::val, "validation"),
             test_trains = check(sets.test.get(), sets.testing(), Split::test, "test");
  // Where one of them is the training set, this follows from what was said.
  if (const ImagePart val = sets.validation(), test = sets.testing();
      !val.empty() && !test.empty() && !val_trains && !test_trains)
    if (std::string line = same_pictures(val, test, "test", available_cores(), "validation"); !line.empty())
      warnings.push_back(std::move(line));
  return warnings;
}

void settle_by_data(Config& config, const Datasets& sets, const RunLength& length) {
  config.data.dataset = sets.source.kind->key;
  optim::fit_run(config.scheduler, length);
}

void make_late_datasets(Datasets& sets, const Config& config, Communicator& comm) {
  if (!sets.source.to_write) return;
  const DataKind& kind = *sets.source.kind;
  const std::string why = sets.source.note;
  sets.source = locate_together(kind.key, config, comm, IfAbsent::write, std::span(&kind, 1));
  sets.source.note += why;
  const OpenOptions options = open_options(config, kind, comm);
  run_on_all_ranks(comm, [&] {
    for (const auto& [set, split] : {std::pair{&sets.train, Split::train}, {&sets.test, Split::test}})
      dynamic_cast<DeferredDataSet&>(**set).set_images(kind.open(sets.source, split, options));
  });
}

Programs lower_programs(const Config& config, const BatchSizes& batch, RankOf who, const DataSpec& data) {
  const Builder model = find_model(config.model);
  require_fitting(config.model, data.sample.channels, data.sample.height, data.sample.width);
  check_augmentation(config, batch.micro, data);
  const Distribution d = distribution(config, batch, who);
  Programs programs{.graph = build_graph(model, input_spec(config, batch.micro, data, Mode::train))};
  programs.train = lower_training(programs.graph, update_rule(config), d, config.train.recompute);
  const int64_t images = std::min(config.train.eval_batch_size, data.test_images);
  programs.evaluate = lower_evaluation(build_graph(model, input_spec(config, images, data, Mode::evaluate)), d);
  return programs;
}

ImageValues values_by_images(const Graph& graph, const Config& config, Communicator& comm, const Datasets& data) {
  ImageValues found;
  for (size_t i = 0; i < graph.parameters().size(); ++i) {
    const Parameter& p = graph.parameters()[i];
    if (!p.init.whitens) continue;
    std::string bytes;  // rank 0's: others may run on machines that round differently
    run_on_all_ranks(comm, [&] {
      if (comm.rank() != 0) return;
      const InputSpec input = input_spec(config, 1, data.spec(), Mode::evaluate);
      const auto filters =
          whitening_filters(*data.train, data.parts.training, input.scale, input.shift, p.shape[2], p.shape[0]);
      bytes.assign(reinterpret_cast<const char*>(filters.data()), filters.size() * sizeof(float));
    });
    bytes = from_rank_0(comm, bytes);
    found[i].resize(bytes.size() / sizeof(float));
    std::memcpy(found[i].data(), bytes.data(), bytes.size());
  }
  return found;
}

void initialize(Engine& engine, const Graph& graph, uint64_t seed, const ImageValues& given) {
  std::vector<float> values;
  write_weights(graph, engine.lowered().flat, engine.state().front(), [&](size_t parameter) {
    values = initial_values(graph, parameter, seed);
    if (const auto image = given.find(parameter); image != given.end())
      std::ranges::copy(image->second, values.begin());
    return std::span<const float>(values);
  });
  engine.state_written();
}

}  // namespace ct
