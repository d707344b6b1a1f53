// `data synth` and `data verify`; the other members have a file each: cli/data_fetch.cpp
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>

#include "base/error.h"
#include "base/new_folder.h"
#include "base/paths.h"
#include "base/terminal.h"
#include "base/text.h"
#include "base/utf8.h"
#include "base/wrong_download.h"
#include "cli/data_options.h"
#include "cli/subverbs.h"
#include "data/cifar/cifar_set.h"
#include "data/synthetic/synthetic.h"
#include "metrics/console.h"
#include "train/run/run_files.h"

namespace ct {
namespace {

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
  if (is_there(out, ExitCode::data) && !is_folder(out, ExitCode::data))
    fail(ExitCode::usage, "--out ", in_quotes(out), " is no folder: give one");
  if (is_folder(out, ExitCode::data) && holds_run(out))
    fail(ExitCode::usage, "--out ", in_quotes(out), " holds a run: give the folder of your data, such as data");
  const Path folder = Path(out) / kSyntheticFolder;
  const bool written =
      shown("writing " + folder.string(), [&] { return write_synthetic(folder, {}, images / kFiles); });
  FileSystem files;
  remove_left_folders(files, folder);
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

}  // namespace

int verb_data(const Words& words) {
  static constexpr std::array kMembers = {
      Verb{"fetch",
           "download a published data set, or pretrained weights",
           data_fetch,
           {"cifar-train data fetch cifar10", "cifar-train data fetch weights:resnet18"}},
      Verb{"synth",
           "write the built-in synthetic set",
           synth,
           {"cifar-train data synth", "cifar-train data synth --out data"}},
      Verb{"verify",
           "check the files of a data set",
           verify_data,
           {"cifar-train data verify", "cifar-train data verify --data data"}},
      Verb{"info",
           "classes, counts, mean and deviation, a sheet of samples",
           data_info,
           {"cifar-train data info", "cifar-train data info pets --sheet pets.png"}},
      Verb{"convert",
           "pack pictures into one file; read CIFAR-10's python archive",
           data_convert,
           {"cifar-train data convert --from imagenet --out imagenet.ctpack",
            "cifar-train data convert --from imagenet --out small.ctpack --resize 256"}},
  };
  return run_family({"data", "gets, writes, checks, describes and converts data sets", kMembers}, words);
}

}  // namespace ct
