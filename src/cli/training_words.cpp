#include "cli/training_words.h"

#include <CLI/CLI.hpp>
#include <cstdlib>

#include "base/error.h"
#include "base/paths.h"
#include "base/utf8.h"
#include "cli/pretrained.h"

namespace ct {
namespace {

constexpr const char* kLr = "--lr";

/// --lr: the optimizer's rate, and the largest rate of a schedule that replaces it.
void set_lr(ConfigSources& sources, const std::string& lr) {
  sources.overrides.push_back({"optimizer.params.lr", lr, kLr});
  std::vector<std::string> not_yet;  // the warnings of the configuration with the schedule's own rates
  const optim::LrSchedule schedule = load_config(sources, &not_yet).scheduler;
  const std::string_view peak = optim::peak_lr(schedule), first = optim::overrides_lr(schedule);
  if (!first.empty() && peak.empty())
    fail(ExitCode::usage, "--lr is ambiguous: the schedule's rate follows scheduler.params.", first,
         " and further keys; give them with --set");
  if (!peak.empty()) sources.overrides.push_back({str("scheduler.params.", peak), lr, kLr});
  require_one_rate(sources);
}

}  // namespace

void require_one_rate(const ConfigSources& sources) {
  const auto number = [](const std::string& text) { return std::strtod(text.c_str(), nullptr); };
  const auto compare = [&](const std::string& key, const std::string& value, const std::string& origin) {
    for (const ConfigOverride& rate : sources.overrides)
      if (rate.origin == kLr && rate.key == key && number(rate.value) != number(value))
        fail(ExitCode::usage, "--lr ", rate.value, " and ", printable(origin), " give two values of ", key,
             ": leave one of them out");
  };
  for (const std::string& set : sources.sets)
    if (const size_t equals = set.find('='); equals != set.npos)
      compare(set.substr(0, equals), set.substr(equals + 1), "--set " + set);
  for (const ConfigOverride& swept : sources.swept) compare(swept.key, swept.value, swept.origin);
}

void require_words_of_several_runs(const TrainingWords& words, const ConfigSources& sources, std::string_view verb,
                                   const std::string& output) {
  if (const std::string fault = fault_of_name(output); !fault.empty())
    fail(ExitCode::usage, "--output ", in_quotes(output), " ", fault, ", so that no configuration can name it");
  for (const auto& file : sources.files) word_of_config(file);  // refuses pipes
  for (const std::string& word : words.files.sets)
    if (word.starts_with("output="))
      fail(ExitCode::usage, "--set ", in_quotes(word), ": leave it out, because ", verb,
           " puts the folders of its runs into the one of --output");
}

void TrainingWords::add_to(CLI::App& app, const std::string& config) {
  add_config_options(app, files, config);
  app.add_option(kLr, lr, "the largest rate: optimizer.params.lr, and the schedule's key that replaces it")
      ->type_name("X");
  const auto a_file = [](const std::string& file) {  // a shell's variable that is not set
    return file.empty() ? std::string("the name of the file is empty") : std::string();
  };
  CLI::Option* from =
      app.add_option("--init", init,
                     "start from the weights of a safetensors or torch.save() file, or from torchvision's of resnet18, "
                     "34, 50, 101 or 152, which are downloaded once (data fetch)")
          ->type_name("FILE")
          ->check(a_file);
  app.add_option("--pretrained", pretrained,
                 "PATH of a file, or resnet18 | resnet34 | resnet50 | resnet101 | resnet152: another name of --init")
      ->type_name("FILE")
      ->check(a_file)
      ->excludes(from);
  app.add_option("--init-head", init_head,
                 "fit | keep | reset: with --init, initialise the last layer from the seed if the file's has other "
                 "shapes (default), never, or always")
      ->check(CLI::IsMember({"fit", "keep", "reset"}));
  app.add_flag("--init-resize", init_resize, "with --init, resample position embeddings of another picture size");
  add_device_options(app, files);
  foreign = add_foreign_flags(app);
}

std::string TrainingWords::initial_file() const { return file_of_weights(initial_word()); }

ConfigSources TrainingWords::sources(std::vector<std::string>* warnings) const {
  ConfigSources sources = locate_configs(files, warnings, foreign, initial_word());
  if (!lr.empty()) set_lr(sources, lr);
  return sources;
}

InitOptions TrainingWords::init_options() const {
  using Head = InitOptions::Head;
  if (initial_word().empty() && (!init_head.empty() || init_resize))
    fail(ExitCode::usage, init_resize ? "--init-resize" : "--init-head", " needs --init FILE or --pretrained FILE");
  return {.option = pretrained.empty() ? "--init" : "--pretrained",
          .head = init_head == "reset"  ? Head::reset
                  : init_head == "keep" ? Head::keep
                                        : Head::fit,
          .resize_positions = init_resize};
}

std::vector<std::string> TrainingWords::initial_words() const {
  if (initial_word().empty()) return {};
  std::vector<std::string> words = {pretrained.empty() ? "--init" : "--pretrained",
                                    absolute_of(initial_file()).string()};
  if (!init_head.empty()) words.insert(words.end(), {"--init-head", init_head});
  if (init_resize) words.emplace_back("--init-resize");
  return words;
}

}  // namespace ct
