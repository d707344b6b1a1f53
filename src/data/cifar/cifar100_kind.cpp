#include "base/paths.h"
#include "base/sha256.h"
#include "base/shell_word.h"
#include "data/cifar/cifar100_set.h"
#include "data/cifar/cifar_set.h"
#include "data/kinds.h"

namespace ct {
namespace fs = std::filesystem;
namespace {

constexpr int64_t kTest = 10000, kAll = 60000;

std::string how_to_get(const fs::path& path) {
  return str("download it with: cifar-train data fetch cifar100 --out ", shell_word(path.string()),
             " (or unpack cifar-100-binary.tar.gz from https://www.cs.toronto.edu/~kriz/ there)");
}

std::optional<fs::path> find(const fs::path& path) {
  for (const fs::path& folder : {path, path / kCifar100Folder, path / kCifar100PythonFolder})
    if (is_folder(folder, ExitCode::data) && is_cifar100_python(folder)) return folder;
  return std::nullopt;
}

std::unique_ptr<DataSet> open(const DataSource& source, Split split, const OpenOptions& options) {
  return std::make_unique<Cifar100Set>(source.folder, split, options.labels, options.on_corrupt);
}

DataSize size(const DataSource& source, const OpenOptions& options) {
  const int64_t test = source.folder.empty() ? kTest : open(source, Split::test, options)->count();
  return {.spec = {.sample = kCifarShape,
                   .classes = options.labels == Labels::fine ? 100 : 20,
                   .test_images = test,
                   .train_images = kAll - kTest},
          .bytes = kAll * static_cast<int64_t>(kImageBytes + 2)};
}

std::vector<FileReport> verify(const fs::path& folder, const OpenOptions& options, Depth depth) {
  std::vector<FileReport> reports;
  for (const Split split : {Split::train, Split::test}) {
    const fs::path path = cifar100_file(folder, split);
    reports.push_back(report_of(path, [&](FileReport& report) {
      if (report.problem = is_there(path, ExitCode::data) ? "" : "no such file"; !report.problem.empty()) return;
      if (kind_of(path, ExitCode::data) == PathKind::file) report.bytes = fs::file_size(path);
      const Cifar100Set set(folder, split, options.labels, OnCorrupt::error);
      report.records = set.count();
      if (depth == Depth::names_and_sizes) return;
      const MappedFile file(path, MappedFile::Links::follow, ExitCode::data);
      report.sha256 = sha256_hex(file.bytes().data(), file.bytes().size());
      file.require_unchanged(ExitCode::data);
    }));
    std::string& problem = reports.back().problem;  // which begins with the path
    if (problem.starts_with(path.string() + ": ")) problem.erase(0, path.string().size() + 2);
  }
  name_twins(reports);
  return reports;
}

}  // namespace

DataKind cifar100_kind() {
  return {.key = "cifar100",
          .name = kCifar100Name,
          .folder = kCifar100Folder,
          .remedy = cifar100_remedy(),
          .how_to_get = how_to_get,
          .find = find,
          .open = open,
          .size = size,
          .verified = "sizes and labels are checked",
          .verify = verify};
}

}  // namespace ct
