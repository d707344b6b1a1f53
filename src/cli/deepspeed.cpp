// DeepSpeed's words on the command line, and those of its tutorials' scripts.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <sstream>

#include "base/error.h"
#include "base/files.h"
#include "base/paths.h"
#include "base/text.h"
#include "base/utf8.h"
#include "cli/foreign.h"
#include "deepspeed/env_file.h"
#include "deepspeed/import.h"
#include "deepspeed/launch_env.h"
#include "deepspeed/listeners.h"
#include "deepspeed/tutorial_flags.h"
#include "train/config/foreign.h"

namespace ct {
namespace {

/// What became of each key, a line each behind `mark`.
std::string report(const Import& found, const std::string& mark) {
  std::istringstream lines(to_text(found));
  std::string text;
  for (std::string line; std::getline(lines, line);) text += mark + printable(line) + "\n";
  return text;
}

int import_file(const Words& words) {
  CLI::App app(
      "Reports for each key of a configuration whether it is honoured, ignored or refused, and why. Prints the report "
      "as comments, then the honoured keys as this program's YAML.",
      "cifar-train config import");
  std::string name, out;
  app.add_option("FILE,--deepspeed_config", name, "a DeepSpeed JSON file, or its content in URL-safe base64")
      ->type_name("CONFIG")
      ->required();
  app.add_option("--out", out, "write the configuration to this new file, and print the comments only")
      ->type_name("FILE");
  if (!parse(app, words)) return 0;
  const std::filesystem::path path = locate_config(name, /*option=*/"");
  const Import result = import_config(path);
  for (const std::string& line : result.warnings) warn(line);
  if (result.keys.empty()) warn(str(printable(source_name(path)), " is empty and has no effect"));
  const std::string yaml = result.broken.empty() ? result.yaml : "";  // which would not load
  const std::string text = str("# From ", printable(source_name(path)), ":\n", report(result, "#   "), yaml);
  if (!out.empty() && result.broken.empty()) {
    if (kind_of_entry(out) != PathKind::nothing)
      fail(ExitCode::usage, "--out ", in_quotes(out), ": exists already; give another name");
    FileSystem files;
    write_file_atomic(files, out, text);
  }
  std::fputs((out.empty() ? text : report(result, "")).c_str(), stdout);
  if (!result.broken.empty()) fail(ExitCode::usage, result.broken);
  const auto refused = std::ranges::count(result.keys, Fate::refused, &KeyFate::fate);
  if (refused > 0)
    fail(ExitCode::usage, source_name(path), ": ", counted(refused, "key"), refused == 1 ? " is" : " are",
         " refused, for the reasons above; correct or remove ", refused == 1 ? "it" : "them");
  return 0;
}

}  // namespace

void add_foreign_files(CLI::App& app, ConfigWords& files) {
  app.add_option("--deepspeed_config,--deepscale_config", files.overlay,
                 "a DeepSpeed JSON file, or its content in URL-safe base64; overlays --config")
      ->type_name("CONFIG");
  app.add_option("--env", files.env,
                 "a job's file of KEY=VALUE lines, which may set --config, --deepspeed_config and --cuda-path")
      ->type_name("FILE");
}

JobEnvironment enter_job(const std::string& env, std::vector<std::string>* warnings) {
  JobEnvironment job;
  if (env.empty()) return job;
  std::string ignored;
  for (const EnvEntry& entry : read_env_file(locate_file(env, "--env"))) {
    const auto& [key, value, place] = entry;
    if (value.empty()) continue;
    if (key == "PATH_TO_CONFIG_FILE") {
      job.config = value;
    } else if (key == "PATH_TO_DS_CONFIG") {
      job.overlay = value;
    } else if (key == "PATH_TO_WORKING_DIR") {
      std::error_code error;
      std::filesystem::current_path(value, error);
      if (error)
        fail(ExitCode::usage, place, ": ", key, " ", in_quotes(value), ": ", error.message(),
             "; name the folder in which relative paths start");
    } else if (key == "CUDA_HOME_PATH" && is_folder(value, ExitCode::usage)) {
      job.cuda_path = ConfigOverride{"cuda.path", value, place};
    } else if (key == "CUDA_HOME_PATH") {
      warnings->push_back(str(place, ": ", key, " is ignored: there is no folder ", in_quotes(value), " here"));
    } else {
      ignored += (ignored.empty() ? "" : ", ") + key;
    }
  }
  if (!ignored.empty()) warnings->push_back(str(env, ": ignored, because these are not options: ", ignored));
  return job;
}

ForeignFlags add_foreign_flags(CLI::App& app) {
  const auto flags = std::make_shared<TutorialFlags>();
  const char* tutorial = "The tutorial scripts' flags";
  app.add_flag("--deepspeed,--deepscale", flags->deepspeed, "accepted without effect")->group(tutorial);
  app.add_option("--local_rank", flags->local_rank, "accepted without effect; the launcher sets the rank")
      ->group(tutorial);
  app.add_option("-b,--batch-size,--batch_size", flags->batch_size,
                 "sets train_batch_size; the micro-batch is at most this")
      ->group(tutorial);
  app.add_option("-e,--epochs", flags->epochs, "train.epochs")->group(tutorial);
  app.add_flag("--with_cuda", flags->with_cuda, "device: cuda")->group(tutorial);
  app.add_flag("--use_ema", flags->use_ema, "train.ema.decay: 0.999, a moving average of the weights")->group(tutorial);
  app.add_flag("--sync-bn,--sync_bn,--sync_batchnorm", flags->sync_bn, "batch norm over all ranks")
      ->group("");  // refused by the configuration
  app.add_option("--dtype", flags->dtype, "fp32 | bf16 | fp16")->group(tutorial);
  app.add_option("--stage", flags->stage, "the ZeRO stage (zero_optimization.stage)")->group(tutorial);
  app.add_option("--log-interval", flags->log_interval, "train.log_interval")->group(tutorial);
  TutorialFlags::Moe& moe = flags->moe;
  app.add_flag("--moe", moe.moe, "model.name: cnn_moe, mixtures of experts")->group(tutorial);
  app.add_option("--num-experts", moe.num_experts, "model.num_experts, of each mixture")->group(tutorial);
  app.add_option("--top-k", moe.top_k, "model.top_k")->group(tutorial);
  app.add_option("--mlp-type", moe.mlp_type, "model.mlp_type: standard | residual")->group(tutorial);
  app.add_option("--noisy-gate-policy", moe.noisy_gate_policy, "model.noisy_gate_policy: None | RSample | Jitter")
      ->group(tutorial);
  app.add_option("--min-capacity", moe.min_capacity, "model.min_capacity")->group(tutorial);
  app.add_flag("--moe-param-group", moe.param_group, "model.moe_param_group")->group(tutorial);
  app.add_option("--ep-world-size", moe.ep_world_size, "accepted without effect: every rank has all experts")
      ->group(tutorial);
  app.add_option("--backend", flags->backend, "nccl | mpi | gloo")->group(tutorial);
  return [flags, &app](const Merge& files, std::vector<std::string>* warnings) {
    const auto given = [&](const char* option) { return app.count(option) > 0; };
    if (flags->deepspeed && !given("--config") && !given(kOverlayOption) && !given("--env"))
      warnings->push_back(str("DeepSpeed requires ", kOverlayOption,
                              " to specify configuration file; without one default.yaml is taken"));
    return tutorial_flag_overrides(*flags, files, warnings);
  };
}

std::span<const Verb> foreign_config_verbs() {
  static constexpr std::array kVerbs = {
      Verb{"import",
           "whether each key of a DeepSpeed configuration is honoured, and the configuration as YAML",
           import_file,
           {"cifar-train config import ds_config.json", "cifar-train config import ds_config.json --out new.yaml"}}};
  return kVerbs;
}

void add_foreign_exports(Exports& exports) { add_launch_env(exports); }

std::vector<MakeListener> foreign_listeners() { return {listen_for_console, listen_for_csv}; }

}  // namespace ct
