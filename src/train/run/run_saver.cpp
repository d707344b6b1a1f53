#include "train/run/run_saver.h"

#include "base/error.h"
#include "base/paths.h"
#include "base/utf8.h"
#include "train/agree.h"

namespace ct {

RunSaver::RunSaver(const RunContext& run, RunFolder* folder, const Provenance& provenance)
    : run_(run),
      folder_(folder),
      provenance_(provenance),
      writer_({.comm = run.session.comm(),
               .out = run.config.output,
               .folder = folder,
               .graph = run.session.graph(),
               .engine = run.session.engine(),
               .asynchronous = run.config.checkpoint.asynchronous}) {
  if (folder != nullptr)
    best_weights_.emplace(folder->files(), folder->path(), run.config,
                          [this](const std::string& problem) { run_.log.warn(problem); });
}

bool RunSaver::due() const {
  const int64_t interval = run_.config.train.save_interval;
  return interval > 0 ? run_.state.step % interval == 0 : run_.state.batch == 0;
}

void RunSaver::save(MustSucceed must) {
  if (saved_step_ == run_.state.step) return;
  complete(MustSucceed::no);
  if (saved_step_ == run_.state.step) return;  // it was this one that was pending
  run_.clock.aside([&] {
    show_progress();
    Communicator& comm = run_.session.comm();
    comm.heartbeat().advance(Phase::save);
    const Outcome& latest = run_.session.engine().latest();
    run_.state.scalars = latest.scalars;
    run_.state.loss_scale = latest.loss_scale;
    saving_step_ = run_.state.step;
    run_.session.check_data();
    try {
      run_on_all_ranks(comm, [&] {
        require_folder();
        run_.sync();  // a checkpoint without its records would lose them
      });
      settle_best([&](BestWeights& weights) { return weights.look_after(run_.state); });
      writer_.begin(run_.state, provenance_, metadata());
      if (!run_.config.checkpoint.asynchronous) saved(writer_.finish());
    } catch (const Error& e) {
      not_saved(e, must);
    }
  });
}

void RunSaver::show_progress() { run_.log.console().progress(str("saving the checkpoint of step ", run_.state.step)); }

void RunSaver::poll() {
  if (!writer_.pending()) return;
  try {
    if (const auto done = writer_.poll()) saved(*done);
  } catch (const Error& e) {
    not_saved(e, MustSucceed::no);
  }
}

void RunSaver::complete(MustSucceed must) {
  if (!writer_.pending()) return;
  run_.clock.aside([&] {
    show_progress();
    run_.session.comm().heartbeat().advance(Phase::save);
    try {
      saved(writer_.finish());
    } catch (const Error& e) {
      not_saved(e, must);
    }
  });
}

void RunSaver::saved(const CheckpointWriter::Saved& what) {
  saved_step_ = what.step;
  saved_path_ = what.path;
  run_.log.record({{"event", "checkpoint"}, {"step", what.step}, {"path", what.path}, {"seconds", what.seconds}});
  run_.log.console().detail("saved " + what.path);
  if (!what.warning.empty()) run_.log.warn(what.warning);
}

/// All ranks come here together.
void RunSaver::not_saved(const Error& e, MustSucceed must) {
  bool intact = false;  // the one before
  try {
    if (folder_ != nullptr && e.code() == ExitCode::io) {
      intact = folder_->contains(saved_step_);
      folder_->remove_spare_best();  // they would fill the disk
    }
  } catch (const Error&) {  // the error that led here says more
  }
  if (must == MustSucceed::yes || run_.config.checkpoint.on_failure == SaveFailure::error || e.code() != ExitCode::io)
    throw e;
  const std::string last = intact ? str("the one of step ", saved_step_, " is intact, ") : "";
  run_.log.warn(str("no checkpoint was saved at step ", saving_step_, " (", last, "training continues): ", e.what()));
}

void RunSaver::require_folder() {
  if (folder_ != nullptr) folder_->require_in_place();
}

/// An evaluation whose weights are lost must not stand in the way of the next one.
void RunSaver::settle_best(const std::function<BestEvaluation(BestWeights&)>& look) {
  BestEvaluation best;
  run_on_all_ranks(run_.session.comm(), [&] {
    if (best_weights_) best = look(*best_weights_);
  });
  best = broadcast_value(run_.session.comm(), best);
  run_.state.best_step = best.step;
  run_.state.best_value = best.value;
}

void RunSaver::return_to_best_of(const Path& checkpoint) {
  settle_best([&](BestWeights& weights) { return weights.return_to(checkpoint, run_.state); });
}

void RunSaver::keep_evaluated(ModelSelection& selection, const Judged& judged, bool last_step) {
  const bool best = selection.is_best(judged);
  run_.session.comm().heartbeat().advance(Phase::save);
  try {
    run_on_all_ranks(run_.session.comm(), [&] { require_folder(); });
    run_.log.console().progress(str("writing ", kLastFile, best ? str(" and ", kBestFile) : ""));
    writer_.write_weights(std::string(kLastFile), metadata());
    if (best) writer_.write_weights(std::string(kBestFile), best_metadata(selection, judged));
  } catch (const Error& e) {
    if (last_step || run_.config.checkpoint.on_failure == SaveFailure::error || e.code() != ExitCode::io) throw;
    run_.log.warn(str("the evaluated weights of step ", run_.state.step, " were not written: ", e.what()));
    return;  // what is called best must be what lies in best.bin
  }
  if (best) selection.remember(judged);
}

void RunSaver::mend_best(const ModelSelection& selection, const Judged& judged) {
  Communicator& comm = run_.session.comm();
  comm.heartbeat().advance(Phase::save);
  std::string problem;
  run_on_all_ranks(comm, [&] {
    if (best_weights_) problem = best_weights_->problem_unless_of(run_.state.step, run_.state.best_step);
  });
  problem = from_rank_0(comm, problem);
  if (problem.empty()) return;
  try {
    if (selection.is_best(judged)) {
      writer_.write_weights(std::string(kBestFile), best_metadata(selection, judged));
      run_.log.warn(str(problem, "; it was written again from the checkpoint of step ", run_.state.step));
    } else {
      settle_best([&](BestWeights& weights) { return weights.return_to(saved_path_, run_.state); });
      if (run_.state.best_step < 0)
        writer_.write_weights(std::string(kBestFile),
                              best_metadata(selection, judged));  // the run's end is all that is left
    }
  } catch (const Error& e) {
    if (e.code() != ExitCode::io) throw;
    run_.log.warn(str(problem, "; it could not be written again: ", e.what()));
  }
}

Metadata RunSaver::metadata() const {
  const Config& config = run_.config;
  const Datasets& data = run_.session.data();
  const LocateOptions folders = split_folders(config);
  // Of the configuration, which is UTF-8; the folder that it begins at need not be.
  const auto whole = [](const Path& path) { return printable(absolute_of(path).native()); };
  const auto given = [&](const Path& path) { return path.empty() ? "" : whole(path); };
  const auto origin = [](bool own, const Portion& share) {
    return own ? std::string(kOwnImages) : share.is_share() ? to_text(share) : std::string(kNoImages);
  };
  const bool pictures = data.source.kind->pictures;
  const bool divided = !data.parts.validation.empty() || !data.parts.test.empty();
  return to_metadata({.model = config.model,
                      .mean = config.data.mean,
                      .std = config.data.std,
                      .class_names = data.train->class_names(),
                      .dataset = data.train->name(),
                      .data_path = whole(config.data.path),
                      .data_train = given(folders.train),
                      .data_val = given(folders.val),
                      .data_test = given(folders.test),
                      .sample = data.train->shape(),
                      .size = pictures ? config.data.size : 0,
                      .resize = pictures ? config.data.resize : 0,
                      .step = run_.state.step,
                      .epoch = run_.state.epoch,
                      .seed = config.seed,
                      .limit = config.data.limit,
                      .val_from = origin(data.val != nullptr, data.held_out.validation),
                      .test_from = origin(data.test != nullptr, data.held_out.test),
                      .divided_crc = divided ? provenance_.data_crc : 0,
                      .test_images = data.test ? data.test->count() : 0,
                      .on_corrupt = config.data.on_corrupt,
                      .labels = config.data.labels,
                      .compute = std::string(name_of(compute_type(config))),
                      .evaluated = evaluates_average(config) ? WeightSet::ema : WeightSet::weights,
                      .eval_batch = run_.session.evaluator().batch(),
                      .eval_views = config.train.eval_views,
                      .winograd = config.cpu.winograd,
                      .tf32 = config.cuda.tf32,
                      .plans = run_.session.backend().plans.text()});
}

Metadata RunSaver::best_metadata(const ModelSelection& selection, const Judged& judged) const {
  Metadata all = metadata();
  all.merge(selection_metadata(run_.config, selection.value(judged)));
  return all;
}

}  // namespace ct
