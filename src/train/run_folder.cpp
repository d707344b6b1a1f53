#include "train/run_folder.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <sstream>

#include "base/error.h"
#include "base/host.h"
#include "train/config/load.h"
#include "train/config/print.h"
#include "train/config/resume.h"

namespace ct {
namespace {

std::string new_run_id() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  std::ostringstream id;
  id << std::hex << std::chrono::duration_cast<std::chrono::microseconds>(now).count() << "-" << std::dec << getpid();
  return id.str();
}

}  // namespace

Json to_json(const RunState& state, const Provenance& p) {
  Json json = to_json(state);
  json["config"] = p.config;
  json["ranks"] = p.ranks;
  json["dataset"] = p.dataset;
  json["data_crc32c"] = p.data_crc;
  json["device"] = p.device;
  return json;
}

Provenance provenance_from(const Json& state) {
  try {
    return {state.at("config"), state.at("ranks"), state.at("dataset"), state.at("data_crc32c"), state.at("device")};
  } catch (const Json::exception&) {
    fail(ExitCode::checkpoint,
         "state.json does not say what the run was; the checkpoint is damaged, use an earlier one");
  }
}

RunFolder::RunFolder(const Config& config, int ranks, const ResumeMode& resume, bool reset, Console& console)
    : out_(config.output), lock_(files_, out_), keep_last_(static_cast<int>(config.checkpoint.keep_last)) {
  if (!lock_.warning().empty()) console.note("warning: " + lock_.warning());
  if (reset) reset_run(files_, out_);
  const Path folder = out_ / "ckpt";
  RunIdentity identity{"", config.model.name};
  store_ = std::make_unique<Store>(files_, folder, identity);
  store_->recover();

  const bool any_checkpoint = !store_->list().empty();
  const bool present = any_checkpoint || std::filesystem::exists(out_ / "metrics.jsonl");
  if (present && resume.kind == ResumeMode::never)
    fail(ExitCode::usage, "output folder ", in_quotes(out_.native()),
         " holds a run and --resume never was given: add --reset to forget it, or give another --output");
  if (resume.kind == ResumeMode::path) {
    resume_from_ = resume.checkpoint;
    if (present && !std::filesystem::equivalent(resume_from_.parent_path(), folder))
      fail(ExitCode::usage, "output folder ", in_quotes(out_.native()), " holds another run than ",
           in_quotes(resume_from_.native()), ": give another --output, or add --reset to forget it");
  } else if (resume.kind != ResumeMode::never) {
    const auto step = store_->newest_good([&](const std::string& problem) { console.note("warning: " + problem); });
    if (step) resume_from_ = store_->path_of(*step);
    if (!step && resume.kind == ResumeMode::must)
      fail(ExitCode::checkpoint, "--resume must: there is no checkpoint in ", in_quotes(folder.native()),
           "; leave --resume out to start a new run");
    if (!step && present) console.note("the run in " + out_.string() + " has no checkpoint yet; it starts anew");
  }

  identity.run = new_run_id();
  if (!resume_from_.empty()) {
    const Checkpoint checkpoint = load_checkpoint(resume_from_, identity);
    identity.run = checkpoint.manifest.identity.run;
    resumed_ = provenance_from(checkpoint.state);
    const Config saved = load_config_text(resumed_->config, resume_from_.string() + "/state.json");
    const ResumeDifference difference = resume_difference(saved, resumed_->ranks, config, ranks);
    if (!difference.forbidden.empty()) {
      std::string keys;
      for (const std::string& key : difference.forbidden) keys += (keys.empty() ? "" : "; ") + key;
      fail(ExitCode::checkpoint, "the run in ", in_quotes(out_.native()), " was started with another configuration (",
           keys, "): restore these keys, or start a new run with --reset or another --output");
    }
    for (const std::string& warning : difference.warnings) console.note("warning: " + warning);
  }
  store_ = std::make_unique<Store>(files_, folder, identity);
}

bool RunFolder::contains(int64_t step) const {
  const auto steps = store_->list();
  return std::find(steps.begin(), steps.end(), step) != steps.end();
}

