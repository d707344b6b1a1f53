// cifar-train sweep: one network trained with many settings, each with several seeds. Every run is a process of this
// program with a folder of its own, so that a sweep that was stopped or killed goes on where its runs are.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <set>

#include "base/cores.h"
#include "base/crc32c.h"
#include "base/error.h"
#include "base/paths.h"
#include "base/standard_streams.h"
#include "base/terminal.h"
#include "base/text.h"
#include "base/utf8.h"
#include "cli/fitting_run.h"
#include "cli/jobscript/options.h"
#include "cli/programs.h"
#include "cli/ranks.h"
#include "cli/sweep/runner.h"
#include "cli/training_words.h"
#include "cli/verbs.h"
#include "comm/detect_launch.h"
#include "train/config/print.h"
#include "train/config/schema.h"
#include "train/device.h"
#include "train/host_lacks.h"
#include "train/setup.h"

namespace ct {
namespace {

struct SweepFlags {
  TrainingWords training;
  SweepWords words;
  std::string output = "runs/sweep", ranks;
  int64_t parallel = 1;
  int requeue_code = static_cast<int>(ExitCode::stopped);
  bool dry_run = false, quiet = false;
  JobOptions job;  // its scheduler empty: none, the runs are trained here
};

void add_options(CLI::App& app, SweepFlags& f) {
  f.training.add_to(app);
  app.add_option("--grid", f.words.grid, "combines every value with every value of the other grids; repeatable")
      ->type_name("KEY=VALUE,VALUE")
      ->allow_extra_args(false);
  app.add_option("--case", f.words.cases, "settings that belong together; repeatable")
      ->type_name("\"KEY=VALUE KEY=VALUE\"")
      ->allow_extra_args(false);
  app.add_option("--folds", f.words.folds,
                 "cross validation: trains K times, and each time another of K equal parts of the training images, "
                 "with the classes in proportion, validates (data.validation)")
      ->check(CLI::Range(2, 100));
  app.add_option("--repeats", f.words.repeats, "number of seeds for each combination, from the configuration's seed on")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--parallel", f.parallel, "number of runs at a time")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--ranks", f.ranks,
                 "ranks of each run: a number, or auto: as many as its share of the cores or GPUs allows")
      ->type_name("N");
  app.add_option("--output", f.output, "the sweep's folder; each run gets a subfolder")
      ->type_name("FOLDER")
      ->capture_default_str();
  app.add_flag("--dry-run", f.dry_run, "check all configurations, list the runs and stop");
  app.add_flag("-q,--quiet", f.quiet, "print the table only");
  app.add_option("--jobscript", f.job.scheduler,
                 "slurm | sge | pbs: print a script of an array job, a task for each run, and stop");
  add_job_options(app, f.job);
  app.add_option("--requeue-code", f.requeue_code, "exit code of a sweep stopped on request (Grid Engine: 99)")
      ->check(CLI::Range(1, 125));
}

/// Refuses a swept optimizer.params.lr that the schedule replaces, and another rate than that of --lr.
void require_swept_rate_in_use(const SweepRun& run, const Config& config, const ConfigSources& sources) {
  const std::string_view first = optim::overrides_lr(config.scheduler), peak = optim::peak_lr(config.scheduler);
  const std::string instead = str("scheduler.params.", first), lr = text_of_key(config, "optimizer.params.lr");
  for (const Setting& setting : run.settings)
    if (setting.key == "optimizer.params.lr" && !first.empty() && text_of_key(config, instead) != lr)
      fail(ExitCode::usage, setting.option, " ", setting.text(), " changes nothing, because ", instead, " ",
           text_of_key(config, instead), " replaces this rate: sweep scheduler.params.", peak.empty() ? first : peak,
           " instead");
  require_one_rate(sources);
}

/// Ranks of each run: as many as were asked for, the one that a launcher says, or by its share of the cores or GPUs.
int64_t ranks_of(const Config& config, const SweepFlags& f) {
  require_connection(config, Launch{});
  const bool is_auto = f.ranks.empty() || f.ranks == "auto";
  if (!is_auto || detect_launch().launched()) return rank_count(config, f.ranks);
  const int places = wants_cuda(config) ? gpu_count(config) : available_cores();
  return auto_ranks(config.batch, std::max<int64_t>(places / f.parallel, 1));
}

/// The number of GPUs that each of the parallel runs gets for itself: as many as the run with the most ranks needs.
/// Error(usage) if there are too few.
int64_t gpus_a_run(const std::vector<SweepOutcome>& runs, int64_t parallel) {
  int64_t most = 0;
  const Config* first = nullptr;
  for (const SweepOutcome& run : runs) {
    if (!wants_cuda(run.config)) continue;
    if (!first) first = &run.config;
    if (parallel > 1 && first_gpu(run.config) != first_gpu(*first))
      fail(ExitCode::usage, "--parallel ", parallel, ": ", run.run.text(/*with_seed=*/true), " uses ",
           run.config.device, " and other runs use ", first->device, ": give one --device, or --parallel 1");
    most = std::max(most, run.ranks);
  }
  const int64_t gpus = first ? gpu_count(*first) : 0;  // none: the runs themselves say why
  if (gpus == 0 || parallel == 1 || parallel * most <= gpus) return most;
  const std::string fewer = gpus >= most ? str("--parallel ", gpus / most, ", ") : "";
  const std::string narrower = gpus >= parallel ? str("--ranks ", gpus / parallel, ", ") : "";
  fail(ExitCode::usage, "--parallel ", parallel, " with ", counted(most, "rank"), " a run needs ", parallel * most,
       " GPUs, this machine has ", gpus, ": give ", fewer, narrower, "or --device cpu");
}

/// What the run would refuse, before any run begins.
void require_fitting(const SweepOutcome& run, const std::string& output, const TrainingWords& words) {
  Config config = run.config;
  config.output = output + "/" + run.run.folder();
  try {
    require_fitting_run(config, run.ranks, words);
  } catch (const Error& error) {
    fail(error.code(), run.run.text(/*with_seed=*/true), ": ", error.what());
  }
}

/// The script of an array job, a task for each run.
std::string array_job(const SweepFlags& f, const Words& words, const std::vector<SweepOutcome>& runs) {
  JobRequest request = job_request(f.job);
  request.array = true;
  request.program = own_program().string();
  for (const SweepOutcome& outcome : runs) {
    request.ranks_per_node = std::max(request.ranks_per_node, static_cast<int>(outcome.ranks));
    const Path folder = absolute_of(f.output) / outcome.run.folder();
    request.words.push_back(words_of_run(words, outcome.run, outcome.ranks, folder));
  }
  return job_script(request);
}

}  // namespace

