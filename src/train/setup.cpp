#include "train/setup.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "model/models.h"
#include "train/agree.h"
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
          .consecutive_hysteresis = f.consecutive_hysteresis};
}
}  // namespace

UpdateRule update_rule(const Config& config) {
  UpdateRule rule{
      .optimizer = config.optimizer.value(), .groups = config.optimizer_groups, .clip = config.gradient_clipping};
  const bool all_decay = std::visit([](const auto& o) { return o.no_decay == "none"; }, rule.optimizer);
  if (!all_decay) rule.groups.push_back(optim::kVectorsDoNotDecay);
  if (config.fp16.enabled) rule.loss_scale = loss_scale_options(config);
  return rule;
}

Schedule step_schedule(const Config& config) {
  return [optimizer = config.optimizer.value(), scheduler = config.scheduler](int64_t step) {
    return optim::schedule_row(scheduler, optimizer, step);
  };
}

std::string optimizer_note(const Config& config) {
  return std::visit(
      [](const auto& o) {
        const std::string kind = o.decay().empty() ? "" : str(o.decay(), " ");
        return o.weight_decay == 0 ? std::string(o.kType)
                                   : str(o.kType, " with ", kind, "weight decay ", o.weight_decay);
      },
      config.optimizer.value());
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
                   .offload_optimizer = zero.offload_optimizer_device == "cpu" && wants_cuda(config)}};
}

LaneOptions lane_options(const Config& config) { return {.beside = config.zero_optimization.overlap_comm}; }

std::vector<AugmentStep> augment_steps(const Config& config) {
  std::vector<AugmentStep> steps;
  for (const auto& step : config.data.augment) {
    if (step.name == "flip")
      steps.push_back({.kind = AugmentStep::flip, .p = step.p});
    else if (step.name == "random_crop")
      steps.push_back({.kind = AugmentStep::random_crop, .padding = static_cast<int>(step.padding)});
    else
      fail(ExitCode::bug, "augmentation ", step.name, " has no meaning");
  }
  return steps;
}

InputSpec input_spec(const Config& config, int64_t batch, int classes, Mode mode) {
  InputSpec spec{.batch = batch, .classes = classes, .mode = mode, .compute = compute_type(config)};
  for (size_t c = 0; c < 3; ++c) {  // (u8/255 - mean) / std
    spec.scale.push_back(static_cast<float>(1 / (255 * config.data.std[c])));
    spec.shift.push_back(static_cast<float>(-config.data.mean[c] / config.data.std[c]));
  }
  if (mode == Mode::train) spec.label_smoothing = static_cast<float>(config.train.label_smoothing);
  return spec;
}

PipelineOptions pipeline_options(const Config& config, const BatchSizes& batch, const Distribution& d, int rank) {
  const int first = d.micro_batch(rank, 0);
  return {.seed = static_cast<uint64_t>(config.seed),
          .shuffle = config.data.shuffle,
          .augment = augment_steps(config),
          .train_batch = batch.train,
          .micro_batch = batch.micro,
          .first_micro = first,
          .micros = d.accumulation,
          .micro_stride = d.accumulation > 1 ? d.micro_batch(rank, 1) - first : 1};
}

void fill_micro_batch(Pipeline& pipeline, int64_t epoch, int64_t step, int64_t k, Engine& engine) {
  const Inputs in = engine.inputs();
  const auto micro = static_cast<size_t>(engine.lowered()[engine.lowered().ports.labels].shape[0]);
  pipeline.fill(epoch, step, k, {in.images, micro * kImageBytes}, {reinterpret_cast<Draw*>(in.draws), micro},
                {in.labels, micro});
}

Datasets open_datasets(const Config& config, Communicator& comm, IfAbsent if_absent) {
  Datasets sets;
  const auto progress = [&] { comm.pulse().advance(Phase::data); };
  progress();
  if (comm.rank() == 0) {
    require_named_folder(config.data.path);
    sets.source = locate_data(config.data.dataset, config.data.path, if_absent, progress);
  }
  sets.source.name = from_rank_0(comm, sets.source.name);
  sets.source.folder = from_rank_0(comm, sets.source.folder.string());
  sets.source.note = from_rank_0(comm, sets.source.note);
  const ImageSetOptions options{.on_corrupt = config.data.on_corrupt == "skip" ? OnCorrupt::skip : OnCorrupt::error};
  together(comm, [&] {
    sets.train = std::make_unique<ImageSet>(open_images(sets.source, Split::train, options));
    sets.test = std::make_unique<ImageSet>(open_images(sets.source, Split::test, options));
  });
  sets.parts = hold_out(static_cast<uint64_t>(config.seed), sets.train->count(), config.data.validation);
  return sets;
}

Programs lower_programs(const Config& config, const BatchSizes& batch, RankOf who, int classes, int64_t test_images) {
  const Builder model = find_model(config.model.name);
  const Distribution d = distribution(config, batch, who);
  Programs programs{.graph = build_graph(model, input_spec(config, batch.micro, classes, Mode::train))};
  programs.train = lower_training(programs.graph, update_rule(config), d);
  const int64_t images = std::min(config.train.eval_batch_size, test_images);
  programs.evaluate = lower_evaluation(build_graph(model, input_spec(config, images, classes, Mode::evaluate)), d);
  return programs;
}

void initialize(Engine& engine, const Graph& graph, uint64_t seed) {
  std::vector<float> values;
  write_weights(graph, engine.lowered().flat, engine.state().front(), [&](size_t parameter) {
    values = initial_values(graph, parameter, seed);
    return std::span<const float>(values);
  });
  engine.state_written();
}

}  // namespace ct
