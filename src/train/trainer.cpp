#include "train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/crc32c.h"
#include "base/error.h"
#include "base/paths.h"
#include "base/text.h"
#include "data/pictures/picture_set.h"
#include "train/agree.h"
#include "train/class_balance.h"
#include "train/config/print.h"
#include "train/config/resume.h"
#include "train/divergence.h"
#include "train/event_log.h"
#include "train/progress_lines.h"
#include "train/run/evaluation_files.h"
#include "train/run/run_files.h"
#include "train/run/sample_grid.h"
#include "train/signals.h"
#include "train/weights.h"

namespace ct {

using MustSucceed = RunSaver::MustSucceed;

/// What a command must leave out to go on from where it stopped.
static std::string without_options(const TrainOptions& options) {
  std::vector<std::string> words;
  if (options.reset) words.emplace_back("--reset");
  if (options.resume.kind == ResumeMode::never || options.resume.kind == ResumeMode::path)
    words.emplace_back("--resume");
  return words.empty() ? "" : " without " + joined(words, " and ");
}

// ---- the run

ExitCode Trainer::run() {
  const ExitCode code = run_to_end();
  saver_.reset();
  session_.finish();
  return code;
}

ExitCode Trainer::run_to_end() {
  options_.clock ? clock_.go_on(time_plan()) : clock_.start(time_plan());
  reports_->start();
  if (!ended_) diagnostics_->start();
  uncounted_ = session_.collectives().traffic(TrafficKind::training);
  norms_before_ = session_.collectives().traffic(TrafficKind::norms);
  if (ended_) return finish() ? ExitCode::done : stop();
  if (!saver_->has_checkpoint()) {  // step 0: a place to return to, and proof that saving works
    save(MustSucceed::yes);
    saver_->complete(MustSucceed::yes);
  }
  if (state_.step > 0 && !at_end() && evaluation_due() && !evaluate_now(Because::due)) return stop();
  if (options_.clock) summary_->announce_unfrozen();

  while (!at_end() && !early_stop_) {
    train_step();
    if (stop_agreed()) return stop();
    const bool last = at_end();
    if (unfreezes_ = phase_at(config_, state_).begins && !last; unfreezes_) return end_program();
    // Weights whose loss is not finite are not worth a good checkpoint's place.
    if (saver_->due() && !last && session_.engine().scalars().bad_streak == 0) save(MustSucceed::no);
    if (evaluation_due() && !last && !evaluate_now(Because::due)) return stop();
  }
  return finish() ? ExitCode::done : stop();
}

/// Until an evaluation was timed: a forward pass is taken for a third of a step's work.
TimeLeft::Plan Trainer::time_plan() const {
  int64_t images = 0, closing = 0;
  for (const auto& [split, name] : evaluated_splits()) images += split->images();
  if (judges_at_end() && test_) closing = test_->images();
  return {.first_step = state_.step,
          .total_steps = total_steps_,
          .interval = config_.train.eval_interval > 0 ? config_.train.eval_interval : session_.steps_per_epoch(),
          .evaluation_steps = static_cast<double>(images * passes(config_.train.eval_views)) /
                              (3 * static_cast<double>(session_.batch().train)),
          .closing = static_cast<double>(closing) / static_cast<double>(images)};
}

/// What each evaluation during training takes.
std::vector<Trainer::NamedPipeline> Trainer::evaluated_splits() const {
  std::vector<NamedPipeline> splits;
  if (validation_) splits.emplace_back(&*validation_, "val");
  if (test_ && !judges_at_end()) splits.emplace_back(&*test_, "test");
  return splits;
}

void Trainer::train_step() {
  if (state_.batch == 0) session_.check_data();
  for (const auto& listener : listeners_) listener->before_step();
  diagnostics_->before_step();
  // A bit that flipped in one rank's memory would spread through the gradients.
  const int64_t interval = config_.communication.check_interval;
  session_.step(state_.epoch, state_.batch, interval > 0 && (state_.step + 1) % interval == 0);
  ++state_.step;
  ++state_.batch;
  state_.samples += session_.batch().train;
  diagnostics_->after_step();
  const bool printed = reports_->after_step();
  if (state_.batch == session_.steps_per_epoch()) {
    ++state_.epoch;
    state_.batch = 0;
  }
  if (printed || saver_->due() || at_end() || state_.step % session_.engine().look_interval() == 0) look_for_skips();
}

bool Trainer::stop_agreed() {
  if (!stop_vote_->due(state_.step)) return false;
  saver_->poll();
  return stop_vote_->take(state_.step, clock_.seconds_a_step(state_.step));
}

/// Stops on request: what was done is kept, and another start goes on from here.
ExitCode Trainer::stop() {
  if (!ended_) {
    look_for_skips();
    save(MustSucceed::yes);
    saver_->complete(MustSucceed::yes);
    diagnostics_->end();
    summary_->record_end(RunFolder::kStopped, Json::object());
    run_.sync();
  }
  log_.note(str("stopped on request after step ", state_.step, "; the checkpoint is good: run the same command again",
                without_options(options_), " to continue"));
  return ExitCode::stopped;
}

/// Saves for the program that goes on, which evaluates this step, as one does that goes on after a stop.
ExitCode Trainer::end_program() {
  clock_.stop();
  look_for_skips();
  save(MustSucceed::yes);
  saver_->complete(MustSucceed::yes);
  diagnostics_->end();
  run_.sync();
  return ExitCode::done;
}

/// Ends the run. False: ranks agreed to stop instead.
bool Trainer::finish() {
  clock_.stop();
  if (!ended_) {
    look_for_skips();
    save(MustSucceed::yes);
    saver_->complete(MustSucceed::yes);
  }
  if (evaluated_step_ != state_.step && !evaluate_now(evaluation_due() ? Because::due : Because::ended)) return false;
  if (judges_at_end() && !judge_best()) return false;
  // No streak of bad steps has ended it, but the last ones were.
  if (!std::isfinite(final_result_->loss))
    give_up(str("diverged: the weights of the end give no finite loss on the ", final_result_->split, " split"),
            state_.step);
  comm_.heartbeat().advance(Phase::end);
  if (!ended_) diagnostics_->end();
  if (!ended_) log_.console().data("Finished Training");
  summary_->print_results(*final_result_);

  std::string hash, average;
  log_.console().progress("computing weights_sha256");
  run_on_all_ranks(comm_, [&] {
    if (!log_.keeps_records()) return;
    hash = weights_sha256_of(saver_->weights_path());
    average = ema_sha256_of(saver_->weights_path());
  });
  const Communicator& collectives = session_.collectives();
  Json result = summary_->usage(saver_->snapshot_bytes(),  // after all that takes memory
                                collectives.traffic(TrafficKind::training) - uncounted_,
                                collectives.traffic(TrafficKind::norms) - norms_before_);
  if (!log_.keeps_records()) return true;
  result["weights_sha256"] = hash;
  if (!average.empty()) result["ema_sha256"] = average;
  keep_evaluation();
  summary_->record_end(early_stop_ ? RunFolder::kStoppedEarly : RunFolder::kFinished, result);
  run_.sync();
  summary_->print_end(hash, result, folder_->path(), *final_result_);
  return true;
}

void Trainer::save(MustSucceed must) {
  count_replaced();
  reports_->drain_losses();
  saver_->save(must);
}

// ---- evaluation

bool Trainer::evaluation_due() const {
  return config_.train.eval_interval > 0 ? state_.step % config_.train.eval_interval == 0 : state_.batch == 0;
}

/// Evaluates images with the weights as they are. Empty: ranks agreed to stop instead.
std::vector<Evaluation> Trainer::evaluate_each(const std::vector<NamedPipeline>& splits) {
  const bool may_be_final = at_end() || config_.train.early_stopping.patience > 0;
  std::vector<Evaluation> results;
  const auto give_up = [this] { return any_rank(comm_, StopSignals::requested() != 0); };
  for (const auto& [images, split] : splits) {
    int64_t examples = 0;
    for (const auto& listener : listeners_)
      if (results.empty()) examples = std::max(examples, listener->examples());
    const EvaluationOptions options{.views = config_.train.eval_views,
                                    .examples = examples,
                                    .opinions = may_be_final && images == splits.back().first,
                                    .progress = [&, name = std::string(split)](int64_t done, int64_t of) {
                                      for (const auto& listener : listeners_) listener->show_evaluating(name, done, of);
                                    }};
    auto result = evaluate(session_.evaluator(), *images, split, comm_, options, give_up);
    if (!result) return {};
    results.push_back(*std::move(result));
  }
  return results;
}

/// The same with their average, where that is evaluated. A damaged image ends the run, of which no step is lost.
std::vector<Evaluation> Trainer::evaluate_splits(const std::vector<NamedPipeline>& splits) {
  const auto exchange = [this] {
    if (evaluates_average(config_)) session_.engine().exchange_average();
  };
  exchange();
  try {
    std::vector<Evaluation> results = evaluate_each(splits);
    exchange();
    return results;
  } catch (const Error& error) {
    if (error.code() != ExitCode::data || ended_) throw;  // which all ranks have met together
    exchange();
    look_for_skips();
    save(MustSucceed::no);
    saver_->complete(MustSucceed::no);
    throw;
  }
}

/// Evaluates, and keeps what was evaluated. False: ranks agreed to stop instead.
bool Trainer::evaluate_now(Because because) {
  bool done = false;
  clock_.evaluation([&] {
    session_.engine().settle();
    const Traffic before = session_.collectives().traffic(TrafficKind::training);
    reports_->drain_losses();
    const std::vector<Evaluation> results = evaluate_splits(evaluated_splits());
    if (results.empty()) return;
    done = true;
    session_.check_data();
    uncounted_ = uncounted_ + (session_.collectives().traffic(TrafficKind::training) - before);
    final_result_ = results.back();
    final_step_ = evaluated_step_ = state_.step;
    const bool ends_epoch = state_.step > 0 && (state_.batch == 0 || at_end());
    const bool in_epoch_line = lines_of_epochs_ && ends_epoch && state_.step > clock_.first_step();
    for (const Evaluation& e : results) report(e, state_.step, in_epoch_line && &e == &results.front());
    report_replaced();
    for (const auto& listener : listeners_) listener->show_evaluation(results.front(), results.back(), ends_epoch);
    if (ends_epoch && state_.epoch == 1)
      if (const std::string weak = weak_classes(results.front(), session_.data().train->class_names()); !weak.empty())
        log_.warn(weak + " after the first epoch");

    const auto figures = [](const Evaluation& e) { return Judged::Figures{e.loss, e.accuracy()}; };
    const Judged judged{figures(results.front()), figures(results.back())};
    if (ended_)
      saver_->mend_best(*selection_, judged);
    else
      saver_->keep_evaluated(*selection_, judged, at_end());
    early_stop_ = because == Because::due && !ended_ && selection_->out_of_patience(judged);
    if (!ended_) diagnostics_->after_evaluation();
    if (early_stop_)
      log_.note(str("early stopping: ", state_.patience_used + 1, " evaluations without a better ",
                    word_of(config_.train.early_stopping.metric)));
  });
  return done;
}

/// Writes what the last evaluation found into the run's folder; a failure costs the run nothing else.
void Trainer::keep_evaluation() {
  const EvalPipeline& images = final_result_->split == "test" ? *test_ : *validation_;
  try {
    write_evaluation(folder_->files(), folder_->path(), *final_result_, images, final_step_);
  } catch (const Error& error) {
    log_.warn(str("the evaluation is not kept for reports: ", error.what()));
  }
}

/// Evaluates the weights of best.bin: the test images, or without them the validation images again. False: ranks agreed
/// to stop instead.
bool Trainer::judge_best() {
  const int64_t step = step_of_best();  // which a finished run's state does not know: it was saved before
  if (!test_ && step == state_.step) return true;
  bool done = false;
  clock_.aside([&] {
    const Traffic before = session_.collectives().traffic(TrafficKind::training);
    if (step != state_.step) load_best();
    std::vector<Evaluation> results =
        evaluate_splits({test_ ? NamedPipeline{&*test_, "test"} : NamedPipeline{&*validation_, "val"}});
    if (results.empty()) return;
    done = true;
    session_.check_data();
    uncounted_ = uncounted_ + (session_.collectives().traffic(TrafficKind::training) - before);
    final_result_ = std::move(results.front());
    final_step_ = step;
    if (test_) report(*final_result_, step, /*in_epoch_line=*/false);
  });
  return done;
}

int64_t Trainer::step_of_best() {
  int64_t step = 0;
  run_on_all_ranks(comm_, [&] {
    step = info_of(SafetensorsFile(Path(config_.output) / kBestFile, SafetensorsFile::Check::header)).step;
  });
  return step;
}

/// Training has ended: its last weights are saved, and those of best.bin take their place.
void Trainer::load_best() {
  Engine& engine = session_.engine();
  engine.settle();
  run_on_all_ranks(comm_, [&] {
    const SafetensorsFile file(Path(config_.output) / kBestFile, SafetensorsFile::Check::header);
    for (const StateBuffer& state : engine.state())
      if (state.kind != StateKind::moment) load_weights(file, session_.graph(), session_.program().flat, state);
  });
  engine.state_written();
}

/// `e` is of the weights of that step. `in_epoch_line`: the epoch's line says it.
void Trainer::report(const Evaluation& e, int64_t step, bool in_epoch_line) {
  const int64_t steps = session_.steps_per_epoch();
  const int64_t epoch = step == state_.step ? state_.epoch + (state_.batch > 0) : (step + steps - 1) / steps;
  Json record = {{"event", "eval"}, {"step", step}, {"epoch", epoch}};
  record.update(e.to_json(session_.classes() > 5));
  if (evaluates_average(config_)) record["weights"] = "ema";
  log_.record(record);
  if (!in_epoch_line)
    log_.note(fmt::format("step {}: {} accuracy {}, loss {:.4f}", step, e.split, percent(e.accuracy()), e.loss));
  if (e.left_out > 0) log_.note(left_out_line(e));
  if (!std::isfinite(e.loss))
    log_.warn(str("the weights of step ", step, " give no finite loss on the ", e.split, " split"));
}

/// How often a damaged image's place was taken by another, on all ranks since the run began. Collective.
void Trainer::count_replaced() {
  if (config_.data.on_corrupt != OnCorrupt::skip || session_.data().train->direct()) return;
  const int64_t mine = session_.pipeline().replaced();
  std::vector<int64_t> all(static_cast<size_t>(comm_.size()));
  comm_.gather_all(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
  state_.replaced = std::accumulate(all.begin(), all.end(), replaced_before_);
}

/// The lower one of two numbers of images, where -1 is none.
static int64_t lower_image(int64_t a, int64_t b) { return a < 0 ? b : b < 0 ? a : std::min(a, b); }

void Trainer::report_replaced() {
  count_replaced();
  if (state_.replaced <= std::exchange(replaced_told_, state_.replaced)) return;
  const auto& mine = session_.pipeline().read_of_classes();
  std::vector<Pipeline::ClassRead> all(mine.size() * static_cast<size_t>(comm_.size()));
  comm_.gather_all(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)));
  int64_t first = -1;
  std::vector<std::string> unread;
  const DataSet& set = *session_.data().train;
  for (size_t c = 0; c < mine.size(); ++c) {
    Pipeline::ClassRead together;
    for (size_t i = c; i < all.size(); i += mine.size()) {
      together.sound += all[i].sound;
      together.first_damaged = lower_image(together.first_damaged, all[i].first_damaged);
    }
    first = lower_image(first, together.first_damaged);
    if (together.sound == 0 && together.first_damaged >= 0) unread.push_back(in_quotes(set.class_names()[c]));
  }
  const auto* const pictures = dynamic_cast<const PictureSet*>(&set);
  log_.note(str(counted(state_.replaced, "damaged sample"), " replaced so far",
                pictures && first >= 0 ? str(", such as ", in_quotes(pictures->picture_name(first))) : "",
                " (data.on_corrupt: skip); cifar-train data verify lists them"));
  if (unread.empty() || std::exchange(unread_told_, unread) == unread) return;
  constexpr size_t kMost = 5;
  log_.warn(str("no picture of ", unread.size() == 1 ? "the class " : "the classes ",
                joined(std::span(unread).first(std::min(kMost, unread.size())), ", "),
                unread.size() > kMost ? str(" and ", unread.size() - kMost, " more") : "",
                " could be read so far, so the network does not learn ", unread.size() == 1 ? "it" : "them"));
}

