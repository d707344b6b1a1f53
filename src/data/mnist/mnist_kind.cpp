#include "base/paths.h"
#include "base/sha256.h"
#include "base/shell_word.h"
#include "data/kinds.h"
#include "data/mnist/mnist_set.h"

namespace ct {
namespace fs = std::filesystem;
namespace {

constexpr int64_t kTrain = 60000, kTest = 10000;

/// One file of a split at least, be it still compressed: opening tells of the others.
bool holds_files(const fs::path& folder) {
  for (const Split split : {Split::train, Split::test})
    for (const std::string_view name : {mnist_files(split).images, mnist_files(split).labels})
      if (is_there(folder / name, ExitCode::data) || is_there(folder / str(name, ".gz"), ExitCode::data)) return true;
  return false;
}

std::string how_to_get(const fs::path& path) {
  return str("download it with: cifar-train data fetch mnist --out ", shell_word(path.string()),
             " (or gunzip its four files from ", kMnistSource, " in ", (path / kMnistFolder).string(), "/)");
}

std::optional<fs::path> find(const fs::path& path) {
  for (const fs::path& folder : {path, path / kMnistFolder, path / kFashionFolder})
    if (holds_files(folder)) return folder;
  return std::nullopt;
}

std::unique_ptr<DataSet> open(const DataSource& source, Split split, const OpenOptions& options) {
  return std::make_unique<MnistSet>(source.folder, split, options.on_corrupt);
}

DataSize size(const DataSource& source, const OpenOptions& options) {
  int64_t train = kTrain, test = kTest;
  if (!source.folder.empty()) {
    train = MnistSet(source.folder, Split::train, options.on_corrupt).count();
    test = MnistSet(source.folder, Split::test, options.on_corrupt).count();
  }
  return {.spec = {.sample = kMnistShape, .classes = kMnistClasses, .test_images = test, .train_images = train},
          .bytes = (train + test) * static_cast<int64_t>(kMnistShape.bytes())};
}

FileReport inspect(const fs::path& path, bool images, Depth depth) {
  return report_of(path, [&](FileReport& report) {
    if (report.problem = missing_file(path); !report.problem.empty()) return;
    const MappedFile map(path, MappedFile::Links::follow, ExitCode::data);
    report.bytes = map.bytes().size();
    const IdxFile file = images ? read_images(map.bytes()) : read_labels(map.bytes());
    report.records = file.count;
    report.problem = file.problem;
    for (int64_t i = 0; i < file.count && !images && report.problem.empty(); ++i)
      if (const int label = std::to_integer<int>(file.items[static_cast<size_t>(i)]); label >= kMnistClasses)
        report.problem = bad_label(i, label);
    if (depth == Depth::every_byte && report.problem.empty())
      report.sha256 = sha256_hex(map.bytes().data(), report.bytes);
    map.require_unchanged(ExitCode::data);
  });
}

std::vector<FileReport> verify(const fs::path& folder, const OpenOptions&, Depth depth) {
  std::vector<FileReport> reports;
  for (const Split split : {Split::train, Split::test}) {
    const FileReport images = inspect(folder / mnist_files(split).images, /*images=*/true, depth);
    FileReport labels = inspect(folder / mnist_files(split).labels, /*images=*/false, depth);
    if (images.problem.empty() && labels.problem.empty())
      labels.problem = count_problem(images.records, labels.records);
    reports.insert(reports.end(), {images, labels});
  }
  name_twins(reports);
  return reports;
}

}  // namespace

DataKind mnist_kind() {
  return {.key = "mnist",
          .name = kMnistName,
          .folder = kMnistFolder,
          .automatic = false,  // few networks take its images
          .remedy = mnist_remedy(),
          .how_to_get = how_to_get,
          .find = find,
          .open = open,
          .size = size,
          .verified = "headers, sizes and labels are checked",
          .verify = verify};
}

}  // namespace ct
