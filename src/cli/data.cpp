// `data synth|verify|info|convert` (convert: cli/data_convert.cpp)
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <tuple>

#include "base/error.h"
#include "base/paths.h"
#include "base/terminal.h"
#include "base/text.h"
#include "base/utf8.h"
#include "base/wrong_download.h"
#include "cli/subverbs.h"
#include "data/cifar/cifar_set.h"
#include "data/description.h"
#include "data/locate.h"
#include "data/synthetic/synthetic.h"
#include "data/unread_layout.h"
#include "metrics/console.h"

namespace ct {
namespace {

struct DataOptions {
  std::string path = "data", dataset = "auto";

  void add_to(CLI::App& app) {
    app.add_option("--data,--path", path, "folder of the data sets, or of one data set")
        ->type_name("FOLDER")
        ->capture_default_str();
    app.add_option("--dataset", dataset, "the kind of data set; auto: the first one found")
        ->check(CLI::IsMember(dataset_choices()))
        ->capture_default_str();
  }

  DataSource source() const {
    require_named_folder(path, dataset);
    std::string missing, remedies;
    for (const DataKind& kind : data_kinds()) {
      if (dataset != "auto" && dataset != kind.key) continue;
      if (auto found = find_data(kind.key, path)) return *std::move(found);
      missing += str(missing.empty() ? "" : " or ", shown_folder(kind));
      remedies = str("; for ", kind.name, ", ", kind.how_to_get(path), remedies);  // what is at hand comes first
    }
    if (const std::string layout = unread_layout(path, find_kind(dataset)); !layout.empty())
      fail(ExitCode::data, layout);
    fail(ExitCode::data, path, ": no ", missing, remedies);
  }
};

int synth(const Words& words) {
  CLI::App app("Writes the built-in synthetic set, 50,000 + 10,000 images in CIFAR-10's file layout.",
               "cifar-train data synth");
  std::string out = "data";
  int64_t images = kSyntheticTrain;
  app.add_option("--out", out, str("folder for ", kSyntheticFolder, "/"))->type_name("FOLDER")->capture_default_str();
  app.add_option("--images", images, "training images, a multiple of 50; test images are a fifth as many")
      ->check(CLI::Range(1, kSyntheticTrain))
      ->capture_default_str();
  if (!parse(app, words)) return 0;
  constexpr int64_t kFiles = 5, kClasses = kSyntheticClasses.size();
  if (images % (kFiles * kClasses) != 0)
    fail(ExitCode::usage, "--images ", images, ": give a multiple of ", kFiles * kClasses, ", so that each of the ",
         kFiles, " files has every class equally often");
  if (out.empty()) fail(ExitCode::usage, "--out '' names no folder: give the path of one");
  const Path folder = Path(out) / kSyntheticFolder;
  const bool written =
      shown("writing " + folder.string(), [&] { return write_synthetic(folder, {}, images / kFiles); });
  if (const int64_t there = kFiles * records_per_file(folder); there != images)
    fail(ExitCode::data, folder.string(), ": has ", there, " images to train on, not ", images,
         ": give another --out, or delete it first");
  print_line(str(folder.native(), ": ", written ? "written" : "was there already"));
  return 0;
}

int verify_data(const Words& words) {
  CLI::App app("Checks the files of a data set as completely as their format allows.", "cifar-train data verify");
  DataOptions options;
  options.add_to(app);
  OpenOptions opening;
  app.add_option("--max-pixels", opening.pictures.max_pixels, "a picture with more pixels counts as damaged")
      ->check(positive_problem)
      ->capture_default_str();
  if (!parse(app, words)) return 0;

  const DataSource source = options.source();
  const DataKind& kind = *source.kind;
  const std::vector<FileReport> files = shown("verifying " + source.folder.string(),
                                              [&] { return kind.verify(source.folder, opening, Depth::every_byte); });
  print_line(str(kind.name, " in ", source.folder.native(), "; ", kind.verified));
  int width = 18;
  const Path base = kind.suffix.empty() ? source.folder : source.folder.parent_path();
  const auto name = [&](const FileReport& file) { return printable(file.path.lexically_relative(base).native()); };
  for (const FileReport& file : files) width = std::max(width, static_cast<int>(name(file).size()));
  std::printf("%-*s %9s %7s  %s\n", width, "file", "bytes", "records", "sha256");
  std::vector<FileReport> wrong;
  const auto verdict = [&](const FileReport& file) {
    if (!file.problem.empty()) return file.problem;
    const auto damaged = std::ranges::count_if(files, [&](const FileReport& other) {
      return !other.problem.empty() && other.path.native().starts_with(file.path.native() + "/");
    });
    return damaged == 0 ? "ok" : str(damaged, " damaged");
  };
  for (const FileReport& file : files) {
    std::printf("%-*s %9llu %7lld  %-64s  %s\n", width, name(file).c_str(), static_cast<unsigned long long>(file.bytes),
                static_cast<long long>(file.records), file.sha256.empty() ? "-" : file.sha256.c_str(),
                printable(verdict(file)).c_str());
    if (!file.problem.empty()) wrong.push_back(file);
  }
  for (const FileReport& file : files)
    for (const std::string& line : file.notes) print_line(line);
  if (wrong.empty()) return 0;
  const FileReport& first = wrong.front();
  fail(ExitCode::data, first.path.string(), ": ",
       is_folder(first.path, ExitCode::data) ? first.problem
                                             : with_remedy(first.problem, kind.remedy),  // a folder's says what to do
       wrong.size() > 1 ? str(" (and ", counted(static_cast<int64_t>(wrong.size()) - 1, "more file"), ")") : "");
}

int info(const Words& words) {
  CLI::App app("Describes a data set: classes, images of each, mean and deviation of each channel.",
               "cifar-train data info");
  DataOptions options;
  options.add_to(app);
  if (!parse(app, words)) return 0;

  const DataSource source = options.source();
  // Of pictures, damage shows when they are decoded: `data verify` does that.
  const OpenOptions opening{.on_corrupt = source.kind->pictures ? OnCorrupt::skip : OnCorrupt::error, .threads = 0};
  const auto open = [&](Split split) { return source.kind->open(source, split, opening); };
  // The only split besides train/ is the one to test on.
  const bool has_val = has_split(source, Split::val), has_test = has_split(source, Split::test);
  const auto train = open(Split::train), val = has_val && has_test ? open(Split::val) : nullptr,
             test = has_val || has_test ? open(Split::test) : nullptr;
  const auto& [channels, height, width] = train->shape();
  std::printf("%s in %s\n%s to train on, %s%s, %ldx%ld, %s, %d classes\n", train->name().c_str(),
              printable(source.folder.native()).c_str(), counted(train->count(), "image").c_str(),
              val ? str(val->count(), " to validate on, ").c_str() : "",
              test ? str(test->count(), " to test on").c_str() : "of which a part is held out", width, height,
              counted(channels, "channel").c_str(), train->classes());
  struct Column {
    const char* name;
    const DataSet* set;
    Split split;
    std::vector<int64_t> counts;
  };
  std::vector<Column> columns;
  for (const auto& [name, set, split] : {std::tuple("train", train.get(), Split::train),
                                         {"val", val.get(), Split::val},
                                         {"test", test.get(), Split::test}})
    if (set != nullptr) columns.push_back({name, set, split, class_counts(*set)});
  for (const Column& column : columns) {
    for (const std::string& line : notes_of(*column.set, column.split)) print_line(line);
    if (column.split != Split::train) warn(same_images(*train, *column.set, column.split));
  }
  std::printf("\n%-5s  %-16s", "class", "name");
  for (const Column& column : columns) std::printf("  %6s", column.name);
  for (size_t c = 0; c < train->class_names().size(); ++c) {
    std::fputs(fmt::format("\n{:5}  {:16}", c, printable(train->class_names()[c])).c_str(), stdout);
    for (const Column& column : columns) std::printf("  %6ld", column.counts[c]);
  }
  std::printf("\n");
  const ChannelStatistics statistics = channel_statistics(*train);
  const auto print = [](const char* name, const std::vector<double>& values) {
    std::printf("%s: [%s]\n", name, fmt::format("{:.4f}", fmt::join(values, ", ")).c_str());
  };
  const std::string of = statistics.images < train->count() ? str(statistics.images, " of ") : "";
  std::printf("\nof %sthe training images, pixels scaled to 0..1%s:\n", of.c_str(),
              channels == 3 ? ", red green blue" : "");
  print("mean", statistics.mean);
  print("std", statistics.std);
  return 0;
}

}  // namespace

int verb_data(const Words& words) {
  static constexpr std::array kMembers = {
      Verb{"synth",
           "write the built-in synthetic set",
           synth,
           {"cifar-train data synth", "cifar-train data synth --out data"}},
      Verb{"verify",
           "check the files of a data set",
           verify_data,
           {"cifar-train data verify", "cifar-train data verify --data data"}},
      Verb{"info",
           "classes, counts, mean and deviation",
           info,
           {"cifar-train data info", "cifar-train data info --data data"}},
      Verb{"convert",
           "pack pictures into one file; read CIFAR-10's python archive",
           data_convert,
           {"cifar-train data convert --from imagenet --out imagenet.ctpack",
            "cifar-train data convert --from imagenet --out small.ctpack --resize 256"}},
  };
  return run_family({"data", "writes, checks, describes and converts data sets", kMembers}, words);
}

}  // namespace ct
