// cifar-train eval: what a weights file is worth. It needs nothing but the file and the data. Where nothing else is
// asked for it computes as the run's own evaluation did, to the same loss in all its digits.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>

#include "base/error.h"
#include "base/paths.h"
#include "base/text.h"
#include "base/utf8.h"
#include "cli/answer_report.h"
#include "cli/config_lookup.h"
#include "cli/csv_table.h"
#include "cli/foreign.h"
#include "cli/trained_network.h"
#include "cli/verbs.h"
#include "data/description.h"
#include "data/hold_out.h"
#include "data/image_folder/image_folder_set.h"
#include "data/unread_layout.h"
#include "metrics/console.h"
#include "train/config/foreign.h"
#include "train/evaluation.h"
#include "train/setup.h"
#include "train/weights.h"

namespace ct {
namespace {

const DataKind* kind_of_run(const std::string& checkpoint, const WeightsInfo& info) {
  const DataKind* const kind = find_kind(info.dataset);
  if (kind == nullptr)
    fail(ExitCode::checkpoint, in_quotes(checkpoint), ": trained on ", in_quotes(info.dataset),
         ", a kind of data set that this version does not know; use a newer version");
  return kind;
}

/// The run's kind of data set, or where that is not at `path` another one of pictures that is: a run on a folder may be
/// evaluated on what that was packed into.
const DataKind* kind_at(const std::string& path, const std::string& checkpoint, const WeightsInfo& info) {
  const DataKind* const kind = kind_of_run(checkpoint, info);
  if (!kind->pictures || find_data(kind->key, path)) return kind;
  const std::optional<DataSource> there = find_data("auto", path);
  if (there && there->kind->pictures) return there->kind;
  return is_one_split(path) ? find_kind(kImageFolderName) : kind;
}

/// The images of a run's weights.
struct Images {
  const std::string& checkpoint;
  const WeightsInfo& info;
  std::string path;      // where they lie
  bool recorded = true;  // by the weights; false: --data says so
  std::string split;     // test | train | val
  OnCorrupt on_corrupt;
};

/// Where the images of a split come from: kOwnImages, kNoImages or a share of the training set.
const std::string& origin_of(const Images& images) {
  static const std::string kOwn(kOwnImages);
  if (images.split == "train") return kOwn;
  if (images.split == "val") return images.info.val_from;
  return images.recorded ? images.info.test_from : kOwn;
}

bool is_share(const Images& images) { return portion_of(origin_of(images)).is_share(); }

Split part_of(const Images& images) {
  return images.split == "train" || is_share(images) ? Split::train : images.split == "val" ? Split::val : Split::test;
}

/// The images of the run's split, in file order.
std::vector<uint32_t> images_of(const Images& images, const DataSet& set) {
  const WeightsInfo& info = images.info;
  if (part_of(images) != Split::train) return whole(&set).images;
  if (info.held_out_before > 0)
    fail(ExitCode::usage, "--split ", images.split, ": an earlier version of this program held the ",
         info.held_out_before, " validation images of ", in_quotes(images.checkpoint), " out, in another way");
  const auto share = [](const std::string& from) {
    return from == kOwnImages || from == kNoImages ? Portion{} : portion_of(from);
  };
  Parts parts = divide(set, {.seed = static_cast<uint64_t>(info.seed),
                             .limit = info.limit,
                             .validation = share(info.val_from),
                             .test = share(info.test_from)});
  if (images.recorded && info.divided_crc != 0 && fingerprint(set, parts) != info.divided_crc)
    fail(ExitCode::data, images.path, ": other images than those of the run, which held some of them out: among the ",
         images.split, " images may be some that it trained on; restore the set, or give other images with --data DIR");
  return images.split == "val" ? parts.validation : images.split == "test" ? parts.test : parts.training;
}

/// Refuses a split that the run did not have.
void require_split(const Images& images) {
  if (origin_of(images) != kNoImages) return;
  if (images.split == "test")
    fail(ExitCode::usage, "--split test: the run has no test images; use val, or give others with --data DIR");
  fail(ExitCode::usage, "--split ", images.split,
       ": the run has no validation images (data.validation: 0); use test or train");
}

/// Where to look: of a folder of pictures --data may be the part itself, with the folders of the classes.
LocateOptions places(const Images& images, const DataKind& kind) {
  const WeightsInfo& info = images.info;
  // Looking at weights makes no folders.
  LocateOptions where{.evaluated = part_of(images), .if_absent = IfAbsent::keep_in_memory};
  if (images.path == info.data_path)
    where.train = info.data_train, where.val = info.data_val, where.test = info.data_test;
  const auto holds = [&](const std::string& name) { return is_folder(Path(images.path) / name, ExitCode::data); };
  if (!images.recorded && kind.holds_split && !holds("train") &&
      (std::ranges::any_of(info.class_names, holds) || is_one_split(images.path)))
    (part_of(images) == Split::test  ? where.test
     : part_of(images) == Split::val ? where.val
                                     : where.train) = images.path;
  return where;
}

/// Classes have numbers, which those of pictures have by their names.
void require_same_classes(const Images& images, const DataSet& set, bool pictures) {
  const std::vector<std::string>&trained = images.info.class_names, &here = set.class_names();
  const std::string names =
      trained.empty() ? "" : str(", ", in_quotes(trained.front()), " to ", in_quotes(trained.back()));
  const std::string remedy =
      str("; give images of the classes that it was trained on", names, images.recorded ? ", with --data DIR" : "");
  if (here.size() != trained.size())
    fail(ExitCode::data, images.path, ": ", here.size(), " classes, but ", in_quotes(images.checkpoint),
         " was trained on ", trained.size(), remedy);
  for (size_t c = 0; c < trained.size() && pictures; ++c)
    if (here[c] != trained[c])
      fail(ExitCode::data, images.path, ": class ", c, " is ", in_quotes(here[c]), ", but that of ",
           in_quotes(images.checkpoint), " is ", in_quotes(trained[c]), remedy);
}

std::unique_ptr<DataSet> open_images(const Images& images, Console& console) {
  const auto& [checkpoint, info, path, recorded, split, on_corrupt] = images;
  OpenOptions options{.on_corrupt = on_corrupt, .labels = info.labels, .threads = 0, .classes = info.class_names};
  if (info.size > 0) {
    options.pictures.size = static_cast<int>(info.size);
    options.pictures.resize = static_cast<int>(info.resize);
  }
  const DataKind* const kind = path == info.data_path ? kind_of_run(checkpoint, info) : kind_at(path, checkpoint, info);
  const Split part = part_of(images);
  std::unique_ptr<DataSet> set;
  try {
    const DataSource source = locate_data(kind->key, path, places(images, *kind));
    if (source.folder.empty() && !recorded)
      fail(ExitCode::data, path, ": no ", kind->name, " in it, on which ", in_quotes(checkpoint),
           " was trained; without --data the program creates it in memory");
    if (source.folder.empty()) console.note(source.note);
    set = kind->open(source, part, options);
  } catch (const Error& e) {
    if (e.code() != ExitCode::data || !recorded || std::string_view(e.what()).find("--data") != std::string_view::npos)
      throw;
    fail(e.code(), e.what(), "; or give the images' folder with --data DIR");
  }
  require_same_classes(images, *set, kind->pictures);
  for (const std::string& line : notes_of(*set, part)) console.note(line);
  return set;
}

/// "Test loss = 0.3985...", "Test accuracy: 84.16%", in as many digits as metrics.jsonl has.
void print_figures(const Evaluation& result, Console& console) {
  std::string split = result.split;
  split[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(split[0])));
  const auto text = [](double x) { return std::isfinite(x) ? Json(x).dump() : str(x); };
  console.data(split + " loss = " + text(result.loss));
  console.data(split + " accuracy: " +
               text(100.0 * static_cast<double>(result.correct) / static_cast<double>(result.images)) + "%");
}

bool has_top5(const Evaluation& result) { return result.classes.size() > 5; }

void print_text(const Evaluation& result, const WeightsInfo& info, const std::string& checkpoint,
                const AnswerReport* report, Console& console) {
  console.note(fmt::format("{}: {}, step {}, {} {} images; loss {:.4f}, accuracy {}", printable(checkpoint),
                           info.model.name, info.step, info.dataset, result.split, result.loss,
                           percent(result.accuracy())));
  if (result.left_out > 0) console.note(left_out_line(result));
  print_figures(result, console);
  console.data(accuracy_line(result.correct, result.images, result.split));
  if (has_top5(result))
    console.data("Top-5 accuracy: " + percent(static_cast<double>(result.top5) / static_cast<double>(result.images)));
  for (const std::string& line : class_lines(result, info.class_names)) console.data(line);
  if (report != nullptr)
    for (const std::string& line : report->lines()) console.data(line);
}

void print_json(const Evaluation& result, const WeightsInfo& info, WeightSet set, const AnswerReport* report) {
  Json record = {{"event", "eval"}, {"step", info.step}};
  record.update(result.to_json(has_top5(result)));
  if (set == WeightSet::ema) record["weights"] = "ema";
  if (report != nullptr) report->add_to(record);
  std::printf("%s\n", record.dump().c_str());
}

struct EvalFlags {
  std::string checkpoint, config, env;
  std::string data, split;                 // empty: the run's; test, or without such images val
  int64_t batch_size = 0, max_images = 0;  // 0: the run's; all
  std::string on_corrupt;                  // empty: as the run did
  std::string confusion, predictions;      // files; empty: none
  bool temperature = false, json = false, quiet = false;
  CLI::Option *checkpoint_given, *batch_size_given, *max_images_given;
};

void add_options(CLI::App& app, EvalFlags& f) {
  f.checkpoint_given =
      app.add_option("RUN,--ckpt", f.checkpoint, "a weights file, or the folder of a run (its best.bin) or checkpoint")
          ->type_name("PATH");
  app.add_option("--config", f.config,
                 "a configuration with an eval block: ckpt_path, batch_size, max_eval (and data.on_corrupt)")
      ->type_name("CONFIG");
  app.add_option("--env", f.env, "a job's file of KEY=VALUE lines, which may set --config and --cuda-path")
      ->type_name("FILE");
  app.add_option("--data", f.data, "folder of the images (default: the run's)")->type_name("FOLDER");
  app.add_option("--split", f.split, "test | train | val (default: test, or val if the run has no test images)")
      ->check(CLI::IsMember({"test", "train", "val"}));
  f.batch_size_given =
      app.add_option("--batch-size", f.batch_size, "images of a batch (default: as in the run's evaluations)")
          ->check(CLI::Range(int64_t{1}, int64_t{100000}));
  f.max_images_given =
      app.add_option("--max-images", f.max_images, "evaluate the first N images only; 0: all")->check(count_problem);
  app.add_option("--on-corrupt", f.on_corrupt, "error | skip: the reaction to a damaged image (default: the run's)")
      ->check(CLI::IsMember(words_of(OnCorrupt{})));
  app.add_option("--confusion", f.confusion, "a CSV file to write: images by true class and answered class")
      ->type_name("FILE");
  app.add_option("--predictions", f.predictions, "a CSV file to write: the answer for each image")->type_name("FILE");
  app.add_flag("--temperature", f.temperature,
               "fit the temperature of the probabilities on the run's validation images");
  app.add_flag("--json", f.json, "one JSON object instead of text");
  app.add_flag("-q,--quiet", f.quiet, "print results only");
}

/// What the files of a job say where options do not.
void take_files(EvalFlags& f, NetworkOptions& network, Console& console) {
  std::vector<std::string> warnings;
  const JobEnvironment job = enter_job(f.env, &warnings);
  for (const std::string& line : warnings) console.note("warning: " + line);
  if (job.cuda_path && network.cuda_path_given->count() == 0) network.config.cuda.path = job.cuda_path->value;
  if (f.config.empty()) f.config = job.config;
  if (!f.config.empty()) {
    const std::filesystem::path path = locate_config(f.config);
    const EvaluationKeys said = evaluation_of(document::read_file(path));
    if (f.checkpoint_given->count() == 0) f.checkpoint = said.checkpoint;
    if (f.on_corrupt.empty()) f.on_corrupt = said.on_corrupt;
    if (f.batch_size_given->count() == 0) f.batch_size = said.batch_size.value_or(f.batch_size);
    if (f.max_images_given->count() == 0 && said.max_images) {
      f.max_images = *said.max_images;
      console.note(str(path.string(), ": at most ", f.max_images, " images (eval.max_eval); --max-images 0 takes all"));
    }
  }
  if (f.checkpoint.empty())
    fail(ExitCode::usage, "--ckpt is required",
         f.config.empty() ? "" : str(", for ", in_quotes(f.config), " has no eval.ckpt_path"),
         ": give a weights file, or the folder of a run or checkpoint; see cifar-train eval --help");
}

/// Fits the temperature on the images that the run held out, of the set that `images` names.
Temperature fitted(TrainedNetwork& network, Images images, Console& console) {
  images.split = "val";
  require_split(images);
  const auto set = open_images(images, console);
  LabelledLogits answers;
  const Evaluation result = network.evaluate(
      *set, images_of(images, *set), images.split, [&](int64_t, int32_t label, std::span<const float> logits) {
        answers.labels.push_back(label);
        answers.logits.insert(answers.logits.end(), logits.begin(), logits.end());
      });
  network.require_finite_loss(result);
  return {fit_temperature(answers), static_cast<int64_t>(answers.labels.size())};
}

/// The set's name of an image, as predict takes it: "cifar10:test:17", or a picture's file.
std::string image_name(const DataSet& set, const std::string& split, uint32_t image) {
  if (const auto* pictures = dynamic_cast<const PictureSet*>(&set)) return pictures->picture_name(image);
  const DataKind* const kind = find_kind(set.name());
  return str(kind != nullptr ? kind->key : set.name(), split == "test" ? ":test:" : ":train:", image);
}

}  // namespace

