#include "cli/training_words.h"

#include <CLI/CLI.hpp>

#include "base/error.h"
#include "base/paths.h"

namespace ct {
namespace {

/// --lr: the optimizer's rate, or the largest rate of a schedule that replaces it.
void set_lr(ConfigSources& sources, const std::string& lr) {
  sources.overrides.push_back({"optimizer.params.lr", lr, "--lr"});
  std::vector<std::string> not_yet;  // the warnings of the configuration with the schedule's own rates
  const std::string_view key = optim::overrides_lr(load_config(sources, &not_yet).scheduler);
  if (!key.empty() && !key.ends_with("max_lr"))
    fail(ExitCode::usage, "--lr is ambiguous: the schedule's rate follows scheduler.params.", key,
         " and further keys; give them with --set");
  if (!key.empty()) sources.overrides.push_back({str("scheduler.params.", key), lr, "--lr"});
}

}  // namespace

void TrainingWords::add_to(CLI::App& app) {
  add_config_options(app, files);
  app.add_option("--lr", lr, "the largest rate: optimizer.params.lr, and the schedule's key that replaces it");
  CLI::Option* from = app.add_option("--init", init, "start from the weights of a safetensors or torch.save() file");
  app.add_option("--pretrained", pretrained, "another name of --init")->excludes(from);
  app.add_option("--init-head", init_head,
                 "fit | keep | reset: with --init, initialise the last layer from the seed if the file's has other "
                 "shapes (default), never, or always")
      ->check(CLI::IsMember({"fit", "keep", "reset"}));
  app.add_flag("--init-resize", init_resize, "with --init, resample position embeddings of another picture size");
  add_device_options(app, files);
  foreign = add_foreign_flags(app);
}

ConfigSources TrainingWords::sources(std::vector<std::string>* warnings) const {
  ConfigSources sources = locate_configs(files, warnings, foreign, initial_file());
  if (!lr.empty()) set_lr(sources, lr);
  return sources;
}

InitOptions TrainingWords::init_options() const {
  using Head = InitOptions::Head;
  if (initial_file().empty() && (!init_head.empty() || init_resize))
    fail(ExitCode::usage, init_resize ? "--init-resize" : "--init-head", " needs --init FILE or --pretrained FILE");
  return {.option = pretrained.empty() ? "--init" : "--pretrained",
          .head = init_head == "reset"  ? Head::reset
                  : init_head == "keep" ? Head::keep
                                        : Head::fit,
          .resize_positions = init_resize};
}

std::vector<std::string> TrainingWords::initial_words() const {
  if (initial_file().empty()) return {};
  std::vector<std::string> words = {pretrained.empty() ? "--init" : "--pretrained",
                                    absolute_of(initial_file()).string()};
  if (!init_head.empty()) words.insert(words.end(), {"--init-head", init_head});
  if (init_resize) words.emplace_back("--init-resize");
  return words;
}

}  // namespace ct
