// cifar-train predict: the classes of pictures, by the network and the transform of a weights file.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <numeric>

#include "base/error.h"
#include "base/input.h"
#include "base/paths.h"
#include "base/shell_word.h"
#include "base/text.h"
#include "cli/csv_table.h"
#include "cli/picture_transform.h"
#include "cli/trained_network.h"
#include "cli/verbs.h"
#include "data/image_list.h"
#include "data/kinds.h"
#include "data/locate.h"
#include "data/sampler.h"
#include "metrics/calibration.h"
#include "metrics/log_format.h"

namespace ct {
namespace {

struct PredictFlags {
  std::string checkpoint, data, sort = "given";
  std::vector<std::string> images;
  int64_t top = 3, batch_size = 0;
  double temperature = 1;
  bool json = false, csv = false, quiet = false;
};

void add_options(CLI::App& app, PredictFlags& f) {
  app.add_option(
         "--ckpt", f.checkpoint,
         "a weights file, or the folder of a run (its best.bin) or checkpoint; may stand before the images alone")
      ->type_name("PATH");
  app.add_option("IMAGE", f.images,
                 "files, folders, - (a file on standard input), or images of data sets, such as cifar10:test:17")
      ->required();
  app.add_option("--data", f.data, "where data sets lie (default: the run's folder)")->type_name("FOLDER");
  app.add_option("--top", f.top, "the number of classes that are named for each image")->check(CLI::Range(1, 65536));
  app.add_option("--sort", f.sort, "given | uncertain: the order of images; uncertain: the least probable answer first")
      ->check(CLI::IsMember({"given", "uncertain"}));
  app.add_option("--temperature", f.temperature, "divides the logits; eval --temperature fits it")
      ->check(number_between(0.001, 1000));
  app.add_option("--batch-size", f.batch_size,
                 "images of a batch (default: at most as many as in the run's evaluations)")
      ->check(CLI::Range(int64_t{1}, int64_t{100000}));
  CLI::Option* const json = app.add_flag("--json", f.json, "a JSON object a line");
  app.add_flag("--csv", f.csv, "a table")->excludes(json);
  app.add_flag("-q,--quiet", f.quiet, "print results only");
}

/// Opens the data sets that words name, each once.
class NamedSets {
 public:
  NamedSets(const PredictFlags& flags, const WeightsInfo& info, const PictureTransform& transform)
      : flags_(flags), info_(info), transform_(transform) {}

  std::shared_ptr<const DataSet> of(const ImageOfSet& image, const std::string& word) {
    const DataKind* const kind = find_kind(image.kind);
    if (kind == nullptr || kind->key != image.kind)
      fail(ExitCode::usage, in_quotes(word), ": ", in_quotes(image.kind),
           " is neither a file nor a data set; data sets are ", joined(data_kinds(), ", ", &DataKind::key));
    std::shared_ptr<const DataSet>& set = sets_[{kind, image.split}];
    if (!set) set = opened(*kind, image.split);
    if (set->shape() != info_.sample)
      fail(ExitCode::data, in_quotes(word), ": its images are ", to_string(set->shape()), ", but ",
           in_quotes(flags_.checkpoint), " takes ", to_string(info_.sample), "; give images of the set of its run, ",
           info_.dataset);
    if (image.number >= set->count()) fail(ExitCode::usage, in_quotes(word), ": the last one is ", set->count() - 1);
    return set;
  }

 private:
  std::shared_ptr<const DataSet> opened(const DataKind& kind, Split split) const {
    const bool of_run = kind.name == info_.dataset;
    const std::string path = !flags_.data.empty() ? flags_.data
                             : of_run             ? info_.data_path
                                                  : std::string(kShippedFolder);
    LocateOptions where{.evaluated = split, .if_absent = IfAbsent::keep_in_memory};
    if (of_run && path == info_.data_path)
      where.train = info_.data_train, where.val = info_.data_val, where.test = info_.data_test;
    return kind.open(locate_data(kind.key, path, where), split,
                     {.on_corrupt = info_.on_corrupt,
                      .labels = info_.labels,
                      .threads = 0,
                      .pictures = transform_,
                      .classes = info_.class_names});
  }

