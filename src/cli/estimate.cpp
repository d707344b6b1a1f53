// cifar-train estimate: what a run would need of memory and of the wires, for every ZeRO stage. Nothing is trained or
// written, and no images are needed.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/error.h"
#include "base/host.h"
#include "base/paths.h"
#include "base/terminal.h"
#include "base/text.h"
#include "cli/fitting_run.h"
#include "cli/ranks.h"
#include "cli/subverbs.h"
#include "cli/training_words.h"
#include "data/locate.h"
#include "device/cuda.h"
#include "fetch/published.h"
#include "metrics/metrics_log.h"
#include "train/config/load.h"
#include "train/host_lacks.h"
#include "train/memory/resident_images.h"
#include "train/weights.h"

namespace ct {
namespace {

/// What is known of the data set without reading it, and a note for people.
std::pair<DataSize, std::string> data_set_size(const Config& config) {
  const auto found = find_data(config.data.dataset, config.data.path, split_folders(config));
  const DataKind* named = find_kind(config.data.dataset);
  const DataKind& kind = found ? *found->kind : named != nullptr ? *named : data_kinds().back();
  const OpenOptions options = open_options(config, kind);
  DataSize size = kind.size(found.value_or(DataSource{}), options);
  size.spec.cropped = options.pictures.crop.has_value();
  if (found) return {size, std::string(kind.name)};
  const bool made = &kind == &data_kinds().back();
  return {size, str("no ", made ? "data set" : kind.name, " that the program reads under ", plain(config.data.path),
                    ": ", made ? str("the ", kind.key, " set's") : "its usual", " size is used")};
}

std::string mega(int64_t bytes) { return fmt::format("{:.1f}", static_cast<double>(bytes) * 1e-6); }

std::string settings(const BatchSizes& batch) {
  return str("train_micro_batch_size_per_gpu=", batch.micro, " and gradient_accumulation_steps=", batch.accumulation);
}

/// What estimates are compared with.
struct Compared {
  Limits limits;
  std::optional<Backend::Room> room;  // of the GPU, where there is one
  std::string problem;                // why nothing is compared; empty: it is
};

Compared compare_with(const Config& config, const Backend& backend) {
  if (wants_cuda(config) && gpu_count(config) == 0)
    return {.problem =
                cuda_problem(first_gpu(config)) + "; the figures are those of a CPU's plan, whose workspaces differ"};
  Compared with{.limits = {.host = host_memory().available}, .room = backend.room()};
  if (with.room) with.limits.device = with.room->available;
  return with;
}

bool recomputes(const Config& config) { return config.train.recompute == Recompute::blocks; }

/// What to do, in one line.
std::string advice(const std::vector<StageEstimate>& stages, size_t configured, const EstimateOf& what,
                   const std::optional<BatchSizes>& largest, const std::optional<StageAndBatch>& both,
                   const Compared& with) {
  const BatchSizes& batch = what.batch;
  if (!with.problem.empty()) return "the figures are not compared with this machine: " + with.problem;
  const auto fits = [&](const StageEstimate& s) { return with.limits.allow(s); };
  if (fits(stages[configured])) {
    std::string text = str("stage ", stages[configured].stage, " fits");
    if (largest && largest->micro > batch.micro)
      text += str("; a micro-batch of ", largest->micro, " would fit too (with other bits): ", settings(*largest));
    return text;
  }
  for (const StageEstimate& s : stages)
    if (s.stage > stages[configured].stage && fits(s))
      return str("stage ", stages[configured].stage, " does not fit; set zero_optimization.stage=", s.stage,
                 largest ? ", or " + settings(*largest) : "");
  if (largest) return str("no stage fits with micro-batches of ", batch.micro, "; set ", settings(*largest));
  if (both) return str("set zero_optimization.stage=", both->stage, " and ", settings(both->batch));
  return str("nothing fits: use ", recomputes(what.config) ? "" : "train.recompute=blocks, ",
             with.room ? "more GPUs, zero_optimization.offload_optimizer.device=cpu, " : "",
             "fewer ranks on this host, bf16, or a smaller train.eval_batch_size or model");
}

Json to_json(const Moved& moved) { return {{"elements", moved.elements}, {"bytes", moved.bytes}}; }

Json to_json(const StageEstimate& s) {
  const MemoryUse& use = s.rank.use;
  return {{"stage", s.stage},
          {"rank",
           {{"total", s.rank.total()},
            {"device", s.rank.device()},
            {"host", s.rank.host()},
            {"weights", use.weights},
            {"gradients", use.gradients},
            {"optimizer", use.optimizer},
            {"offloaded", use.host},
            {"activations", use.activations},
            {"activations_in_training", s.rank.training},
            {"activations_in_evaluation", s.rank.evaluation},
            {"gradient_buckets", use.exchange},
            {"received", s.rank.received},
            {"images", use.images},
            {"other", use.other},
            {"mirrors", s.rank.mirrors},
            {"staged", s.rank.staged},
            {"snapshot", s.rank.snapshot},
            {"overhead", s.rank.overhead},
            {"partial_sums", s.rank.partial_sums},
            {"transient", {{"gathered_weights", use.gathered_weights}, {"gradient_buckets", use.gradient_buckets}}}}},
          {"device", s.device},
          {"host", s.host},
          {"traffic", {{"training", to_json(s.traffic.training)}, {"norms", to_json(s.traffic.norms)}}}};
}

Json to_json(const std::vector<StageEstimate>& stages, const EstimateOf& what, const std::optional<BatchSizes>& largest,
             const Compared& with, const std::string& advice) {
  const Config& config = what.config;
  const BatchSizes& batch = what.batch;
  Json result = {{"model", config.model.name},
                 {"parameters", stages.front().parameters},
                 {"compute", name_of(compute_type(config))},
                 {"ranks", what.ranks},
                 {"batch", {{"train", batch.train}, {"micro", batch.micro}, {"accumulation", batch.accumulation}}},
                 {"configured_stage", config.zero_optimization.stage},
                 {"program", program_bytes()},
                 {"data_set", what.data_set_bytes},
                 {"available", with.limits.host ? Json(*with.limits.host) : Json()},
                 {"ranks_a_gpu", stages.front().rank.on_gpu ? Json(what.sharing.ranks_a_device) : Json()},
                 {"available_of_gpu", with.limits.device ? Json(*with.limits.device) : Json()},
                 {"largest_micro_batch", largest ? Json(largest->micro) : Json()},
                 {"advice", advice},
                 {"stages", Json::array()}};
  for (const StageEstimate& s : stages) {
    result["stages"].push_back(to_json(s));
    result["stages"].back()["fits"] = with.problem.empty() ? Json(with.limits.allow(s)) : Json();
  }
  return result;
}

void print_table(const std::vector<StageEstimate>& stages, size_t configured, const EstimateOf& what,
                 const Compared& with) {
  const auto row = [&](const char* what, auto value) {
    std::printf("  %-26s", what);
    for (const StageEstimate& s : stages) std::printf(" %12s", std::string(value(s)).c_str());
    std::printf("\n");
  };
  const auto bytes = [&](const char* what, auto value) {
    row(what, [&](const StageEstimate& s) { return mega(value(s)); });
  };
  row("ZeRO stage",
      [&](const StageEstimate& s) { return std::to_string(s.stage) + (&s == &stages[configured] ? " (chosen)" : ""); });
  const auto fits = [&](const Limits& limits) {
    if (with.problem.empty()) row("fits", [&](const StageEstimate& s) { return limits.allow(s) ? "yes" : "no"; });
  };
  const bool on_gpu = stages.front().rank.on_gpu;
  std::printf(on_gpu ? "per rank, MB of its GPU\n" : "per rank, MB\n");
  bytes("weights", [](const auto& s) { return s.rank.use.weights; });
  bytes("gradients", [](const auto& s) { return s.rank.use.gradients; });
  bytes("  of them partial sums", [](const auto& s) { return s.rank.partial_sums; });
  bytes("optimizer", [](const auto& s) { return s.rank.use.optimizer; });
  bytes("activations and workspace", [](const auto& s) { return s.rank.use.activations; });
  bytes("  in training", [](const auto& s) { return s.rank.training; });
  bytes("  in evaluation", [](const auto& s) { return s.rank.evaluation; });
  bytes("  of them gathered weights", [](const auto& s) { return s.rank.use.gathered_weights; });
  bytes("gradient buckets", [](const auto& s) { return s.rank.use.exchange; });
  if (on_gpu) {
    bytes("received by NCCL", [](const auto& s) { return s.rank.received; });
    bytes("training images", [](const auto& s) { return s.rank.use.images; });
    bytes("other", [](const auto& s) { return s.rank.use.other; });
    bytes("total", [](const auto& s) { return s.rank.device(); });
    std::printf("a GPU with %d rank%s, MB\n", what.sharing.ranks_a_device, what.sharing.ranks_a_device == 1 ? "" : "s");
    bytes("total", [](const auto& s) { return s.device; });
    fits({.device = with.limits.device});
    std::printf("per rank, MB of the host\n");
    bytes("offloaded optimizer state", [](const auto& s) { return s.rank.use.host; });
    bytes("page-locked copies", [](const auto& s) { return s.rank.mirrors; });
    bytes("collectives via the host", [](const auto& s) { return s.rank.staged; });
  }
  bytes("snapshot of a save", [](const auto& s) { return s.rank.snapshot; });
  bytes("other", [&](const auto& s) { return s.rank.overhead + (on_gpu ? 0 : s.rank.use.other); });
  bytes("total", [](const auto& s) { return s.rank.host(); });
  std::printf("this host, MB\n");
  bytes("total", [](const auto& s) { return s.host; });
  fits({.host = with.limits.host});
  std::printf("moved per rank and step\n");
  row("million elements",
      [](const StageEstimate& s) { return fmt::format("{:.3f}", s.traffic.training.elements * 1e-6); });
  bytes("MB", [](const auto& s) { return static_cast<int64_t>(s.traffic.training.bytes); });
}

bool has_gpu(const Config& config) { return wants_cuda(config) && gpu_count(config) > 0; }

/// A login node has no GPU, but its sizes are asked for: those of a program on the CPU are the same, but for libraries'
/// workspaces, and bf16 is as large as fp16. Nothing is timed, which would need what is only estimated.
Config for_this_machine(Config config) {
  config.cuda.autotune = config.cpu.autotune = false;
  settle_bf16(config);
  if (config.fp16.enabled && !has_gpu(config)) {
    config.fp16.enabled = false;
    config.bf16.enabled = true;
  }
  return config;
}
std::unique_ptr<Backend> backend_for_sizes(const Config& config) {
  return has_gpu(config) ? make_backend(config) : make_cpu_backend({.winograd = config.cpu.winograd});
}

}  // namespace

int verb_estimate(const Words& words) {
  CLI::App app("Memory and traffic of a run, for every ZeRO stage; nothing is trained or written.",
               "cifar-train estimate");
  TrainingWords training;
  std::string asked_ranks = "auto";
  bool json = false;
  training.add_to(app);
  app.add_option("--ranks", asked_ranks, "ranks on this host: a number or auto")->type_name("N");
  app.add_flag("--json", json, "one JSON object instead of text");
  if (!parse(app, words)) return 0;

  training.init_options();  // refuses words that do not fit
  std::vector<std::string> warnings;
  const Config given = load_config(training.sources(&warnings), &warnings), config = for_this_machine(given);
  for (const std::string& line : warnings) warn(line);
  if (given.fp16.enabled && !config.fp16.enabled)
    warn("fp16.enabled: there is no GPU here, so the figures are those of bf16, which is as large");
  const int ranks = rank_count(config, asked_ranks);
  auto [data, data_note] = data_set_size(config);
  if (config.data.limit > 0) data.spec.train_images = std::min(data.spec.train_images, config.data.limit);
  const EstimateOf what{.config = config,
                        .batch = batch_sizes(config, ranks),
                        .ranks = ranks,
                        .data = data.spec,
                        .data_set_bytes = data.bytes,
                        .sharing = foretell_sharing(config, ranks)};
  // Published weights fit, and nothing is downloaded for an estimate. Without the images their size is a guess.
  if (const std::string& word = training.initial_word(); !word.empty() && published_weights(word) == nullptr) {
    if (find_data(config.data.dataset, config.data.path, split_folders(config)))
      require_fitting_initial_weights(training, lower_programs(config, what.batch, {0, ranks}, data.spec).graph);
    else
      SafetensorsFile(weights_file(word), SafetensorsFile::Check::header);
  }
  for (const std::string& line : host_warnings(given, ranks)) warn(line);
  const auto backend = backend_for_sizes(config);
  backend->enter_thread();  // workspaces depend on it
  const Compared with = compare_with(config, *backend);
  std::vector<StageEstimate> stages;
  for (int stage = 0; stage <= 3; ++stage) stages.push_back(estimate_with_images(*backend, what, stage, with.room));
  const auto configured = static_cast<size_t>(config.zero_optimization.stage);
  const auto largest =
      with.problem.empty() ? largest_micro_batch(*backend, what, stages[configured].stage, with.limits) : std::nullopt;
  const auto both = with.problem.empty() && !largest ? smaller_in_both(*backend, what, with.limits) : std::nullopt;
  const std::string line = advice(stages, configured, what, largest, both, with);

  const BatchSizes& batch = what.batch;
  if (json) {
    std::printf("%s\n", to_json(stages, what, largest, with, line).dump().c_str());
    return 0;
  }
  const auto print = [](const std::string& text) {
    const int columns = std::min(terminal_columns(STDOUT_FILENO), 80);
    std::printf("%s\n", wrapped(text, static_cast<size_t>(columns)).c_str());
  };
  print(str(config.model.name, config.bf16.enabled == true ? " bf16" : "",
            recomputes(config) ? ", blocks computed again" : "", ", ", backend->description(), "; batch ", batch.train,
            " = ", batch.micro, " x ", batch.accumulation, " micro-steps x ", ranks, " ranks"));
  const std::string available =
      str(with.limits.host ? str("; available here: ", mega(*with.limits.host), " MB") : "",
          with.room ? str(", and ", mega(with.room->available), " MB of ", with.room->device) : "");
  print(str("data set: ", data_note, ", ", mega(data.bytes),
            " MB, once for all ranks; the program itself: ", mega(program_bytes()), " MB", available));
  print_table(stages, configured, what, with);
  print(line);
  return 0;
}

}  // namespace ct