int verb_sweep(const Words& words) {
  CLI::App app("Trains with every combination of settings, each with several seeds.", "cifar-train sweep");
  SweepFlags f;
  add_options(app, f);
  if (!parse(app, words)) return 0;
  if (const Launch launch = detect_launch(); launch.parallel())
    fail(ExitCode::usage, "sweep starts its runs itself: remove ", name(launch.kind),
         " and give --ranks and --parallel");

  f.training.init_options();  // refuses words that do not fit
  std::vector<std::string> warnings;
  const ConfigSources sources = f.training.sources(&warnings);
  require_words_of_several_runs(f.training, sources, "a sweep", f.output);
  const int64_t first_seed = load_config(sources, &warnings).seed;
  auto warn_once = [&, warned = std::set<std::string>()]() mutable {  // what all runs would be warned of, once
    for (const std::string& line : warnings)
      if (warned.insert(line).second) warn(line);
  };
  warn_once();
  const std::vector<SweepRun> plan = plan_sweep(f.words, first_seed);
  f.parallel = std::min(f.parallel, static_cast<int64_t>(plan.size()));
  std::vector<SweepOutcome> runs;
  for (const SweepRun& run : plan) {  // all of them, before the first begins
    ConfigSources own = sources;
    own.swept = run.overrides();
    const Config config = load_config(own, &warnings);
    require_swept_rate_in_use(run, config, own);
    const int64_t ranks = ranks_of(config, f);
    batch_sizes(config, ranks);
    if (!f.job.scheduler.empty()) require_gpus_asked_for(f.job, config, ranks);
    warn_once();
    runs.push_back({.run = run, .config = config, .ranks = ranks, .fingerprint = crc_text(crc32c(to_yaml(config)))});
  }
  const int64_t gpus = gpus_a_run(runs, f.parallel);
  for (const SweepOutcome& run : runs) {
    if (run.run.seed != runs.front().run.seed) continue;  // seeds change no shape
    if (f.job.scheduler.empty())
      shown("checking " + run.run.text(/*with_seed=*/false), [&] { require_fitting(run, f.output, f.training); });
    else
      warnings = host_warnings(run.config, run.ranks);
    warn_once();
  }
  const Words initial = f.training.initial_words();
  Words of_all = train_words(sources);
  of_all.insert(of_all.end(), initial.begin(), initial.end());
  Console console(true, f.quiet ? Verbosity::quiet : Verbosity::normal);
  const SweepRunner::Options options{.out = f.output,
                                     .words = of_all,
                                     .initial = printable(joined(initial, " ")),
                                     .parallel = f.parallel,
                                     .gpus = gpus};
  if (f.dry_run) {
    SweepRunner(options, runs, console).look();
    for (const SweepOutcome& outcome : runs) print_line(f.output + "/" + outcome.run.folder());
    return 0;
  }
  if (!f.job.scheduler.empty()) {
    std::fputs(array_job(f, of_all, runs).c_str(), stdout);
    return 0;
  }
  outlive_readers();  // as a run does
  SweepRunner runner(options, std::move(runs), console);
  const ExitCode code = runner.run();
  return code == ExitCode::stopped ? f.requeue_code : static_cast<int>(code);
}

}  // namespace ct
