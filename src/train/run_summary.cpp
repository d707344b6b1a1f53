#include "train/run_summary.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "base/error.h"
#include "base/files.h"
#include "base/host.h"
#include "base/shell_word.h"
#include "base/text.h"
#include "base/utf8.h"
#include "base/version.h"
#include "comm/all_ranks.h"
#include "data/description.h"
#include "data/pictures/picture_set.h"
#include "metrics/log_format.h"
#include "train/class_balance.h"
#include "train/loss_scale_report.h"
#include "train/memory/resident_images.h"
#include "train/run/run_files.h"
#include "train/setup.h"

namespace ct {

namespace {

int64_t damaged_records(const Datasets& data) {
  int64_t count = 0;
  for (const DataSet* set : data.all()) count += set->skipped();
  return count;
}

std::string word_of_split(std::string_view split) { return split == "val" ? "validation" : std::string(split); }

/// "epoch 5", or of an evaluation within an epoch "step 130 (epoch 5)".
std::string moment(int64_t step, int64_t steps_per_epoch) {
  const std::string epoch = str("epoch ", (step + steps_per_epoch - 1) / steps_per_epoch);
  return step % steps_per_epoch == 0 ? epoch : str("step ", step, " (", epoch, ")");
}

/// Where the given keys come from: files, and words of the command line, which may be any bytes.
Json printable_origins(const Config& config) {
  Json origins = Json::object();
  for (const auto& [key, origin] : config.origins) origins[key] = printable(origin);
  return origins;
}

std::string all_learn(const Config& config) {
  return str("all parameters learn since epoch ", config.train.unfreeze_at + 1,
             ", with moments that began at 0 (train.unfreeze_at)");
}

}  // namespace

std::map<int64_t, double> recorded_accuracies(const Path& folder, const std::string& split) {
  std::map<int64_t, double> accuracies;
  each_record(folder, "eval", [&](int64_t step, const Json& record) {
    const Json accuracy = record.value("accuracy", Json());
    if (record.value("split", Json()) == split && accuracy.is_number()) accuracies[step] = accuracy.get<double>();
  });
  return accuracies;
}

std::optional<double> recorded_loss(const Path& folder, int64_t step) {
  std::optional<double> found;
  each_record(folder, "epoch", [&](int64_t at, const Json& record) {
    if (const Json loss = record.value("loss", Json()); at == step && loss.is_number()) found = loss.get<double>();
  });
  return found;
}

void RunSummary::announce(const std::string& config_source, const std::string& checkpoint) const {
  const Config& config = run_.config;
  TrainingSession& session = run_.session;
  RunLog& log = run_.log;
  const Distribution& d = session.distribution();
  const BatchSizes& batch = session.batch();
  const Datasets& data = session.data();
  const int64_t damaged = damaged_records(data);
  log.note(str("cifar-train ", version(), ", configuration ", config_source));
  if (!session.device().note().empty()) log.warn(session.device().note());
  log.note(str(session.collectives().description(), "; ", session.backend().description()));
  log.note(data.source.note);
  for (const std::string& line : notes_of(data)) log.note(line);
  if (session.comm().rank() == 0) {
    log.console().progress("looking for pictures that are in two parts");
    for (const std::string& line : warnings_of(data)) log.warn(line);
  }
  const std::vector<int64_t> counts = class_counts(*data.train, data.parts.training);
  if (const std::string line = imbalance(config, data.train->class_names(), counts); !line.empty()) log.warn(line);
  if (const auto* const pictures = dynamic_cast<const PictureSet*>(data.train.get()))
    if (const std::string line = pictures->enlarged(); !line.empty()) log.warn(line);
  if (config.communication.check_interval > 0 && d.effective_stage() == 3)
    log.warn("communication.check_interval has nothing to compare: ZeRO stage 3 keeps no copies");
  if (damaged > 0)
    log.note(
        str(counted(damaged, "damaged record"), damaged == 1 ? " is" : " are", " left out (data.on_corrupt: skip)"));
  log.note(str("model ", config.model.name, ": ", session.graph().parameter_count(), " parameters, ",
               name_of(compute_type(config)), ", ZeRO stage ", d.effective_stage(), "; ", optimizer_note(config),
               "; batch ", batch.train, " = ", batch.micro, " x ", batch.accumulation, " micro-steps x ", d.ranks,
               " ranks"));
  if (const std::string line = learning_note(session.graph()); !line.empty()) log.note(line);
  if (const DataSpec& spec = session.spec(); may_be_resident(config, spec) && !spec.resident)
    log.note(str("the training images, ", human_bytes(static_cast<uint64_t>(resident_bytes(spec))),
                 " a rank, do not fit into the GPU's memory beside the rest: each step uploads its own"));
  const int64_t left = session.pipeline().images() % batch.train, micros = d.micro_batches();
  const std::string units = micros == 1 || config.train.log_format == LogFormat::ema_loss
                                ? ""
                                : str(", each of ", micros, " micro-batches, which lines of losses count");
  log.note(str(session.steps_per_epoch(), " steps per epoch, ", total_steps_, " in all", units,
               left ? str("; ", counted(left, "image"), left == 1 ? " is" : " are", " left over each epoch") : ""));
  if (!config.batch.micro && checkpoint.empty())
    log.note(
        "the micro-batch size follows from the number of ranks, so another number gives other bits; set "
        "train_micro_batch_size_per_gpu to prevent that");
  if (const auto scale = update_rule(config).loss_scale) log.note("fp16: " + describe(*scale));
  if (const std::string line = report_wire(); !line.empty()) log.note(line);
  if (evaluates_average(config))
    log.note("evaluations, best.bin and early stopping use the moving average of the weights (train.ema)");
  if (config.train.best.split == BestSplit::last)
    log.note("best.bin will be the newest evaluated weights (train.best.split: last)");
  if (config.train.best.split == BestSplit::test)
    log.note("best.bin is chosen by the test set, so its test results are biased upwards (train.best.split: test)");
  if (!phase_at(config, run_.state).freezes) log.note(all_learn(config));
  if (!checkpoint.empty()) log.note(str("resumed from ", checkpoint, " at step ", run_.state.step));
  record_start();
}

void RunSummary::announce_unfrozen() const { run_.log.note(all_learn(run_.config)); }

void RunSummary::record_start() const {
  const Config& config = run_.config;
  TrainingSession& session = run_.session;
  const Distribution& d = session.distribution();
  const BatchSizes& batch = session.batch();
  const Datasets& data = session.data();
  run_.log.record({{"event", "start"},
                   {"step", run_.state.step},
                   {"version", version()},
                   {"model", config.model.name},
                   {"compute", name_of(compute_type(config))},
                   {"parameters", session.graph().parameter_count()},
                   {"dataset", data.train->name()},
                   {"train_images", session.pipeline().images()},
                   {"damaged_records", damaged_records(data)},
                   {"device", session.backend().description()},
                   {"collectives", session.collectives().description()},
                   {"ranks", d.ranks},
                   {"zero_stage", d.zero_stage},
                   {"train_batch_size", batch.train},
                   {"micro_batch_size", batch.micro},
                   {"gradient_accumulation_steps", batch.accumulation},
                   {"seed", config.seed},
                   {"host", host_name()},
                   {"origins", printable_origins(config)}});
}

/// What becomes of a communication_data_type of 16 bits; empty: none is asked for.
std::string RunSummary::report_wire() const {
  const Config& config = run_.config;
  if (config.communication_data_type == CommDataType::fp32) return "";
  const std::string asked = str("communication_data_type ", word_of(config.communication_data_type), ": ");
  if (config.communication.reproducible)
    return asked + "sums stay f32, the same on any number of ranks, unless communication.reproducible is false";
  if (!run_.session.collectives().narrows())
    return str(asked, "sums stay f32 with ", run_.session.collectives().description(),
               "; messages between CPUs of several hosts travel in 16 bits");
  return asked + "gradients travel in 16 bits and are added in f32";
}

void RunSummary::print_results(const Evaluation& test) const {
  const std::vector<std::string>& class_names = run_.session.data().train->class_names();
  const auto names = [&](const std::vector<int32_t>& labels) {
    std::vector<std::string> text;
    for (int32_t label : labels) text.push_back(class_names[static_cast<size_t>(label)]);
    return text;
  };
  Console& console = run_.log.console();
  const LogFormat format = run_.config.train.log_format;
  if (format != LogFormat::example) {
    console.data(labels_line("GroundTruth", names(test.labels)));
    console.data(labels_line("Predicted", names(test.predicted)));
  }
  console.data(accuracy_line(test.correct, test.images, test.split, format));
  for (const std::string& line : class_lines(test, class_names, format)) console.data(line);
}

double RunSummary::images_a_second() const {
  return static_cast<double>(steps() * run_.session.batch().train) / std::max(run_.clock.seconds(), 1e-9);
}

/// Which evaluation train.best chose; empty: the newest, or none yet.
Json RunSummary::best_evaluation() const {
  const auto& [split, metric] = run_.config.train.best;
  if (split == BestSplit::last || run_.state.best_step < 0) return {};
  return {{"step", run_.state.best_step},
          {"split", word_of(split)},
          {"metric", word_of(metric)},
          {"value", run_.state.best_value}};
}

Json RunSummary::usage(size_t snapshot_bytes, const Traffic& moved, const Traffic& norms) const {
  TrainingSession& session = run_.session;
  Communicator& comm = session.comm();
  const MemoryUse train = session.engine().bound().allocated(), evaluate = session.evaluator().bound().allocated();
  // Ranks that are threads of one process share what the system counts.
  const int64_t pid = getpid();
  const auto pids = gather(comm, std::span(&pid, 1));
  const bool threads = std::ranges::count(pids, pid) == std::ssize(pids);
  const auto all = [&](int64_t mine) { return gather(comm, std::span<const int64_t>(&mine, 1)); };
  const auto mean = [&](int64_t mine) {
    double sum = 0;
    for (const int64_t n : all(mine)) sum += static_cast<double>(n);
    return sum / comm.size();
  };
  const auto bytes = [&](int64_t mine) { return std::llround(mean(mine)); };
  const auto a_step = [&](int64_t mine) {
    return trained() ? Json(mean(mine) / static_cast<double>(run_.state.step - first_step_)) : Json();
  };
  Json allocated = {{"weights", bytes(train.weights + evaluate.weights)},
                    {"gradients", bytes(train.gradients)},
                    {"optimizer", bytes(train.optimizer)},
                    {"activations", bytes(train.activations + evaluate.activations)},
                    {"gradient_buckets", bytes(train.exchange + evaluate.exchange)},
                    {"other", bytes(train.other + evaluate.other)},
                    {"snapshot", bytes(static_cast<int64_t>(snapshot_bytes))}};
  int64_t total = 0;
  for (const auto& [category, n] : allocated.items()) total += n.get<int64_t>();
  Json peak = {{"total", total},
               {"process", std::ranges::max(all(peak_resident_bytes()))},
               {"proportional", std::llround(mean(proportional_bytes()) / (threads ? comm.size() : 1))}};
  peak.update(allocated);
  peak["readable_by_peers"] = bytes(static_cast<int64_t>(comm.allocated_bytes()));
  peak["transient"] = {{"gathered_weights", bytes(std::max(train.gathered_weights, evaluate.gathered_weights))},
                       {"gradient_buckets", bytes(train.gradient_buckets)}};
  return {{"peak_bytes", peak},
          {"traffic",
           {{"elements", a_step(moved.elements)},
            {"bytes", a_step(moved.bytes)},
            {"norm_elements", a_step(norms.elements)}}}};
}

void RunSummary::record_end(const std::string& reason, const Json& result) const {
  Json end = {{"event", "end"},
              {"step", run_.state.step},
              {"reason", reason},
              {"seconds", run_.clock.wall_seconds()},
              {"samples_per_sec", trained() ? Json(images_a_second()) : Json()}};
  if (const Json chosen = best_evaluation(); !chosen.empty()) end["best"] = chosen;
  if (run_.state.replaced > 0) end["replaced_samples"] = run_.state.replaced;
  if (run_.state.scalars.skipped > 0) end["skipped"] = run_.state.scalars.skipped;
  // What a script that checks speed or repeatability has to know.
  TrainingSession& session = run_.session;
  for (const std::string& why : {session.engine().bound().not_recorded(), session.evaluator().bound().not_recorded()})
    if (!why.empty()) end["not_recorded"] = why;
  if (!session.plans_missed().empty()) end["plans_missed"] = session.plans_missed();
  end.update(result);
  run_.log.record(end);
}

/// What best.bin is, and what its figures are worth.
std::string RunSummary::best_line(const Path& folder, const Evaluation& final) const {
  const auto& [split, metric] = run_.config.train.best;
  if (split == BestSplit::last) return best_of_last(folder, final);
  const int64_t step = run_.state.best_step;
  if (step < 0) return "";
  std::string line = str("best: ", moment(step, run_.session.steps_per_epoch()), ", ", word_of_split(word_of(split)));
  const auto accuracies = recorded_accuracies(folder, std::string(word_of(split)));
  if (const auto found = accuracies.find(step); found != accuracies.end()) line += " " + percent(found->second);
  if (metric == Metric::loss) line += fmt::format(", chosen by its loss of {:.4f}", run_.state.best_value);
  if (split == BestSplit::val && final.split == "test") return str(line, "; test ", percent(final.accuracy()));
  return str(line, "; these images chose the weights, so the figure is optimistic",
             split == BestSplit::val ? ": data.test holds out images that choose nothing" : "");
}

std::string RunSummary::best_of_last(const Path& folder, const Evaluation& final) const {
  const std::string why = run_.session.data().validation().empty()
                              ? "nothing is held out"
                              : "train.best.split is last, so the validation images choose nothing";
  const auto accuracies = recorded_accuracies(folder, final.split);
  const auto best = std::ranges::max_element(accuracies, {}, &std::pair<const int64_t, double>::second);
  const std::string last = str("best.bin holds the last weights, ", percent(final.accuracy())),
                    images = str(" of the ", word_of_split(final.split), " images");
  if (best == accuracies.end() || best->second <= final.accuracy()) return str(last, images, ": ", why);
  return str(last, ": ", why, "; ", moment(best->first, run_.session.steps_per_epoch()), " had ", percent(best->second),
             images);
}

void RunSummary::print_end(const std::string& weights_sha256, const Json& usage, const Path& folder,
                           const Evaluation& final) const {
  if (const int64_t skipped = run_.state.scalars.skipped; skipped > 0) {
    const std::string share = percent(static_cast<double>(skipped) / static_cast<double>(run_.state.step), 1);
    run_.log.note(str(counted(skipped, "step"), " of ", run_.state.step, " (", share, ") ",
                      skipped == 1 ? "was" : "were", " skipped: the loss or gradient was not finite"));
  }
  const std::string best = (folder / kBestFile).string();
  const double seconds = run_.clock.seconds_since_setup();
  const double images = static_cast<double>(steps() * run_.session.batch().train);
  const Json& peak = usage["peak_bytes"];
  const bool on_gpu = !run_.session.backend().is_host();
  run_.log.note(str("trained ", counted(steps(), "step"), " in ",
                    seconds < 60 ? fmt::format("{:.1f} s", seconds) : duration(seconds),
                    fmt::format(", {:.0f} images/s end to end, {:.0f} in steps; ", images / seconds, images_a_second()),
                    on_gpu ? human_bytes(peak["total"].get<uint64_t>()) + " of the GPU and " : "",
                    human_bytes(peak["process"].get<uint64_t>()), " of memory a process"));
  run_.log.note("weights_sha256 " + weights_sha256);
  if (const std::string line = best_line(folder, final); !line.empty()) run_.log.note(line);
  run_.log.note("results: " + best + "; evaluate with: cifar-train eval --ckpt " + shell_word(best));
}

}  // namespace ct