bool RunFolder::ended_at(int64_t step) const {
  if (!std::filesystem::exists(out_ / "metrics.jsonl")) return false;
  std::istringstream lines(read_file(out_ / "metrics.jsonl"));
  bool ended = false;
  for (std::string line; std::getline(lines, line);) {
    const Json record = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (record.is_object() && record.value("event", "") == "end") ended = record.value("step", int64_t{-1}) == step;
  }
  return ended;
}

Path RunFolder::best_of(int64_t step) const { return out_ / "ckpt" / saved_best_name(step); }

void RunFolder::begin(const Config& config, int ranks, const RunState* resumed) {
  write_file_atomic(files_, out_ / "config.yaml", to_yaml(config, {.ranks = ranks}));
  constexpr int64_t kBeforeAll = -1;  // a run without a checkpoint starts anew, and so do its records
  MetricsLog::rewind(files_, out_, resumed != nullptr ? resumed->step : kBeforeAll);
  if (resumed == nullptr) return;
  // Evaluations after the checkpoint are undone, and with them what they thought best.
  if (const Path earlier = best_of(resumed->step); std::filesystem::exists(earlier)) {
    const std::string bytes = read_file(earlier);
    write_file_atomic(files_, out_ / "best.bin", bytes);
  }
}

std::string RunFolder::save(const RunState& state, const Provenance& provenance, const Metadata& metadata,
                            const Programs& programs, const Engine& engine) {
  const auto buffers = engine.state();
  std::vector<TorchTensors> moments;
  std::vector<TensorView> optimizer;
  for (size_t i = 1; i < buffers.size(); ++i) {
    moments.emplace_back(programs.graph, programs.train.flat, buffers[i].values, "." + buffers[i].name);
    const auto views = moments.back().views();
    optimizer.insert(optimizer.end(), views.begin(), views.end());
  }
  const TorchTensors weights(programs.graph, programs.train.flat, buffers.front().values);
  store_->save(state.step, weights.views(), metadata, optimizer, to_json(state, provenance));

  if (state.best_step >= 0 && std::filesystem::exists(out_ / "best.bin"))
    write_file_atomic(files_, best_of(state.step), read_file(out_ / "best.bin"));
  store_->prune(keep_last_);
  for (const std::string& name : list_folder(out_ / "ckpt"))  // of checkpoints that are gone
    if (const auto step = saved_best_step(name); step && !contains(*step)) remove_file(files_, out_ / "ckpt" / name);
  return store_->path_of(state.step).string();
}

void RunFolder::write_weights(const std::string& name, const Programs& programs, const Engine& engine,
                              const Metadata& metadata) {
  const TorchTensors weights(programs.graph, programs.train.flat, engine.state().front().values);
  write_safetensors(files_, out_ / name, weights.views(), metadata);
}

RunState restore_checkpoint(const Path& path, const std::string& model, const Programs& programs,
                            const Engine& engine) {
  const Checkpoint checkpoint = load_checkpoint(path, {"", model});
  const auto buffers = engine.state();
  const Graph& graph = programs.graph;
  const FlatLayout& flat = programs.train.flat;
  TorchTensors weights(graph);
  restore(checkpoint.weights, weights.named());
  weights.store(graph, flat, buffers.front().values);

  std::vector<TorchTensors> moments;
  std::vector<NamedTensor> wanted;
  for (size_t i = 1; i < buffers.size(); ++i) {
    moments.emplace_back(graph, "." + buffers[i].name);
    const auto named = moments.back().named();
    wanted.insert(wanted.end(), named.begin(), named.end());
  }
  if (!wanted.empty()) {
    if (checkpoint.optimizer.size() != 1)
      fail(ExitCode::checkpoint, in_quotes(path.native()), " has ", checkpoint.optimizer.size(),
           " optimizer files where this version reads one; use the version that wrote it");
    restore(checkpoint.optimizer.front(), wanted);
    for (size_t i = 1; i < buffers.size(); ++i) moments[i - 1].store(graph, flat, buffers[i].values);
  }
  return run_state_from(checkpoint.state);
}

}  // namespace ct