// ---- divergence

void Trainer::look_for_skips() {
  if (const std::string why = report_skipped_steps(run_); !why.empty()) give_up(why);
}

void Trainer::give_up(const std::string& why, int64_t before) {
  session_.engine().settle();  // peers may be in the update's gathers: whoever gives up completes them first
  saver_->complete(MustSucceed::no);
  std::string finite;
  run_on_all_ranks(comm_, [&] {
    if (folder_) finite = folder_->newest_finite(before).string();
  });
  if (!ended_) summary_->record_end(RunFolder::kDiverged, {{"error", why}});
  fail_diverged(why, from_rank_0(comm_, finite));
}

// ---- the start

Trainer::Trainer(const TrainOptions& options, Communicator& comm, Console& console)
    : options_(options),
      config_(options.config),
      comm_(comm),
      log_(console),
      clock_(options.clock.value_or(TrainingClock())),
      comms_(config_.comms_logger, comm.size()),
      session_(config_, comm,
               {.keeps_run = true,
                .data_kinds = options.data_kinds,
                .warn = [this](const std::string& text) { log_.warn(text); },
                .progress = [this](const std::string& what) { log_.console().progress(what); },
                .exchanged = comms_.listener()}) {
  const std::string checkpoint = open_folder();
  const LearningPhase phase =
      broadcast_value(comm_, folder_ ? phase_at(config_, folder_->resumed_state()) : LearningPhase());
  session_.prepare(folder_ ? folder_->plans() : "", phase);
  if (!session_.plans_missed().empty())
    log_.warn(session_.plans_missed() + "; another one is used, so bits may differ from those before");
  const int64_t batch = session_.evaluator().batch();
  const int workers = session_.pipeline().workers();
  if (const ImagePart part = session_.data().testing(); !part.empty())
    test_.emplace(*part.set, part.images, batch, workers);
  if (const ImagePart part = session_.data().validation(); !part.empty())
    validation_.emplace(*part.set, part.images, batch, workers);
  total_steps_ = session_.total_steps();

  describe_run();
  require_same(comm_,
               {{"the checksum of the training images", crc_text(provenance_.data_crc)},
                {"the checksum of the images to evaluate", crc_text(provenance_.test_data_crc)}},
               "give all hosts the same data");
  if (folder_) folder_->require_same_origin(provenance_, console);
  start_from(checkpoint, phase);
  reports_.emplace(run_, total_steps_);
  diagnostics_.emplace(run_, *saver_, comms_);
  selection_.emplace(config_, state_, validation_.has_value());
  check(!evaluated_splits().empty(), "no images to evaluate on");
  stop_vote_.emplace(comm, state_.step);
  summary_.emplace(run_, total_steps_);
  for (const std::string& warning : options.warnings) log_.warn(warning);
  options.clock ? summary_->record_start() : summary_->announce(options.config_source, checkpoint);
  if (ended_) log_.note(str("the run is finished, after ", state_.step, " steps; its evaluation is repeated"));
}

