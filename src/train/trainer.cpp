#include "train/trainer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/crc32c.h"
#include "base/error.h"
#include "base/host.h"
#include "base/paths.h"
#include "base/version.h"
#include "train/agree.h"
#include "train/config/print.h"
#include "train/estimate.h"
#include "train/replicas.h"
#include "train/signals.h"
#include "train/usage.h"
#include "train/weights.h"

namespace ct {
namespace {

constexpr double kProgressSeconds = 0.2;
constexpr double kVoteSeconds = 0.02;  // how long a request to stop may wait until ranks compare notes

double seconds(std::chrono::steady_clock::duration d) { return std::chrono::duration<double>(d).count(); }

double metric_of(const Evaluation& e, const std::string& metric) { return metric == "loss" ? e.loss : e.accuracy(); }

}  // namespace

Trainer::Trainer(const TrainOptions& options, Communicator& comm, Console& console)
    : options_(options), config_(options.config), comm_(comm), console_(console), device_(config_, comm) {
  batch_ = batch_for(config_.batch, comm.size());
  require_same_machine(comm, device_.backend().description());
  require_same_config(comm, config_);

  data_ = open_datasets(config_, comm);
  config_.data.dataset = data_.source.name == kCifarName ? "cifar10" : "synthetic";  // what a resume compares
  std::string checkpoint;
  if (comm.rank() == 0) {
    folder_ = std::make_unique<RunFolder>(config_, comm.size(), options.resume, options.reset, console);
    checkpoint = folder_->resume_from().string();
  }
  require_shared_folder(comm, config_.output);
  checkpoint = from_rank_0(comm, checkpoint);

  const int classes = data_.train->classes();
  programs_ = lower_programs(config_, batch_, {comm.rank(), comm.size()}, classes, data_.test->count());
  const int64_t evaluation_batch = programs_.evaluate[programs_.evaluate.ports.labels].shape[0];
  const Distribution d = programs_.train.distribution;
  pipeline_ =
      std::make_unique<Pipeline>(*data_.train, data_.parts.training, pipeline_options(config_, batch_, d, comm.rank()));
  test_ = std::make_unique<EvalPipeline>(*data_.test, evaluation_batch);
  if (!data_.parts.validation.empty())
    validation_ = std::make_unique<EvalPipeline>(*data_.train, data_.parts.validation, evaluation_batch);
  total_steps_ = config_.train.epochs * pipeline_->steps_per_epoch();
  if (config_.train.max_steps >= 0) total_steps_ = std::min(total_steps_, config_.train.max_steps);

  const auto schedule = [rule = update_rule(config_), lr = lr_schedule(config_)](int64_t step) {
    return schedule_row(lr, rule, step);
  };
  agree_on_plans();
  // Training and evaluation take turns in one arena.
  const int64_t evaluation = plan_program(device_.backend(), programs_.evaluate).arena_bytes;
  comm.barrier();  // all ranks have opened the libraries, which take their part, and none has allocated
  std::optional<Backend::Room> room;
  together(comm, [&] { room = device_.backend().room(); });
  together(comm, [&] {
    require_device_memory(device_.backend(),
                          {.config = config_,
                           .batch = batch_,
                           .ranks = comm.size(),
                           .classes = classes,
                           .test_images = data_.test->count(),
                           .sharing = device_.sharing()},
                          room);
  });
  BindOptions bind{.least_arena = evaluation,
                   .lane = lane_options(config_),
                   .record = config_.cuda.record,
                   .warn = [this](const std::string& text) { console_.note("warning: " + text); }};
  engine_ = std::make_unique<Engine>(device_.backend(), device_.collectives(), programs_.train, schedule, bind);
  // Its copy on the host is made before there are collectives, beside which nothing should be allocated.
  if (config_.communication.check_interval > 0 && d.effective_stage() < 3) engine_->read_params();
  bind.params = engine_->params();
  bind.arena = engine_->bound().arena();
  evaluator_ = std::make_unique<Evaluator>(device_.backend(), device_.collectives(), programs_.evaluate, bind);

  require_same_machine(comm, device_.backend().description());  // with the libraries that were opened meanwhile
  plans_missed_ = gather_plans_missed();
  if (!plans_missed_.empty())
    console.note("warning: " + plans_missed_ + "; another was chosen, so bits may differ from those before");
  if (folder_) {
    describe_run();
    folder_->require_same_origin(provenance_, console);
  }
  if (!checkpoint.empty()) {
    together(comm, [&] { state_ = restore_checkpoint(checkpoint, config_.model.name, programs_.graph, *engine_); });
    engine_->state_written();
    engine_->restore({state_.scalars, state_.loss_scale});
    saved_step_ = broadcast_value(comm, folder_ && folder_->contains(state_.step) ? state_.step : int64_t{-1});
    saved_path_ = checkpoint;
    const std::string end = from_rank_0(comm, folder_ ? folder_->end_at(state_.step) : "");
    ended_ = end == RunFolder::kStoppedEarly || (state_.step >= total_steps_ && !end.empty());
    if (!options.init.empty()) console.note("warning: --init is ignored: the run continues from its checkpoint");
  } else if (!options.init.empty()) {
    std::string converted;
    together(comm, [&] {
      const SafetensorsFile file(weights_file(options.init), SafetensorsFile::Check::header);
      require_finite(file, programs_.graph);
      load_weights(file, programs_.graph, programs_.train.flat, engine_->state().front());
      converted = conversions(file);
    });
    engine_->state_written();
    if (!converted.empty()) console.note("--init: " + converted);
  } else {
    initialize(*engine_, programs_.graph, static_cast<uint64_t>(config_.seed));
  }
  if (folder_) {
    best_weights_ =
        std::make_unique<BestWeights>(folder_->files(), folder_->held(), config_,
                                      [&console](const std::string& problem) { console.note("warning: " + problem); });
    if (!ended_) {
      folder_->begin(config_, comm.size(), checkpoint.empty() ? nullptr : &state_, options.init, console);
      metrics_ = std::make_unique<MetricsLog>(folder_->files(), folder_->held());
    }
  }
  writer_ = std::make_unique<CheckpointWriter>(CheckpointWriter::Args{.comm = comm,
                                                                      .out = config_.output,
                                                                      .folder = folder_.get(),
                                                                      .graph = programs_.graph,
                                                                      .engine = *engine_,
                                                                      .asynchronous = config_.checkpoint.asynchronous});
  if (!checkpoint.empty() && !ended_)
    settle_best([&](BestWeights& weights) { return weights.return_to(checkpoint, state_); });
  announce(checkpoint);
}

/// What is called best must be what lies in best.bin: an evaluation whose weights are lost must not stand in the way of
/// the next one.
void Trainer::settle_best(const std::function<BestEvaluation(BestWeights&)>& look) {
  BestEvaluation best;
  together(comm_, [&] {
    if (best_weights_) best = look(*best_weights_);
  });
  best = broadcast_value(comm_, best);
  state_.best_step = best.step;
  state_.best_value = best.value;
}

/// Rank 0 chooses the ways of a device's libraries, or takes the checkpoint's; all ranks go them, for the same bits.
void Trainer::agree_on_plans() {
  Backend& backend = device_.backend();
  if (backend.is_host()) return;
  together(comm_, [&] {
    if (!folder_) return;
    backend.use_plans(folder_->plans());
    plan_program(backend, programs_.train);
    plan_program(backend, programs_.evaluate);
  });
  backend.use_plans(from_rank_0(comm_, folder_ ? backend.plans() : ""));
}

/// Plans that were stored or chosen by rank 0 and are not to be had, of the first rank that misses one.
std::string Trainer::gather_plans_missed() {
  const std::string mine = device_.backend().plans_missed();
  const auto all = gather_bytes(comm_, std::as_bytes(std::span(mine)));
  for (size_t rank = 0; rank < all.size(); ++rank) {
    const std::string text(reinterpret_cast<const char*>(all[rank].data()), all[rank].size());
    if (!text.empty()) return rank == 0 ? text : str("rank ", rank, ": ", text);
  }
  return "";
}

/// What every checkpoint will say of where it comes from.
void Trainer::describe_run() {
  uint32_t crc = 0;
  for (int64_t i = 0; i < data_.train->count(); ++i) {
    const auto* record =
        reinterpret_cast<const std::byte*>(data_.train->pixels(i) - 1);  // the label lies before the pixels
    crc = crc32c(std::span(record, kRecordBytes), crc);
  }
  check_data();
  provenance_ = {to_yaml(config_),         comm_.size(), data_.source.name, crc, device_.backend().description(),
                 device_.backend().plans()};
}

ExitCode Trainer::run() {
  const ExitCode code = run_to_end();
  writer_.reset();
  evaluator_.reset();
  engine_.reset();
  device_.finish();
  return code;
}

ExitCode Trainer::run_to_end() {
  begun_ = window_begun_ = Clock::now();
  first_step_ = window_step_ = next_vote_ = state_.step;
  moved_before_ = device_.collectives().traffic(TrafficKind::training);
  norms_before_ = device_.collectives().traffic(TrafficKind::norms);
  if (ended_) return finish() ? ExitCode::done : stop();
  if (saved_step_ < 0) {  // step 0: a place to return to, and proof that saving works
    save(MustSucceed::yes);
    complete_save(MustSucceed::yes);
  }
  if (state_.step > 0 && state_.step < total_steps_ && evaluation_due() && !evaluate_now(Because::due)) return stop();

  while (state_.step < total_steps_ && !early_stop_) {
    const int64_t micros_before = state_.batch * programs_.train.distribution.micro_batches();
    train_step();
    report_step(micros_before);
    check_replicas();
    if (stop_agreed()) return stop();
    const bool last = state_.step == total_steps_;
    // Weights whose loss is not finite are not worth a good checkpoint's place.
    if (save_due() && !last && engine_->scalars().bad_streak == 0) save(MustSucceed::no);
    if (evaluation_due() && !last && !evaluate_now(Because::due)) return stop();
  }
  return finish() ? ExitCode::done : stop();
}

/// On request: what was done is kept, and another start goes on from here.
ExitCode Trainer::stop() {
  if (!ended_) {
    look_for_skips();
    save(MustSucceed::yes);
    complete_save(MustSucceed::yes);
  }
  console_.note("stopped on request after step " + std::to_string(state_.step) +
                "; the checkpoint is good: run the same command again" +
                (folder_ && folder_->renamed() ? " with --output " + in_quotes(folder_->path().native()) : "") +
                " to continue");
  return ExitCode::stopped;
}

void Trainer::train_step() {
  const Distribution& d = programs_.train.distribution;
  if (state_.batch == 0) check_data();
  for (int j = 0; j < d.accumulation; ++j) {
    const auto begin = Clock::now();
    comm_.pulse().advance(Phase::data);
    fill_micro_batch(*pipeline_, state_.epoch, state_.batch, d.micro_batch(comm_.rank(), j), *engine_);
    waited_ += seconds(Clock::now() - begin);
    comm_.pulse().advance(Phase::step);
    engine_->micro_step();
  }
  engine_->update();
  ++state_.step;
  ++state_.batch;
}

/// Folds the losses of all ranks since the last call into the running loss, in the order of micro-batches.
void Trainer::drain_losses() {
  const std::vector<double> losses = engine_->drain_losses();
  if (losses.empty()) return;
  for (double loss : losses) {
    if (!std::isfinite(loss)) continue;  // of a skipped step
    state_.running_loss += loss;
    state_.running_images += batch_.micro;
  }
  step_losses_.assign(losses.end() - programs_.train.distribution.micro_batches(), losses.end());
}

void Trainer::report_step(int64_t micros_before) {
  const int64_t micros = state_.batch * programs_.train.distribution.micro_batches();
  const int64_t interval = config_.train.log_interval;
  const bool line = interval > 0 && micros / interval > micros_before / interval;
  const bool record = config_.steps_per_print > 0 && state_.step % config_.steps_per_print == 0;
  const bool epoch_done = state_.batch == pipeline_->steps_per_epoch();
  if (line || record || epoch_done) drain_losses();

  if (record) record_step();
  if (console_.shows_progress() && !step_losses_.empty()) show_progress();
  if (line) {
    const double mean = state_.running_images > 0 ? state_.running_loss / static_cast<double>(state_.running_images)
                                                  : std::numeric_limits<double>::quiet_NaN();
    console_.data(tutorial_loss_line(state_.epoch + 1, micros, mean));
  }
  if (line || epoch_done) {
    state_.running_loss = 0;
    state_.running_images = 0;
  }
  if (epoch_done) {
    ++state_.epoch;
    state_.batch = 0;
  }
  // At the same steps on every rank, so that all give up together.
  if (line || record || epoch_done || save_due() || state_.step == total_steps_ ||
      state_.step % engine_->look_interval() == 0)
    look_for_skips();
}

/// On a terminal, a few times a second: where the run is, its latest known loss, its speed so far.
void Trainer::show_progress() {
  const auto now = Clock::now();
  if (seconds(now - shown_) < kProgressSeconds) return;
  shown_ = now;
  const double per_step = training_seconds() / static_cast<double>(state_.step - first_step_);
  const double loss =
      std::accumulate(step_losses_.begin(), step_losses_.end(), 0.0) / static_cast<double>(batch_.train);
  char text[160];
  std::snprintf(text, sizeof text, "epoch %ld/%ld  step %ld/%ld  loss %.3f  %.0f images/s  %s left", state_.epoch + 1,
                config_.train.epochs, state_.step, total_steps_, loss, static_cast<double>(batch_.train) / per_step,
                duration(per_step * static_cast<double>(total_steps_ - state_.step)).c_str());
  console_.progress(text);
}

/// The step's record.
void Trainer::record_step() {
  const Outcome& latest = engine_->latest();
  const StepScalars& scalars = latest.scalars;
  const double loss =
      std::accumulate(step_losses_.begin(), step_losses_.end(), 0.0) / static_cast<double>(batch_.train);
  const double elapsed = std::max(seconds(Clock::now() - window_begun_) - (aside_ - window_aside_), 1e-9);
  const double rate = static_cast<double>((state_.step - window_step_) * batch_.train) / elapsed;
  record({{"event", "step"},
          {"step", state_.step},
          {"epoch", state_.epoch + 1},
          {"loss", loss},
          {"lr", scalars.lr},
          {"grad_norm", scalars.norm},
          {"loss_scale", engine_->lowered().loss_scale == kNone ? 1 : latest.loss_scale.scale},
          {"skipped", scalars.skipped},
          {"samples", state_.step * batch_.train},
          {"samples_per_sec", rate},
          {"wait_fraction", waited_ / elapsed}});
  window_begun_ = Clock::now();
  window_aside_ = aside_;
  window_step_ = state_.step;
  waited_ = 0;
}

void Trainer::look_for_skips() {
  const std::vector<Outcome> recent = engine_->drain_outcomes();
  const bool scaled = engine_->lowered().loss_scale != kNone, dynamic = scaled && config_.fp16.loss_scale == 0;
  int64_t step = state_.step - static_cast<int64_t>(recent.size());
  for (const Outcome& o : recent) {
    ++step;
    if (o.scalars.skip == 0) continue;
    const std::string end = scaled ? str("; the loss scale is now ", o.loss_scale.scale) : "";
    console_.note(str("warning: step ", step, " was skipped on all ranks: its loss or gradient is not finite", end));
    if (dynamic && o.loss_scale.diverged > 0)
      give_up(str("diverged: step ", step, " overflowed at the smallest loss scale, ", o.loss_scale.scale));
    if (!dynamic && o.scalars.bad_streak >= config_.train.max_bad_steps)
      give_up(str("diverged: the loss or gradient was not finite in ", o.scalars.bad_streak,
                  " steps in a row, up to step ", step));
  }
}

void Trainer::give_up(const std::string& why) {
  engine_->settle();  // peers may be in the update's gathers: whoever gives up completes them first
  complete_save(MustSucceed::no);
  std::string finite;
  together(comm_, [&] {
    if (folder_) finite = folder_->newest_finite().string();
  });
  finite = from_rank_0(comm_, finite);
  const std::string back = finite.empty() ? "no checkpoint is all finite"
                                          : str("the newest checkpoint that is all finite is ", in_quotes(finite));
  const std::string from_there =
      finite.empty() ? ""
                     : str(", or from there with --init ", in_quotes((Path(finite) / "weights.safetensors").native()),
                           " and another --output");
  fail(ExitCode::diverged, why, "; ", back,
       ": lower optimizer.params.lr or set gradient_clipping, and train again with --reset", from_there);
}

/// Every so many steps, replicas are compared: silent damage to one rank's memory would spread through the gradients.
void Trainer::check_replicas() {
  const int64_t interval = config_.communication.check_interval;
  if (interval > 0 && state_.step % interval == 0 && comm_.size() > 1)
    require_same_replicas(comm_, *engine_, programs_.graph);
}

/// Nothing that was learnt or measured of a file since cut or written over may be saved or believed.
void Trainer::check_data() const {
  data_.train->check_unchanged();
  data_.test->check_unchanged();
}

/// Ranks must stop after the same step, so a request counts only once all have heard of it. They compare notes every
/// kVoteSeconds or every step, whichever is longer, at steps that rank 0's clock chose at the previous vote. A pending
/// save is looked after at the same time.
bool Trainer::stop_agreed() {
  const bool asked = StopSignals::requested() != 0;
  if (comm_.size() > 1 && state_.step < next_vote_) return false;
  if (writer_->pending()) {
    try {
      if (const auto done = writer_->poll()) saved(*done);
    } catch (const Error& e) {
      not_saved(e, MustSucceed::no);
    }
  }
  if (comm_.size() == 1) return asked;
  const double per_step = training_seconds() / static_cast<double>(state_.step - first_step_);
  const double steps = std::clamp(kVoteSeconds / std::max(per_step, 1e-9), 1.0, 10000.0);
  next_vote_ = state_.step + broadcast_value(comm_, static_cast<int64_t>(steps));
  return any_rank(comm_, asked);
}

double Trainer::training_seconds() const { return seconds(Clock::now() - begun_) - aside_; }

bool Trainer::save_due() const {
  return config_.train.save_interval > 0 ? state_.step % config_.train.save_interval == 0 : state_.batch == 0;
}

bool Trainer::evaluation_due() const {
  return config_.train.eval_interval > 0 ? state_.step % config_.train.eval_interval == 0 : state_.batch == 0;
}

Metadata Trainer::weights_metadata() const {
  return to_metadata({.model = config_.model.name,
                      .mean = config_.data.mean,
                      .std = config_.data.std,
                      .class_names = data_.train->class_names(),
                      .dataset = data_.source.name,
                      .data_path = absolute_of(config_.data.path).string(),
                      .step = state_.step,
                      .epoch = state_.epoch,
                      .seed = config_.seed,
                      .validation = config_.data.validation,
                      .on_corrupt = config_.data.on_corrupt,
                      .compute = std::string(name_of(compute_type(config_)))});
}

/// Before a save: the folder as it should be, and in it the records, which a checkpoint without them would lose.
void Trainer::look_after_folder() {
  if (!folder_) return;
  metrics_->flush();
  const std::string warning = folder_->look_after();
  if (warning.empty()) return;
  console_.note("warning: " + warning);
  metrics_ = std::make_unique<MetricsLog>(folder_->files(), folder_->held());  // it may be gone too
}

/// Begins a save; asynchronous ones end in stop_agreed() or complete_save().
void Trainer::save(MustSucceed must) {
  if (saved_step_ == state_.step) return;
  complete_save(MustSucceed::no);
  if (saved_step_ == state_.step) return;  // it was this one that was pending
  const auto begin = Clock::now();
  comm_.pulse().advance(Phase::save);
  drain_losses();
  state_.scalars = engine_->latest().scalars;
  state_.loss_scale = engine_->latest().loss_scale;
  saving_step_ = state_.step;
  check_data();
  try {
    together(comm_, [&] { look_after_folder(); });
    settle_best([&](BestWeights& weights) { return weights.look_after(state_); });
    writer_->begin(state_, provenance_, weights_metadata());
    if (!config_.checkpoint.asynchronous) saved(writer_->finish());
  } catch (const Error& e) {
    not_saved(e, must);
  }
  aside_ += seconds(Clock::now() - begin);
}

void Trainer::complete_save(MustSucceed must) {
  if (!writer_->pending()) return;
  const auto begin = Clock::now();
  comm_.pulse().advance(Phase::save);
  try {
    saved(writer_->finish());
  } catch (const Error& e) {
    not_saved(e, must);
  }
  aside_ += seconds(Clock::now() - begin);
}

void Trainer::saved(const CheckpointWriter::Saved& what) {
  saved_step_ = what.step;
  saved_path_ = what.path;
  record({{"event", "checkpoint"}, {"step", what.step}, {"path", what.path}, {"seconds", what.seconds}});
  console_.detail("saved " + what.path);
  if (!what.warning.empty()) console_.note("warning: " + what.warning);
}

/// All ranks come here together.
void Trainer::not_saved(const Error& e, MustSucceed must) {
  if (must == MustSucceed::yes || config_.checkpoint.on_failure == "error" || e.code() != ExitCode::io) throw e;
  const std::string last = folder_ && folder_->contains(saved_step_)
                               ? str("the one of step ", saved_step_, " is intact, training goes on")
                               : "training goes on";
  console_.note(str("warning: no checkpoint was saved at step ", saving_step_, " (", last, "): ", e.what()));
}

/// False: ranks agreed to stop instead.
bool Trainer::evaluate_now(Because because) {
  const auto begin = Clock::now();
  engine_->settle();
  const Traffic moved = device_.collectives().traffic(TrafficKind::training);
  drain_losses();
  const int classes = data_.train->classes();
  std::vector<Evaluation> results;
  const auto give_up = [this] { return any_rank(comm_, StopSignals::requested() != 0); };
  for (const auto& [images, split] : {std::pair{validation_.get(), "val"}, {test_.get(), "test"}}) {
    if (images == nullptr) continue;
    std::optional<Evaluation> result = evaluate(*evaluator_, *images, classes, split, comm_, give_up);
    if (!result) return false;
    results.push_back(*std::move(result));
  }
  check_data();
  const Traffic moved_here = device_.collectives().traffic(TrafficKind::training) - moved;
  moved_aside_ = {moved_aside_.elements + moved_here.elements, moved_aside_.bytes + moved_here.bytes};
  test_result_ = results.back();
  evaluated_step_ = state_.step;

  for (const Evaluation& e : results) {
    Json record = {{"event", "eval"}, {"step", state_.step}, {"epoch", state_.epoch + (state_.batch > 0)}};
    record.update(e.to_json(classes > 5));
    this->record(record);
    char text[160];
    std::snprintf(text, sizeof text, "step %ld: %s accuracy %.2f %%, loss %.4f", state_.step, e.split.c_str(),
                  100 * e.accuracy(), e.loss);
    console_.note(text);
    if (!std::isfinite(e.loss))
      console_.note(
          str("warning: the weights of step ", state_.step, " give no finite loss on the ", e.split, " split"));
  }
  const Evaluation& judged = config_.train.best.split == "val" || !validation_ ? results.front() : results.back();
  keep_best(judged);
  if (config_.train.early_stopping.patience > 0 && because == Because::due) {
    const std::string& metric = config_.train.early_stopping.metric;
    const double value = metric_of(results.front(), metric);  // val where there is one
    const bool first = state_.patience_used < 0;
    if (std::isfinite(value) && (first || better(metric, value, state_.patience_value))) {
      state_.patience_value = value;
      state_.patience_used = 0;
    } else if (!first && ++state_.patience_used >= config_.train.early_stopping.patience) {
      early_stop_ = true;
      console_.note("early stopping: " + std::to_string(state_.patience_used) + " evaluations without a better " +
                    metric);
    }
  }
  aside_ += seconds(Clock::now() - begin);
  return true;
}

void Trainer::keep_best(const Evaluation& judged) {
  const std::string& split = config_.train.best.split;
  const double value = metric_of(judged, config_.train.best.metric);
  const bool finite = std::isfinite(judged.loss);
  Metadata metadata = weights_metadata(), best_metadata = metadata;
  best_metadata.merge(selection_metadata(config_, finite ? value : std::nan("")));
  const bool best = state_.best_step < 0 ||
                    (finite && (split == "last" || better(config_.train.best.metric, value, state_.best_value)));
  comm_.pulse().advance(Phase::save);
  if (ended_) return mend_best(best, best_metadata);
  try {
    writer_->write_weights("last.bin", metadata);
    if (best) writer_->write_weights("best.bin", best_metadata);
  } catch (const Error& e) {
    if (state_.step == total_steps_ || config_.checkpoint.on_failure == "error" || e.code() != ExitCode::io) throw;
    console_.note(str("warning: the evaluated weights of step ", state_.step, " were not written: ", e.what()));
    return;  // what is called best must be what lies in best.bin
  }
  if (best && finite) {  // what is not finite gives way to anything that is
    state_.best_step = state_.step;
    state_.best_value = value;
  }
}

/// The best.bin of a run that had ended is made again where it was lost: of the weights at hand if they are the best,
/// otherwise of what was kept beside the checkpoint.
void Trainer::mend_best(bool newest, const Metadata& metadata) {
  std::string problem;
  together(comm_, [&] {
    if (best_weights_) problem = best_weights_->problem_unless_of(state_.step, state_.best_step);
  });
  problem = from_rank_0(comm_, problem);
  if (problem.empty()) return;
  try {
    if (newest) {
      writer_->write_weights("best.bin", metadata);
      console_.note(str("warning: ", problem, "; it was written again from the checkpoint of step ", state_.step));
    } else {
      settle_best(
          [&](BestWeights& weights) { return weights.return_to(folder_->readable(state_.step, saved_path_), state_); });
      if (state_.best_step < 0) writer_->write_weights("best.bin", metadata);  // the run's end is all that is left
    }
  } catch (const Error& e) {
    if (e.code() != ExitCode::io) throw;
    console_.note(str("warning: ", problem, "; it could not be written again: ", e.what()));
  }
}

void Trainer::record(const Json& record) {
  if (!metrics_) return;
  const bool was_well = metrics_->problem().empty();
  metrics_->write(record);
  if (was_well && !metrics_->problem().empty())
    console_.note("warning: records wait in memory until they can be written: " + metrics_->problem());
}

/// False: ranks agreed to stop instead.
bool Trainer::finish() {
  const double train_seconds = training_seconds();
  if (!ended_) {
    look_for_skips();
    save(MustSucceed::yes);
    complete_save(MustSucceed::yes);
  }
  if (evaluated_step_ != state_.step && !evaluate_now(evaluation_due() ? Because::due : Because::ended)) return false;
  comm_.pulse().advance(Phase::end);
  if (!ended_) console_.data("Finished Training");

  const Evaluation& test = *test_result_;
  const auto names = [&](const std::vector<int32_t>& labels) {
    std::vector<std::string> text;
    for (int32_t label : labels) text.push_back(data_.test->class_names()[static_cast<size_t>(label)]);
    return text;
  };
  console_.data(labels_line("GroundTruth", names(test.labels)));
  console_.data(labels_line("Predicted", names(test.predicted)));
  console_.data(accuracy_line(test.correct, test.images, test.split));
  for (size_t c = 0; c < test.classes.size(); ++c)
    console_.data(class_accuracy_line(data_.test->class_names()[c], test.classes[c].correct, test.classes[c].images));

  std::string hash;
  together(comm_, [&] {
    if (metrics_) hash = weights_sha256_of(folder_->readable(state_.step, saved_path_) / "weights.safetensors");
  });
  const Traffic moved = device_.collectives().traffic(TrafficKind::training) - moved_before_;
  const Json usage = usage_of(comm_, {.engine = *engine_,  // after all that takes memory
                                      .evaluator = *evaluator_,
                                      .snapshot_bytes = writer_->snapshot_bytes(),
                                      .steps = state_.step - first_step_,
                                      .moved = moved - moved_aside_,
                                      .norms = device_.collectives().traffic(TrafficKind::norms) - norms_before_});
  if (!metrics_) return true;
  const int64_t steps = state_.step - first_step_;
  const double rate = static_cast<double>(steps * batch_.train) / std::max(train_seconds, 1e-9);
  Json end = {{"event", "end"},
              {"step", state_.step},
              {"reason", early_stop_ ? RunFolder::kStoppedEarly : RunFolder::kFinished},
              {"seconds", seconds(Clock::now() - begun_)},
              {"samples_per_sec", rate}};
  end.update(usage);
  // What a script that checks speed or repeatability has to know.
  for (const std::string& why : {engine_->bound().not_recorded(), evaluator_->bound().not_recorded()})
    if (!why.empty()) end["not_recorded"] = why;
  if (!plans_missed_.empty()) end["plans_missed"] = plans_missed_;
  end["weights_sha256"] = hash;
  record(end);
  metrics_->flush();
  char speed[96];
  std::snprintf(speed, sizeof speed, "%.1f s (%.0f images/s)", train_seconds, rate);
  console_.note(str("trained ", steps, " steps in ", speed, "; weights_sha256 ", hash));
  console_.note("results: " + (folder_->path() / "best.bin").string() + "; evaluate with: cifar-train eval --ckpt " +
                (folder_->path() / "best.bin").string());
  return true;
}

void Trainer::announce(const std::string& checkpoint) {
  const Distribution& d = programs_.train.distribution;
  for (const std::string& warning : options_.warnings) console_.note("warning: " + warning);
  console_.note(str("cifar-train ", version(), ", configuration ", options_.config_source));
  if (!device_.note().empty()) console_.note("warning: " + device_.note());
  console_.note(str(device_.collectives().description(), "; ", device_.backend().description()));
  console_.note(data_.source.note);
  if (config_.communication.check_interval > 0 && d.effective_stage() == 3)
    console_.note("warning: communication.check_interval has nothing to compare: ZeRO stage 3 keeps no copies");
  const int64_t damaged = data_.train->skipped() + data_.test->skipped();
  if (damaged > 0) console_.note(str(damaged, " damaged records are left out (data.on_corrupt: skip)"));
  console_.note(str("model ", config_.model.name, ": ", programs_.graph.parameter_count(), " parameters; ",
                    optimizer_note(config_), "; batch ", batch_.train, " = ", batch_.micro, " x ", batch_.accumulation,
                    " micro-steps x ", d.ranks, " ranks"));
  const int64_t left = pipeline_->images() % batch_.train;
  console_.note(str(pipeline_->steps_per_epoch(), " steps an epoch, ", total_steps_, " in all",
                    left ? str("; ", left, " images are left over each epoch") : std::string()));
  if (!config_.batch.micro && checkpoint.empty())
    console_.note(
        "the micro-batch size follows from the number of ranks, so another number gives other bits; give "
        "train_micro_batch_size_per_gpu to prevent that");
  if (config_.train.best.split == "last")
    console_.note("best.bin will be the newest evaluated weights (train.best.split: last)");
  if (!checkpoint.empty()) console_.note(str("resumed from ", checkpoint, " at step ", state_.step));
  if (ended_) console_.note(str("the run is finished, after ", state_.step, " steps; its evaluation is repeated"));
  record({{"event", "start"},
          {"step", state_.step},
          {"version", version()},
          {"model", config_.model.name},
          {"parameters", programs_.graph.parameter_count()},
          {"dataset", data_.source.name},
          {"damaged_records", data_.train->skipped() + data_.test->skipped()},
          {"device", device_.backend().description()},
          {"collectives", device_.collectives().description()},
          {"ranks", d.ranks},
          {"zero_stage", d.zero_stage},
          {"train_batch_size", batch_.train},
          {"micro_batch_size", batch_.micro},
          {"gradient_accumulation_steps", batch_.accumulation},
          {"seed", config_.seed},
          {"host", host_name()}});
}

}  // namespace ct
