// `data synth|verify|info`
#include <array>
#include <cstdio>

#include "base/error.h"
#include "cli/data_folder.h"
#include "cli/subverbs.h"
#include "data/synthetic.h"
#include "data/verify.h"

namespace ct {
namespace {

struct DataOptions {
  std::string path = "data", dataset = "auto";

  void add_to(CLI::App& app) {
    app.add_option("--data,--path", path, "where the data sets lie, or the folder of one")->capture_default_str();
    app.add_option("--dataset", dataset, "auto, cifar10 or synthetic; auto: cifar10 when it is there, else synthetic")
        ->check(CLI::IsMember({"auto", "cifar10", "synthetic"}))
        ->capture_default_str();
  }

  Path folder() const {
    if (const auto found = find_batches(dataset, path)) return *found;
    const std::string synth = str("write the synthetic set with: cifar-train data synth --out ", path);
    const std::string cifar = str("for CIFAR-10 ", data_remedy(/*synthetic=*/false), " in ", path);
    fail(ExitCode::data, path, ": no ",
         dataset == "auto"      ? str(kCifarFolder, " or ", kSyntheticFolder, "; ", synth, "; ", cifar)
         : dataset == "cifar10" ? str(kCifarFolder, "; ", cifar)
                                : str(kSyntheticFolder, "; ", synth));
  }
};

std::string_view set_name(const Path& folder) { return is_synthetic_folder(folder) ? kSyntheticName : kCifarName; }

int synth(const Words& words) {
  CLI::App app("Writes the built-in synthetic set, 50,000 + 10,000 images in CIFAR-10's file layout.",
               "cifar-train data synth");
  std::string out = "data";
  int64_t images = kSyntheticTrain;
  app.add_option("--out", out, str("folder that gets ", kSyntheticFolder, "/"))->capture_default_str();
  app.add_option("--images", images, "to train on, a multiple of 50, and a fifth as many to test on")
      ->check(CLI::Range(1, kSyntheticTrain))
      ->capture_default_str();
  if (!parse(app, words)) return 0;
  constexpr int64_t kFiles = 5, kClasses = kSyntheticClasses.size();
  if (images % (kFiles * kClasses) != 0)
    fail(ExitCode::usage, "--images ", images, ": give a multiple of ", kFiles * kClasses, ", so that each of the ",
         kFiles, " files has every class equally often");
  const Path folder = Path(out) / kSyntheticFolder;
  const bool written = write_synthetic(folder, {}, images / kFiles);
  if (const int64_t there = kFiles * records_per_file(folder); there != images)
    fail(ExitCode::data, folder.string(), ": has ", there, " images to train on, not ", images,
         ": give another --out, or delete it first");
  std::printf("%s: %s\n", folder.c_str(), written ? "written" : "was there already");
  return 0;
}

int verify(const Words& words) {
  CLI::App app("Checks every byte of a data set's files that can be checked.", "cifar-train data verify");
  DataOptions options;
  options.add_to(app);
  if (!parse(app, words)) return 0;

  const Path folder = options.folder();
  const bool synthetic = is_synthetic_folder(folder);
  read_class_names(folder);  // refuses damaged ones
  std::printf("%s in %s; %s\n", std::string(set_name(folder)).c_str(), folder.c_str(),
              synthetic ? "sizes, labels and SHA-256 are compared" : "sizes and labels are checked");
  std::printf("%-18s %9s %7s  %s\n", "file", "bytes", "records", "sha256");
  std::vector<FileReport> wrong;
  for (const FileReport& file : inspect_files(folder)) {
    std::printf("%-18s %9llu %7lld  %-64s  %s\n", file.path.filename().c_str(),
                static_cast<unsigned long long>(file.bytes), static_cast<long long>(file.records),
                file.sha256.empty() ? "-" : file.sha256.c_str(), file.problem.empty() ? "ok" : file.problem.c_str());
    if (!file.problem.empty()) wrong.push_back(file);
  }
  if (wrong.empty()) return 0;
  fail(ExitCode::data, wrong.front().path.string(), ": ", wrong.front().problem,
       wrong.size() > 1 ? str(" (and ", wrong.size() - 1, " more files)") : "", "; ", data_remedy(synthetic));
}

int info(const Words& words) {
  CLI::App app("Describes a data set: classes, images of each, mean and deviation of each channel.",
               "cifar-train data info");
  DataOptions options;
  options.add_to(app);
  if (!parse(app, words)) return 0;

  const Path folder = options.folder();
  const ImageSet train(folder, Split::train), test(folder, Split::test);
  std::printf("%s in %s\n%lld images to train on, %lld to test on, %dx%d, %d channels, %d classes\n\n",
              train.name().c_str(), folder.c_str(), static_cast<long long>(train.count()),
              static_cast<long long>(test.count()), train.width(), train.height(), train.channels(), train.classes());
  const auto train_counts = class_counts(train), test_counts = class_counts(test);
  std::printf("%-5s  %-16s  %6s  %6s\n", "class", "name", "train", "test");
  for (int c = 0; c < train.classes(); ++c)
    std::printf("%5d  %-16s  %6lld  %6lld\n", c, train.class_names()[static_cast<size_t>(c)].c_str(),
                static_cast<long long>(train_counts[static_cast<size_t>(c)]),
                static_cast<long long>(test_counts[static_cast<size_t>(c)]));
  const ChannelStatistics statistics = channel_statistics(train);
  const auto print = [](const char* name, const std::array<double, kImageChannels>& v) {
    std::printf("%s: [%.4f, %.4f, %.4f]\n", name, v[0], v[1], v[2]);
  };
  std::printf("\nof the training images, pixels scaled to 0..1, red green blue:\n");
  print("mean", statistics.mean);
  print("std", statistics.std);
  return 0;
}

}  // namespace

int verb_data(const Words& words) {
  static constexpr std::array kMembers = {
      Verb{"synth", "write the built-in synthetic set", synth},
      Verb{"verify", "check the files of a data set", verify},
      Verb{"info", "classes, counts, mean and deviation", info},
  };
  static constexpr std::array kLater = {"fetch", "convert"};
  return run_family({"data", "writes, checks and describes data sets", kMembers, kLater}, words);
}

}  // namespace ct
