// cifar-train [train]: configuration, ranks, run.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <bitset>
#include <cstdio>

#include "base/cores.h"
#include "base/error.h"
#include "base/host.h"
#include "base/paths.h"
#include "base/seconds.h"
#include "base/standard_streams.h"
#include "base/terminal.h"
#include "base/text.h"
#include "base/utf8.h"
#include "cli/foreign.h"
#include "cli/jobscript/options.h"
#include "cli/launch/launch.h"
#include "cli/ranks.h"
#include "cli/report/figures.h"
#include "cli/report/text_chart.h"
#include "cli/training_words.h"
#include "cli/verbs.h"
#include "comm/all_ranks.h"
#include "comm/detect_launch.h"
#include "comm/host/threads.h"
#include "data/description.h"
#include "metrics/shared_text.h"
#include "train/agree.h"
#include "train/config/foreign.h"
#include "train/config/load.h"
#include "train/config/print.h"
#include "train/initial_weights.h"
#include "train/memory/resident_images.h"
#include "train/run/run_folder.h"
#include "train/trainer.h"
#include "train/weights.h"

namespace ct {
namespace {

struct TrainFlags {
  TrainingWords training;
  std::string config;  // without --config
  std::string resume = "auto", ranks = "auto";
  bool reset = false, print_config = false, dry_run = false, dump_plan = false, quiet = false, verbose = false,
       no_record = false;
  int requeue_code = static_cast<int>(ExitCode::stopped), progress_fd = -1;
};

void add_options(CLI::App& app, TrainFlags& f) {
  app.add_option("CONFIG", f.config, "--config CONFIG")->type_name("CONFIG");
  f.training.add_to(app);
  add_key_option(app, f.training.files, "--output", "output", "the run's folder (output)")->type_name("FOLDER");
  app.add_option("--resume", f.resume, "auto | must | never | PATH of a checkpoint");
  app.add_flag("--reset", f.reset, "start over: delete an earlier run in the output folder");
  app.add_option("--ranks", f.ranks, "ranks as threads of this process: a number or auto")->type_name("N");
  app.add_flag("--print-config", f.print_config, "print the effective configuration and stop");
  app.add_flag("--dry-run", f.dry_run,
               "check everything, print the sizes, and estimate the time from a few steps; write nothing");
  app.add_flag("--dump-plan", f.dump_plan, "print the program and its memory plan and stop");
  app.add_flag("-q,--quiet", f.quiet, "print results only");
  app.add_flag("-v,--verbose", f.verbose, "print more lines");
  app.add_option("--requeue-code", f.requeue_code, "exit code of a run stopped on request (Grid Engine: 99)")
      ->check(CLI::Range(1, 125));
  app.add_option("--progress-fd", f.progress_fd)->group("");  // of a sweep
  app.add_flag("--no-record", f.no_record, "launch every kernel separately, not as CUDA graphs (cuda.record: false)");
}

/// CONFIG is --config, unless it is a verb: training is the default one, so its parser meets a verb that follows
/// options.
void take_config(TrainFlags& f) {
  if (f.config.empty()) return;
  if (std::ranges::any_of(verbs(), [&](const Verb& verb) { return f.config == verb.name; }))
    fail(ExitCode::usage, f.config, " is a verb, which comes first: cifar-train ", f.config, " ...");
  std::optional<std::string>& named = f.training.files.config;
  if (named)
    fail(ExitCode::usage, in_quotes(f.config), " and --config ", in_quotes(*named),
         " are both given: one configuration trains; a second one goes to --deepspeed_config");
  named = f.config;
}

ResumeMode resume_mode(const TrainFlags& f) {
  if (f.resume == "auto") return {ResumeMode::automatic, {}};
  if (f.resume == "must") return {ResumeMode::must, {}};
  if (f.resume == "never") return {ResumeMode::never, {}};
  if (!is_folder(f.resume, ExitCode::checkpoint))
    fail(ExitCode::usage, "--resume ", in_quotes(f.resume),
         " is no folder: give auto, must, never or the folder of a checkpoint");
  const Path checkpoint = f.resume;
  return {ResumeMode::path, checkpoint.has_filename() ? checkpoint : checkpoint.parent_path()};  // "a/b/" is "a/b"
}

/// Options that decide together with the other ranks'.
Facts shared_options(const TrainFlags& f) {
  const auto text = [](const std::string& value) { return value.empty() ? "not given" : in_quotes(value); };
  const auto flag = [](bool given) { return given ? "given" : "not given"; };
  return {{"--dry-run", flag(f.dry_run)},
          {"--reset", flag(f.reset)},
          {"--resume", text(f.resume)},
          {"--init", text(f.training.initial_word())},
          {"--init-head", text(f.training.init_head)},
          {"--init-resize", flag(f.training.init_resize)}};
}

void require_same_options(Communicator& comm, const TrainFlags& f) {
  require_same(comm, shared_options(f), "start every rank with the same options");
}

struct DryRunReport {
  int64_t steps = 0;      // of the whole run
  int64_t done = 0;       // of them, by the run that would go on
  bool on_host = true;    // ranks take cores, not GPUs
  std::string not_tried;  // why steps should not be tried here; empty: they may
};

/// The step from which the run would go on; 0: it would begin. Refuses what the run would.
int64_t steps_done(const TrainOptions& options, Config asked, int ranks, const Datasets& data,
                   const RunLength& length) {
  settle_by_data(asked, data, length);
  Console console(true, Verbosity::normal);
  const RunStart start = RunFolder::look(asked, ranks, options.resume, options.reset, console);
  return start.loaded ? run_state_from(start.loaded->state, start.loaded->state_path()).step : 0;
}

/// Checks everything short of training, and prints the sizes: data, program, memory; or, without `asked`, the plan
/// alone. `asked` is the configuration with what it leaves to the program.
DryRunReport print_sizes(const TrainOptions& options, int ranks, const Config* asked) {
  const auto comm = make_solo();
  const BatchSizes batch = batch_for(options.config.batch, ranks);
  warn(gpu_left_out(options.config));
  const auto backend = make_backend(options.config);
  backend->enter_thread();
  if (!detect_launch().parallel() && wants_cuda(options.config))
    require_gpu_each(options.config, ranks, gpu_count(options.config));
  require_fitting_device(options.config, !backend->is_host());
  const Datasets data = open_datasets(options.config, *comm, IfAbsent::keep_in_memory, data_kinds(),
                                      /*keeps_run=*/asked != nullptr);
  const int configured = static_cast<int>(options.config.zero_optimization.stage);
  EstimateOf what{.config = options.config,
                  .batch = batch,
                  .ranks = ranks,
                  .data = data.spec(),
                  .sharing = detect_launch().parallel() ? Sharing{} : foretell_sharing(options.config, ranks)};
  const std::optional<Backend::Room> room = backend->room();
  what.data.resident = images_fit(*backend, what, configured, room);
  const Programs programs = lower_programs(options.config, batch, {0, ranks}, what.data);
  if (asked == nullptr) {
    std::fputs(to_text(programs.train, plan_program(*backend, programs.train)).c_str(), stdout);
    return {};
  }
  const Pipeline pipeline(*data.train, data.parts.training, {.train_batch = batch.train, .micro_batch = batch.micro});
  const RunLength length{run_steps(options.config, pipeline.steps_per_epoch()), pipeline.steps_per_epoch()};
  const int64_t done = steps_done(options, *asked, ranks, data, length);
  for (const std::string& line : {"configuration " + options.config_source, backend->description(), data.source.note})
    print_line(line);
  for (const std::string& line : notes_of(data)) print_line(line);
  for (const std::string& line : warnings_of(data)) warn(line);
  std::printf("%ld parameters; batch %ld = %ld x %ld micro-steps x %d ranks; %ld steps per epoch\n",
              programs.graph.parameter_count(), batch.train, batch.micro, batch.accumulation, ranks,
              pipeline.steps_per_epoch());
  if (!what.data.resident) require_device_memory(*backend, what, room);
  const StageEstimate stage = estimate_stage(*backend, what, configured);
  const RankMemory& rank = stage.rank;
  print_line(fmt::format(
      "bytes per rank: {} weights, {} gradients ({} of them partial sums), {} optimizer, {} activations and "
      "workspace ({} in training, {} in evaluation), {} gradient buckets, {}{} snapshot for saving, "
      "{} other",
      rank.use.weights, rank.use.gradients, rank.partial_sums, rank.use.optimizer, rank.use.activations, rank.training,
      rank.evaluation, rank.use.exchange,
      rank.on_gpu ? str(rank.received, " received by NCCL, ", rank.use.images, " training images, ") : "",
      rank.on_gpu ? 0 : rank.snapshot, rank.use.other + (rank.on_gpu ? 0 : rank.overhead)));
  if (rank.on_gpu)
    print_line(fmt::format(
        "of the host's memory: {} bytes per rank for offloaded optimizer state, {} page-locked copies, {} staged "
        "collectives, {} snapshot for saving, {} other",
        rank.use.host, rank.mirrors, rank.staged, rank.snapshot, rank.overhead));
  DryRunReport report{.steps = length.steps, .done = std::min(done, length.steps), .on_host = !rank.on_gpu};
  if (const int64_t available = host_memory().available; available > 0 && stage.host > available)
    report.not_tried = "this host has too little memory";
  return report;
}

/// Are there more ranks on some host than cores that they may run on, all together? Collective.
bool ranks_outnumber_cores(Communicator& comm) {
  const std::vector<std::string> hosts = comm.gather(host_name());
  const std::bitset<kMaxCpus> mine = allowed_cpus();
  const auto cpus = gather(comm, std::span(&mine, 1));
  std::bitset<kMaxCpus> here;
  int ranks_here = 0;
  for (size_t rank = 0; rank < hosts.size(); ++rank) {
    if (hosts[rank] != hosts[static_cast<size_t>(comm.rank())]) continue;
    here |= cpus[rank];
    ++ranks_here;
  }
  return any_rank(comm, ranks_here > available_cores(here, cpu_quota()));
}

/// Seconds that a training step takes: the mean of a few, in half a second or so, after one that warms up. Weights of
/// --init must fit. Collective.
double trial_step_seconds(const TrainOptions& options, Communicator& comm) {
  constexpr double kTrial = 0.5, kMostSteps = 1000;
  Console console(comm.rank() == 0, Verbosity::normal);
  TrainingSession session(options.config, comm,
                          {.evaluates = false,
                           .if_absent = IfAbsent::keep_in_memory,
                           .progress = [&](const std::string& what) { console.progress(what); }});
  session.prepare();
  session.initialize();
  if (!options.init.empty()) load_initial_weights(options.init, options.init_options, session);
  console.progress("timing a few steps");
  session.run_steps(0, 1);
  double seconds = seconds_of([&] { session.run_steps(1, 1); });
  const auto more = broadcast_value(comm, static_cast<int64_t>(std::min(kTrial / seconds, kMostSteps)));
  if (more > 0) seconds = seconds_of([&] { session.run_steps(2, more); }) / static_cast<double>(more);
  session.finish();
  return seconds;
}

/// What a run would need of memory and time; the latter by steps of the ranks themselves.
int dry_run(const TrainFlags& f, const TrainOptions& options, const Config& asked, int ranks) {
  const bool launched = detect_launch().parallel();
  if (!options.init.empty()) SafetensorsFile(weights_file(options.init), SafetensorsFile::Check::header);
  DryRunReport report;  // of this process
  if (!launched) report = print_sizes(options, ranks, &asked);
  return run_job(
      ranks,
      [&](Communicator& comm) {
        require_same_options(comm, f);
        run_on_all_ranks(comm, [&] {
          if (launched && comm.rank() == 0) report = print_sizes(options, ranks, &asked);
        });
        const bool crowded = ranks_outnumber_cores(comm);
        std::string not_tried;  // rank 0's is meant
        if (comm.rank() == 0)
          not_tried = report.not_tried.empty() && report.on_host && crowded ? "this host has fewer cores than ranks"
                                                                            : report.not_tried;
        not_tried = from_rank_0(comm, not_tried);
        const double seconds = not_tried.empty() ? trial_step_seconds(options, comm) : 0;
        if (comm.rank() != 0) return 0;
        const int64_t done = report.done, left = report.steps - done;
        const std::string others =
            done > 0 ? str("; the run in ", printable(options.config.output), " has done the other ", done) : "";
        if (not_tried.empty())
          std::printf("time: %ld steps of %.2f ms, %s, and the time of evaluations and saves%s\n", left, 1e3 * seconds,
                      duration(seconds * static_cast<double>(left)).c_str(), others.c_str());
        else
          std::printf("time: %ld steps, not measured: %s%s\n", left, not_tried.c_str(), others.c_str());
        return 0;
      },
      options.config.communication.supervision);
}

/// A run, whose programs follow each other as if it had been stopped and resumed.
ExitCode train(TrainOptions options, Communicator& comm, Console& console) {
  for (;;) {
    Trainer trainer(options, comm, console);
    const ExitCode code = trainer.run();
    if (!trainer.goes_on()) return code;
    options.clock = trainer.clock();
    options.resume = {};
    options.reset = false;
    options.warnings.clear();
  }
}

/// Draws the curves of a finished run for a user at a terminal, as `report --text` does.
void draw_curves(const Path& output, Console& console) {
  if (!console.on_terminal()) return;
  const report::RunParts run = report::read_run(output, output.native());
  const report::Figure figure = report::progress_figure({&run, 1});
  if (!has_curves(figure)) return;
  for (const std::string& line : text_of(figure, report::terminal())) console.note(line);
}

}  // namespace

int verb_train(const Words& words) {
  CLI::App app("Train a model. Without --config: default.yaml.", "cifar-train train");
  TrainFlags f;
  add_options(app, f);
  LaunchFlags launching;
  add_launch_options(app, launching, LaunchForms::long_only);
  if (!parse(app, words)) return 0;
  take_config(f);
  if (f.progress_fd >= 0 && !is_shared_text(f.progress_fd))
    fail(ExitCode::usage, "--progress-fd ", f.progress_fd, ": only a sweep passes it, to its runs: leave it out");
  if (asks_for_launch(app)) {
    Words own = without_launch_options(app, words);
    own.insert(own.begin(), "train");
    return run_launch(launching, own);
  }
  // Hours of training must not end because `head` has seen enough. Whatever only prints ends as other tools do: a
  // reader that leaves ends it (SIGPIPE), in silence.
  if (!f.print_config && !f.dry_run && !f.dump_plan) outlive_readers();

  // Not below: g++ 12 destroys twice what is made before one that throws.
  const ResumeMode resume = resume_mode(f);
  const InitOptions init = f.training.init_options();
  const std::string weights = f.training.initial_file();
  TrainOptions options{
      .resume = resume, .reset = f.reset, .init = weights, .init_options = init, .listeners = foreign_listeners()};
  std::error_code gone;  // the folder of the caller: paths may be absolute
  const Path caller = std::filesystem::current_path(gone);
  ConfigSources sources = f.training.sources(&options.warnings);
  for (const auto& file : sources.files)
    options.config_source += (options.config_source.empty() ? "" : " and ") + source_name(file);
  if (f.no_record) sources.overrides.push_back({"cuda.record", "false", "--no-record"});
  options.config = load_config(sources, &options.warnings);
  if (std::filesystem::current_path(gone) != caller)  // the run prints commands for the folder of the caller
    options.config.output = absolute_of(options.config.output).string();
  if (f.reset && !weights.empty() && reset_deletes(options.config.output, weights_file(weights)))
    fail(ExitCode::usage, "--reset would delete ", in_quotes(weights_file(weights).native()), ", which ", init.option,
         " names: copy it to another folder first");
  const int ranks = rank_count(options.config, f.ranks);
  require_connection(options.config, detect_launch());
  batch_sizes(options.config, ranks);  // before MPI starts: a batch that does not fit is a mistake in the words

  if (f.print_config) {
    if (detect_launch().rank == 0) std::fputs(to_yaml(options.config, {.ranks = ranks}).c_str(), stdout);
    return 0;
  }
  const Config asked = options.config;
  if (f.dump_plan || f.dry_run) settle_bf16(options.config);  // the run itself may have to take what it began with
  if (f.dump_plan) {
    if (detect_launch().rank == 0) print_sizes(options, ranks, /*asked=*/nullptr);
    return 0;
  }
  if (f.dry_run) return dry_run(f, options, asked, ranks);

  if (const std::string text = short_job_warning(); !text.empty()) options.warnings.push_back(text);
  const Verbosity verbosity = f.quiet ? Verbosity::quiet : f.verbose ? Verbosity::verbose : Verbosity::normal;
  const int code = run_job(
      ranks,
      [&](Communicator& comm) {
        require_same_options(comm, f);
        Console console(comm.rank() == 0, verbosity, f.progress_fd);
        console.progress("opening the device");
        const ExitCode ended = train(options, comm, console);
        if (comm.rank() == 0 && ended == ExitCode::done) draw_curves(options.config.output, console);
        return static_cast<int>(ended);
      },
      options.config.communication.supervision);
  return code == static_cast<int>(ExitCode::stopped) ? f.requeue_code : code;
}

}  // namespace ct