int verb_eval(const Words& words) {
  CLI::App app("Loss, accuracy and per-class table of a weights file.", "cifar-train eval");
  EvalFlags f;
  NetworkOptions options;
  add_options(app, f);
  options.add_to(app);
  if (!parse(app, words)) return 0;

  Console console(true, f.quiet ? Verbosity::quiet : Verbosity::normal);
  take_files(f, options, console);
  if (!f.confusion.empty() && !f.predictions.empty() && without_links(f.confusion) == without_links(f.predictions))
    fail(ExitCode::usage, "--confusion and --predictions both name ", in_quotes(f.confusion),
         ": give each its own file");
  if (!f.confusion.empty()) require_replaceable_table(f.confusion, AnswerReport::kConfusionHeader, "--confusion");
  if (!f.predictions.empty())
    require_replaceable_table(f.predictions, AnswerReport::kPredictionsHeader, "--predictions");
  TrainedNetwork network(f.checkpoint, options, console);
  const WeightsInfo& info = network.info();
  if (f.temperature && info.val_from == kNoImages)
    fail(ExitCode::usage, "--temperature is fitted on validation images, and the run of ", in_quotes(f.checkpoint),
         " held none out (data.validation: 0): train with data.validation, or leave --temperature out");
  const bool recorded = f.data.empty();
  if (f.split.empty()) f.split = recorded && info.test_from == kNoImages ? "val" : "test";
  if (recorded)
    f.data = info.data_path;
  else
    require_named_folder(f.data, info.dataset);
  const Images wanted_images{f.checkpoint, info, f.data, recorded, f.split, of_word(f.on_corrupt, info.on_corrupt)};
  require_split(wanted_images);
  const auto images = open_images(wanted_images, console);
  const int64_t now_skipped = info.on_corrupt == OnCorrupt::error ? images->skipped() : 0;
  if (recorded && part_of(wanted_images) == Split::test && images->count() + now_skipped != info.test_images)
    fail(ExitCode::data, f.data, is_there(Path(f.data)) ? "" : " is not there, and the built-in set was taken", ": ",
         counted(images->count(), "test image"), ", where the run had ", info.test_images,
         "; restore the set, or give the folder of other images with --data DIR");

  std::vector<uint32_t> chosen = images_of(wanted_images, *images);
  if (f.max_images > 0) chosen.resize(std::min(chosen.size(), static_cast<size_t>(f.max_images)));
  const bool as_the_run = f.batch_size == 0 && f.max_images == 0;
  const int64_t wanted = f.batch_size > 0 ? f.batch_size : info.eval_batch;
  network.prepare(std::min(wanted, as_the_run ? images->count() : static_cast<int64_t>(chosen.size())),
                  images->shape());

  AnswerReport report(info.class_names,
                      f.temperature ? std::optional(fitted(network, wanted_images, console)) : std::nullopt);
  const Evaluation result = network.evaluate(
      *images, chosen, f.split,
      [&](int64_t place, int32_t label, std::span<const float> logits) { report.add(place, label, logits); });
  const bool finite = std::isfinite(result.loss);  // else answers say nothing
  if (f.json)
    print_json(result, info, network.set(), finite ? &report : nullptr);
  else
    print_text(result, info, f.checkpoint, finite ? &report : nullptr, console);
  network.require_finite_loss(result);
  FileSystem files;
  if (!f.confusion.empty()) write_file_atomic(files, f.confusion, report.confusion_table());
  if (!f.predictions.empty())
    write_file_atomic(files, f.predictions, report.predictions_table([&](int64_t place) {
      return image_name(*images, f.split, chosen[static_cast<size_t>(place)]);
    }));
  return 0;
}

}  // namespace ct
