// `config show|check`
#include <array>
#include <cstdio>

#include "base/error.h"
#include "base/files.h"
#include "base/utf8.h"
#include "cli/config_lookup.h"
#include "cli/ranks.h"
#include "cli/subverbs.h"
#include "train/config/load.h"
#include "train/config/print.h"

namespace ct {
namespace {

void warn_of(const std::vector<std::string>& warnings) {
  for (const std::string& line : warnings) warn(line);
}

int show(const Words& words) {
  CLI::App app("Prints the effective configuration as YAML, with the origin of each value.", "cifar-train config show");
  ConfigFiles files;
  std::vector<std::string> sets;
  std::string ranks = "auto";
  add_config_options(app, files, "FILE,--config");
  app.add_option("--set", sets, "key=value, such as train.epochs=1; repeatable")->allow_extra_args(false);
  app.add_option("--ranks", ranks, "for the batch sizes that follow from it")->capture_default_str();
  if (!parse(app, words)) return 0;

  std::vector<std::string> warnings;
  ConfigSources sources = locate_configs(files, &warnings);
  sources.sets = sets;
  const Config config = load_config(sources, &warnings);
  const std::string text = to_yaml(config, {.origins = true, .ranks = rank_count(config, ranks)});
  warn_of(warnings);
  std::fputs(text.c_str(), stdout);
  return 0;
}

/// "FILE: ok" and the batch sizes on `ranks`, or on a few numbers of ranks where that is empty. The sources' files are
/// laid over it.
std::string check_file(const std::string& name, ConfigSources sources, const std::string& ranks) {
  const std::filesystem::path path = locate_config(name);
  sources.files.insert(sources.files.begin(), path);
  std::vector<std::string> warnings;
  const Config config = load_config(sources, &warnings);
  for (std::string& line : warnings) line = path.string() + ": " + line;
  warn_of(warnings);
  std::vector<int64_t> listed = {1, 2, 4, 8};
  if (!ranks.empty()) listed = {rank_count(config, ranks)};
  if (!ranks.empty() || fitting_ranks(config.batch, 1).empty()) {
    try {
      batch_for(config.batch, listed.front());
    } catch (const Error& error) {
      fail(error.code(), path.string(), ": ", error.what());
    }
  }
  return path.string() + ": ok\n" + batch_table(config.batch, listed);
}

int check(const Words& words) {
  CLI::App app("Reads configurations as train would, and lists the batch sizes on 1, 2, 4 and 8 ranks, or on --ranks.",
               "cifar-train config check");
  std::vector<std::string> files;
  std::string ranks, deepspeed, env;
  ConfigSources sources;
  app.add_option("FILE,--config", files, "YAML or DeepSpeed's JSON");
  app.add_option("--deepspeed_config", deepspeed, "DeepSpeed JSON, laid over each of them");
  app.add_option("--env", env, "a job's KEY=VALUE lines, which may name both of them and --cuda-path");
  app.add_option("--set", sources.sets, "key=value, such as train.epochs=1; repeatable")->allow_extra_args(false);
  app.add_option("--ranks", ranks, "a number or auto: the batch sizes must fit it");
  if (!parse(app, words)) return 0;

  std::vector<std::string> warnings;
  const JobEnvironment job = enter_job(env, &warnings);
  warn_of(warnings);
  if (files.empty() && !job.config.empty()) files = {job.config};
  if (files.empty())
    fail(ExitCode::usage, "FILE is required", env.empty() ? "" : str(", for ", in_quotes(env), " names none"),
         ": give a configuration; see cifar-train config check --help");
  if (deepspeed.empty()) deepspeed = job.deepspeed;
  if (!deepspeed.empty()) sources.files = {locate_config(deepspeed)};
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
  std::fflush(stdout);  // before the summary, where both go to one file
  fail(ExitCode::usage, wrong.size(), " of ", files.size(), " configurations are wrong, as listed above");
}

}  // namespace

int verb_config(const Words& words) {
  static constexpr std::array kMembers = {
      Verb{"show", "the effective configuration, with the origin of each value", show},
      Verb{"check", "is a configuration right, and on how many ranks", check},
  };
  static constexpr std::array kLater = {"schema", "import"};
  return run_family({"config", "shows and checks configurations", kMembers, kLater}, words);
}

}  // namespace ct
