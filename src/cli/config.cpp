// `config show|check|schema`, and those of foreign_config_verbs()
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "base/error.h"
#include "base/files.h"
#include "base/new_folder.h"
#include "base/text.h"
#include "base/utf8.h"
#include "cli/config_lookup.h"
#include "cli/foreign.h"
#include "cli/ranks.h"
#include "cli/subverbs.h"
#include "cli/training_words.h"
#include "train/config/foreign.h"
#include "train/config/load.h"
#include "train/config/print.h"
#include "train/host_lacks.h"
#include "train/setup.h"

namespace ct {
namespace {

void warn_of(const std::vector<std::string>& warnings) {
  for (const std::string& line : warnings) warn(line);
}

int show(const Words& words) {
  CLI::App app("Prints the effective configuration as YAML, with the origin of each value.", "cifar-train config show");
  TrainingWords training;
  std::string ranks = "auto";
  training.add_to(app, "FILE,--config");
  app.add_option("--ranks", ranks, "number of ranks, for the batch sizes")->capture_default_str();
  if (!parse(app, words)) return 0;

  training.init_options();  // refuses words that do not fit
  std::vector<std::string> warnings;
  const Config config = load_config(training.sources(&warnings), &warnings);
  const std::string text = to_yaml(config, {.origins = true, .ranks = rank_count(config, ranks)});
  warn_of(warnings);
  std::fputs(text.c_str(), stdout);
  return 0;
}

/// "FILE: ok" and the batch sizes on `ranks`, or on a few numbers of ranks where that is empty. The sources' files are
/// laid over it.
std::string check_file(const std::string& name, ConfigSources sources, const std::string& ranks) {
  const std::filesystem::path path = locate_config(name, /*option=*/"");
  sources.files.insert(sources.files.begin(), path);
  std::vector<std::string> warnings;
  const Config config = load_config(sources, &warnings);
  const std::string shown = joined(sources.files, " + ", source_name);  // a key may be in any of them
  for (const std::string& line : warnings) {
    const bool says_where = std::ranges::any_of(
        sources.files, [&](const std::filesystem::path& file) { return line.starts_with(source_name(file)); });
    warn(says_where ? line : str(shown, ": ", line));
  }
  std::vector<int64_t> listed = {1, 2, 4, 8};
  if (!ranks.empty()) listed = {rank_count(config, ranks)};
  const std::vector<int64_t> fits = fitting_ranks(config.batch, 1);
  try {
    batch_sizes(config, !ranks.empty() || fits.empty() ? listed.front() : fits.front());
  } catch (const Error& error) {
    fail(error.code(), shown, ": ", error.what());
  }
  for (const std::string& line : host_warnings(config, listed.front())) warn(str(shown, ": ", line));
  return shown + ": ok\n" + batch_table(config.batch, listed);
}

int schema(const Words& words) {
  CLI::App app("Prints a JSON Schema of configurations, for editors.", "cifar-train config schema");
  if (!parse(app, words)) return 0;
  std::printf("%s\n", json_schema().dump(2).c_str());
  return 0;
}

int check_config(const Words& words) {
  CLI::App app(
      "Checks configurations, warns of resources that this host lacks for them, and lists the batch sizes on 1, 2, 4 "
      "and 8 ranks, or on --ranks. train --dry-run also reads the data.",
      "cifar-train config check");
  std::vector<std::string> files;
  std::string ranks;
  ConfigWords extra;
  ConfigSources sources;
  app.add_option("FILE,--config", files, "YAML or JSON")->type_name("CONFIG");
  add_foreign_files(app, extra);
  app.add_option("--set", sources.sets, "replaces a key of the configuration, such as train.epochs=1; repeatable")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  app.add_option("--ranks", ranks, "a number of ranks that the batch sizes must fit, or auto")->type_name("N");
  if (!parse(app, words)) return 0;

  std::vector<std::string> warnings;
  const JobEnvironment job = enter_job(extra.env, &warnings);
  warn_of(warnings);
  if (files.empty() && !job.config.empty()) files = {job.config};
  const std::string overlay = extra.overlay.value_or("").empty() ? job.overlay : *extra.overlay;
  if (files.empty() && !overlay.empty()) files = {"default.yaml"};  // as train does
  if (files.empty())
    fail(ExitCode::usage, "FILE is required",
         extra.env.empty() ? "" : str(", because ", in_quotes(extra.env), " names no configuration"),
         ": give a configuration; see cifar-train config check --help");
  if (!overlay.empty()) sources.files = {locate_config(overlay, kOverlayOption)};
  if (job.cuda_path) sources.overrides = {*job.cuda_path};
  std::vector<Error> wrong;
  for (const std::string& file : files) {
    try {
      std::fputs(check_file(file, sources, ranks).c_str(), stdout);
    } catch (const Error& error) {
      wrong.push_back(error);
    }
  }
  if (wrong.empty()) return 0;
  if (wrong.size() == 1) throw wrong.front();
  for (const Error& error : wrong) std::printf("wrong: %s\n", printable(error.what()).c_str());
  fail(ExitCode::usage, wrong.size(), " of ", files.size(), " configurations are wrong, as listed above");
}

}  // namespace

int verb_config(const Words& words) {
  std::vector<Verb> members = {
      Verb{"show",
           "the effective configuration, with the origin of each value",
           show,
           {"cifar-train config show configs/resnet18.yaml",
            "cifar-train config show default.yaml --set train.epochs=1 --ranks 2"}},
      Verb{"check",
           "check configurations and list their batch sizes",
           check_config,
           {"cifar-train config check configs/resnet18.yaml", "cifar-train config check default.yaml --ranks 4"}},
      Verb{"schema",
           "a JSON Schema of all keys",
           schema,
           {"cifar-train config schema", "cifar-train config schema > schema.json"}},
  };
  const std::span<const Verb> foreign = foreign_config_verbs();
  members.insert(members.end(), foreign.begin(), foreign.end());
  return run_family({"config", "shows, checks and imports configurations", members}, words);
}

}  // namespace ct
