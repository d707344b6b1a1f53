#include "cli/trained_network.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>

#include "base/cores.h"
#include "base/error.h"
#include "base/host.h"
#include "checkpoint/store.h"
#include "comm/host/threads.h"
#include "model/models.h"
#include "train/setup.h"

namespace ct {
namespace {

constexpr const char* kDivergedRemedy =
    ": training had diverged; use an earlier checkpoint (cifar-train ckpt ls RUN), or train again at a lower rate";

/// What layers compute with: `word` of --dtype, or as the run did. Error(usage) where this device does not.
DType dtype_of(const std::string& word, const WeightsInfo& info, const std::string& checkpoint,
               const Backend& backend) {
  const std::string name = word.empty() ? info.compute : word;
  const DType type = name == "bf16" ? DType::bf16 : name == "fp16" || name == "f16" ? DType::f16 : DType::f32;
  if (const std::string problem = backend.problem_with(type); !problem.empty())
    fail(ExitCode::usage, word.empty() ? in_quotes(checkpoint) + " was trained in " : "--dtype ", name, ": ", problem,
         "; use --dtype fp32");
  return type;
}

/// The weights in the form that layers compute with, in the device's memory.
Memory params_of(const SafetensorsFile& file, WeightSet set, const Graph& graph, Backend& backend) {
  const FlatLayout flat = flatten_parameters(graph);
  Memory params = backend.allocate(static_cast<size_t>(flat.compute_bytes));
  const Memory host = backend.allocate_host(params.bytes());
  load_compute_weights(file, set, graph, flat, host.data());
  backend.copy(params.data(), host.data(), params.bytes());
  backend.wait();
  return params;
}

}  // namespace

void NetworkOptions::add_to(CLI::App& app) {
  app.add_option("--views", views,
                 "plain | mirrored | shifted: the copies of an image whose logits are averaged (default: the run's)")
      ->check(CLI::IsMember(words_of(EvalViews{})));
  which.add_to(app);
  app.add_option("--dtype", dtype, "fp32 | bf16 | fp16: the compute type (default: the run's)")
      ->check(CLI::IsMember({"fp32", "bf16", "fp16"}));
  app.add_option("--device", config.device, "auto | cpu | cuda | cuda:N")->check(device_problem);
  cuda_path_given =
      app.add_option("--cuda-path", config.cuda.path, "the folder that is searched first for cuDNN and cuBLAS")
          ->type_name("FOLDER");
}

TrainedNetwork::TrainedNetwork(const std::string& checkpoint, const NetworkOptions& options, Console& console)
    : checkpoint_(checkpoint),
      file_(weights_file(checkpoint)),
      info_(info_of(file_)),
      set_(options.which.of(file_)),
      dtype_(options.dtype),
      views_(of_word(options.views, info_.eval_views)),
      config_(options.config),
      console_(console),
      comm_(make_solo()) {
  if (info_.class_names.empty())
    fail(ExitCode::checkpoint, in_quotes(checkpoint), " names no classes; use a file of a run's folder");
  for (const std::string& note : {conversions(file_), weight_set_note(file_, set_)})
    if (!note.empty()) console.note(in_quotes(checkpoint) + ": " + note);
  if (const std::string lost = not_finite_text(not_finite(file_, set_)); !lost.empty())
    fail(ExitCode::diverged, in_quotes(checkpoint), ": ", lost, kDivergedRemedy);
}

void TrainedNetwork::warn(const std::string& text) const {
  if (!text.empty()) console_.note("warning: " + text);
}

void TrainedNetwork::prepare(int64_t batch, const SampleShape& sample) {
  console_.progress("preparing the network");
  config_.data.mean = info_.mean;
  config_.data.std = info_.std;
  config_.cpu.winograd = info_.winograd;
  config_.cuda.tf32 = info_.tf32;
  warn(gpu_left_out(config_));
  backend_ = make_backend(config_, /*local_rank=*/0, "use a smaller --batch-size");
  backend_->enter_thread();
  backend_->plans.use(info_.plans);
  const DType compute = dtype_of(dtype_, info_, checkpoint_, *backend_);
  config_.bf16.enabled = compute == DType::bf16;
  config_.fp16.enabled = compute == DType::f16;
  const DataSpec spec{.sample = sample, .classes = static_cast<int>(info_.class_names.size())};
  require_fitting(info_.model, sample.channels, sample.height, sample.width);
  const Graph graph = build_graph(find_model(info_.model), input_spec(config_, batch, spec, Mode::evaluate));
  params_ = params_of(file_, set_, graph, *backend_);
  program_ = lower_evaluation(graph, {});
  evaluators_.clear();
  add_evaluator();
}

void TrainedNetwork::add_evaluator() {
  evaluators_.push_back(std::make_unique<Evaluator>(
      *backend_, *comm_, *program_,
      BindOptions{.params = params_.data(), .warn = [this](const auto& text) { warn(text); }}));
}

/// As many as a CPU has cores and memory for, and `batches` can use.
void TrainedNetwork::add_evaluators(int64_t batches) {
  if (!backend_->is_host()) return;
  const int64_t each = evaluators_.front()->bound().allocated().activations;
  const int64_t room = host_memory().available / 2 / std::max<int64_t>(each, 1);
  const int64_t wanted = std::min({int64_t{available_cores()}, batches, 1 + room});
  while (std::ssize(evaluators_) < wanted) add_evaluator();
}

Evaluation TrainedNetwork::evaluate(const DataSet& set, std::vector<uint32_t> images, const std::string& split,
                                    const Answered& answered) {
  const EvalPipeline batches(set, std::move(images), evaluators_.front()->batch(),
                             loader_workers(config_.data.workers, /*ranks=*/1));
  add_evaluators(batches.batches());
  const EvaluationOptions options{.views = views_, .progress = [&](int64_t done, int64_t of) {
                                    console_.advance([&] { return str(split, " image ", done, "/", of); });
                                  }};
  Evaluation result = ct::evaluate(evaluators_, batches, split, options, answered);
  console_.progress("");
  set.check_unchanged();
  if (const std::string missed = backend_->plans.missed(); !missed.empty())
    warn(missed + "; another one is used, so last digits may differ from the run's");
  return result;
}

void TrainedNetwork::require_finite_loss(const Evaluation& result) const {
  if (!std::isfinite(result.loss))
    fail(ExitCode::diverged, in_quotes(checkpoint_), ": the loss on the ", result.split,
         " images is not finite, though all weights are", kDivergedRemedy);
}

}  // namespace ct