/// Locks the run's folder. Returns the checkpoint to go on from; empty: none.
std::string Trainer::open_folder() {
  // What was left open is recorded, for a resume to compare.
  const bool known = !optim::doubt_of(config_.scheduler).empty();  // printed with the configuration
  settle_by_data(config_, session_.data(), session_.length());
  if (const std::string doubt = optim::doubt_of(config_.scheduler); !doubt.empty() && !known)
    log_.warn("scheduler.params." + doubt);
  log_.console().progress("looking for checkpoints in " + config_.output);
  if (comm_.rank() == 0)
    folder_ = std::make_unique<RunFolder>(config_, comm_.size(), options_.resume, options_.reset, log_.console());
  require_shared_folder(comm_, config_.output);
  // What is left to the program is as the run began, and with a new run as the images and the machine are.
  const bool open = !config_.bf16.enabled;
  if (folder_ && folder_->resumed_config()) settle_like(config_, *folder_->resumed_config());
  if (open && config_.bf16.enabled == true) require_arithmetic_of_begun(session_.backend());
  const SampleShape& sample = session_.data().train->shape();
  config_.model.settle(sample.height, sample.width);
  config_.model.resnet.stem = broadcast_value(comm_, config_.model.resnet.stem);
  settle_bf16(config_);
  config_.bf16.enabled = broadcast_value(comm_, config_.bf16.enabled == true);
  return from_rank_0(comm_, folder_ ? folder_->resume_from().string() : "");
}