  const PredictFlags& flags_;
  const WeightsInfo& info_;
  const PictureTransform& transform_;
  std::map<std::pair<const DataKind*, Split>, std::shared_ptr<const DataSet>> sets_;
};

void add_images(ImageList& list, const PredictFlags& flags, NamedSets& sets) {
  bool read_input_before = false;
  for (const std::string& word : flags.images) {
    if (word == "-") {
      if (std::exchange(read_input_before, true))
        fail(ExitCode::usage, "-: standard input holds one picture; give - once");
      try {
        list.add_bytes(word, read_input("/dev/stdin", kMostPictureBytes, ExitCode::data));
      } catch (const Error& error) {
        if (error.code() != ExitCode::data) throw;
        list.refuse(word, error.what());
      }
    } else if (const PathKind kind = kind_of(word, ExitCode::data); kind == PathKind::folder) {
      list.add_folder(word);
    } else if (const auto image = image_of_set(word); image && kind == PathKind::nothing) {
      list.add_of(word, sets.of(*image, word), image->number);
    } else if (kind == PathKind::nothing) {
      list.refuse(word, "no such file");
    } else {
      list.add_file(word);
    }
  }
}

using From = ImageList::From;

constexpr const char* kGive = "; give JPEG, PNG, WebP or PPM files, folders, - or an image such as cifar10:test:17";

/// "'a.jpg': why", where the reason does not name it itself, as errors of opening do.
std::string named(const std::string& name, const std::string& why) {
  return why.find(in_quotes(name)) != why.npos ? why : str(in_quotes(name), ": ", why);
}

/// "3 files are left out: 'a.txt' (not the name of a picture), ..."
std::string left_out_line(const std::map<std::string, std::string>& problems) {
  constexpr size_t kNamed = 10;
  std::string line =
      str(counted(static_cast<int64_t>(problems.size()), "file"), problems.size() == 1 ? " is" : " are", " left out: ");
  size_t n = 0;
  for (const auto& [name, why] : problems) {
    if (n == kNamed) return str(line, " and ", problems.size() - n, " more");
    line += str(n++ > 0 ? ", " : "", in_quotes(name), " (", why, ")");
  }
  return line;
}

/// The run's batch of an evaluation, so that answers are equal to the last digit. Fewer images are divided among cores.
int64_t shared_batch(int64_t images, const WeightsInfo& info) {
  constexpr int64_t kEnough = 32;  // a network computes about as fast as with more
  if (images >= info.eval_batch) return info.eval_batch;
  const int64_t batches = std::max(images / kEnough, int64_t{1});
  return (images + batches - 1) / batches;
}

/// The answers for one image, the most probable first.
struct Prediction {
  int64_t image;
  std::vector<std::pair<size_t, double>> classes;
};

Prediction prediction_of(int64_t image, std::span<const float> logits, const PredictFlags& flags) {
  std::vector<size_t> order(logits.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(), [&](size_t c) { return logits[c]; });
  order.resize(std::min(order.size(), static_cast<size_t>(flags.top)));
  const std::vector<double> p = probabilities(logits, flags.temperature);
  Prediction prediction{image, {}};
  for (const size_t c : order) prediction.classes.emplace_back(c, p[c]);
  return prediction;
}

void print(const std::vector<Prediction>& all, const ImageList& list, const std::vector<std::string>& names,
           const PredictFlags& flags, Console& console) {
  const auto raw = [](const std::string& line) { std::printf("%s\n", line.c_str()); };
  if (flags.csv) {
    std::string header = "image";
    for (size_t k = 1; k <= all.front().classes.size(); ++k) header += fmt::format(",class_{},probability_{}", k, k);
    raw(header);
  }
  for (const Prediction& one : all) {
    const std::string& image = list.image_name(one.image);
    if (flags.json) {
      Json record = {{"image", image}, {"predictions", Json::array()}};
      for (const auto& [c, p] : one.classes) record["predictions"].push_back({{"class", names[c]}, {"probability", p}});
      raw(record.dump(-1, ' ', false, Json::error_handler_t::replace));  // names of files may be no UTF-8
    } else if (flags.csv) {
      std::string row = csv_field(image);
      for (const auto& [c, p] : one.classes) row += fmt::format(",{},{}", csv_field(names[c]), p);
      raw(row);
    } else {
      console.data(image + ": " + joined(one.classes, ", ", [&](const auto& of) {
                     return names[of.first] + " " + percent(of.second);
                   }));
    }
  }
}

}  // namespace

int verb_predict(const Words& words) {
  CLI::App app("The class of each image and its probability.", "cifar-train predict");
  PredictFlags f;
  NetworkOptions options;
  add_options(app, f);
  options.add_to(app);
  if (!parse(app, words)) return 0;
  if (f.checkpoint.empty()) {  // predict RUN IMAGE, as eval RUN
    if (f.images.size() < 2)
      fail(ExitCode::usage, "--ckpt is required: cifar-train predict --ckpt RUN ", shell_word(f.images.front()));
    f.checkpoint = f.images.front();
    f.images.erase(f.images.begin());
  }

  Console console(true, f.quiet ? Verbosity::quiet : Verbosity::normal);
  TrainedNetwork network(f.checkpoint, options, console);
  const WeightsInfo& info = network.info();
  const PictureTransform transform = transform_of(info, f.checkpoint);
  NamedSets sets(f, info, transform);
  ImageList list(transform, info.class_names);
  add_images(list, f, sets);
  const auto say_left_out = [&] {
    if (const auto problems = list.problems(From::folders); !problems.empty()) console.note(left_out_line(problems));
    if (const auto problems = list.problems(From::given); problems.size() > 1)  // one is named by the error
      for (const auto& [name, why] : problems) warn(named(name, why));
  };
  const auto require_pictures = [&] {
    const auto given = list.problems(From::given), found = list.problems(From::folders);
    for (int64_t i = 0; i < list.count(); ++i)
      if (!given.contains(list.image_name(i)) && !found.contains(list.image_name(i))) return;
    say_left_out();
    if (given.size() == 1 && found.empty())
      fail(ExitCode::data, named(given.begin()->first, given.begin()->second), kGive);
    fail(ExitCode::data, in_quotes(f.images.front()), ": no picture in it can be read", kGive);
  };
  require_pictures();

  network.prepare(std::min(f.batch_size > 0 ? f.batch_size : shared_batch(list.count(), info), list.count()),
                  info.sample);
  std::vector<Prediction> all;
  try {
    network.evaluate(list, permutation(0, 0, static_cast<uint32_t>(list.count()), /*shuffle=*/false), "given",
                     [&](int64_t place, int32_t, std::span<const float> logits) {
                       if (std::ranges::any_of(logits, [](float z) { return !std::isfinite(z); }))
                         fail(ExitCode::diverged, in_quotes(f.checkpoint), ": the logits of ", list.image_name(place),
                              " are not finite, though all weights are: use an earlier checkpoint");
                       all.push_back(prediction_of(place, logits, f));
                     });
  } catch (const Error& error) {
    if (error.code() == ExitCode::data) require_pictures();
    throw;
  }
  if (f.sort == "uncertain")
    std::ranges::stable_sort(all, {}, [](const Prediction& one) { return one.classes.front().second; });
  print(all, list, info.class_names, f, console);
  say_left_out();
  if (const auto problems = list.problems(From::given); !problems.empty())
    fail(ExitCode::data, problems.size(), " of ", f.images.size(),
         " given images cannot be read: ", named(problems.begin()->first, problems.begin()->second),
         problems.size() > 1 ? ", ..." : "", kGive);
  return 0;
}

}  // namespace ct