/// What every checkpoint will say of where it comes from.
void Trainer::describe_run() {
  log_.console().progress("computing checksums of the data");
  const Datasets& data = session_.data();
  const DataSet& images = *data.train;
  // Images that are held out are not trained on: a run does not go on with others of them.
  const uint32_t crc = fingerprint(images, data.parts);
  uint32_t test_crc = data.test ? data.test->fingerprint() : 0;
  if (data.val) test_crc ^= data.val->fingerprint();
  session_.check_data();
  provenance_ = {.config = to_yaml(config_),
                 .ranks = comm_.size(),
                 .dataset = images.name(),
                 .data_crc = crc,
                 .test_data_crc = test_crc,
                 .device = session_.backend().description(),
                 .plans = session_.backend().plans.text()};
}

/// Weights and state of the checkpoint; without one, initial weights. Then the folder is taken into use.
void Trainer::start_from(const std::string& checkpoint, const LearningPhase& phase) {
  Engine& engine = session_.engine();
  int64_t saved_here = -1;
  Path read = Path(checkpoint) / kManifestFile;
  if (checkpoint.empty())
    run_on_all_ranks(comm_, [&] { read = options_.init.empty() ? "" : weights_file(options_.init); });
  require_same_file(comm_, read);
  if (!checkpoint.empty()) {
    log_.console().progress("reading " + checkpoint);
    run_on_all_ranks(comm_, [&] {
      state_ = restore_checkpoint(checkpoint, config_.model.name, session_.graph(), engine,
                                  phase.begins ? Moments::begin_anew : Moments::restored);
    });
    state_.optimizer_begun = phase.optimizer_begun;
    if (const int64_t applied = state_.scalars.applied; applied > 0)  // of the latest step, which no checkpoint has
      state_.scalars.lr = step_rates(config_, session_.length())(applied - 1).lr;
    engine.state_written();
    engine.restore({state_.scalars, state_.loss_scale});
    replaced_before_ = replaced_told_ = state_.replaced;
    saved_here = broadcast_value(comm_, folder_ && folder_->contains(state_.step) ? state_.step : int64_t{-1});
    const std::string end = from_rank_0(comm_, folder_ ? folder_->end_at(state_.step) : "");
    const int64_t patience = config_.train.early_stopping.patience;  // which may be another now
    const bool stays_stopped = end == RunFolder::kStoppedEarly && patience > 0 && state_.patience_used + 1 >= patience;
    ended_ = stays_stopped || (at_end() && !end.empty());
    if (!options_.init.empty() && !options_.clock)
      log_.warn(options_.init_options.option + " is ignored: the run continues from its checkpoint");
  } else if (!options_.init.empty()) {
    log_.console().progress("reading " + options_.init);
    const auto warn = [this](const std::string& text) { log_.warn(text); };
    for (const std::string& note : load_initial_weights(options_.init, options_.init_options, session_, warn))
      log_.note(note);
  }
  if (checkpoint.empty()) state_.loss_scale = session_.program().first_loss_scale;
  session_.make_data();
  if (state_.batch >= session_.steps_per_epoch()) {  // of a larger batch, which has fewer steps an epoch
    ++state_.epoch;
    state_.batch = 0;
    state_.running_loss = state_.epoch_loss = state_.ema_loss = 0;
    state_.running_images = state_.epoch_images = 0;
  }
  if (checkpoint.empty() && options_.init.empty()) session_.initialize();
  if (checkpoint.empty()) engine.begin_average();
  if (folder_ && !ended_) {
    const std::string init =
        options_.init.empty() ? "" : "--init " + in_quotes(options_.init) + options_.init_options.words();
    folder_->begin(config_, comm_.size(), checkpoint.empty() ? nullptr : &state_, init, log_.console());
    log_.open(folder_->files(), folder_->path(), [this] { return folder_->is_in_place(); });
  }
  add_listeners(/*goes_on=*/!checkpoint.empty());
  if (config_.train.sample_grid && !ended_) run_on_all_ranks(comm_, [&] { show_first_images(); });
  saver_.emplace(run_, folder_.get(), provenance_);
  if (checkpoint.empty()) return;
  saver_->restored(saved_here, checkpoint);
  if (!ended_) saver_->return_to_best_of(checkpoint);
}

void Trainer::add_listeners(bool goes_on) {
  ListenerSetup setup{.run = run_, .total_steps = total_steps_, .goes_on = goes_on};
  if (folder_ && !ended_) setup.files = &folder_->files(), setup.folder = folder_->path();
  std::vector<MakeListener> makers = {listen_for_tensorboard};
  makers.insert(makers.end(), options_.listeners.begin(), options_.listeners.end());
  for (const MakeListener& make : makers)
    if (std::unique_ptr<RunListener> listener = make(setup)) listeners_.push_back(std::move(listener));
  lines_of_epochs_ = std::ranges::none_of(listeners_, [](const auto& listener) { return listener->replaces_lines(); });
  listeners_.push_back(std::make_unique<ProgressLines>(setup, lines_of_epochs_));
}

/// train.sample_grid.
void Trainer::show_first_images() {
  if (!folder_) return;
  if (write_sample_grid(folder_->files(), folder_->path(), session_.pipeline(), config_.data.mean, config_.data.std))
    log_.note("the first batch's images: " + (folder_->path() / kSampleGridFile).string());
  else
    log_.warn(
        str("train.sample_grid: images of ", session_.pipeline().sample().channels, " channels are not a picture"));
}

}  // namespace ct
