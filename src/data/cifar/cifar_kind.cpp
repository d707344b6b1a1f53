#include "data/cifar/cifar_kind.h"

#include "base/paths.h"
#include "base/shell_word.h"

namespace ct {
namespace fs = std::filesystem;
namespace {

std::optional<fs::path> find(const fs::path& path) {
  const fs::path folder = batches_at(kCifarFolder, path);
  if (!is_folder(folder, ExitCode::data) || is_synthetic_folder(folder)) return std::nullopt;
  return folder;
}

std::optional<DataSource> locate(const fs::path& path, const LocateOptions& options) {
  const bool itself = holds_batches(path);
  const fs::path folder = itself ? path : folder_named(kCifarFolder, path);
  const std::string remedy = how_to_get_cifar(!folder.has_parent_path() ? fs::path(".")
                                              : itself                  ? path / ".."
                                                                        : folder.parent_path());
  const bool there = itself || is_there(folder, ExitCode::data);
  if (!there && folder == path) fail(ExitCode::data, folder.string(), ": no such folder; ", remedy);
  if (there && !is_synthetic_folder(folder))
    return DataSource{.folder = folder, .note = str("data: ", kCifarName, " in ", folder.string())};
  if (!options.by_name) return std::nullopt;
  if (there) fail(ExitCode::data, folder.string(), ": contains the synthetic set; ", remedy);
  fail(ExitCode::data, folder.string(), ": no such folder; ", remedy,
       options.evaluated ? "" : ", or set data.dataset to auto");
}

}  // namespace

std::string how_to_get_cifar(const fs::path& parent) {
  return str("download it with: cifar-train data fetch cifar10 --out ", shell_word(parent.string()),
             " (or unpack cifar-10-binary.tar.gz from https://www.cs.toronto.edu/~kriz/ there)");
}

fs::path folder_named(std::string_view name, const fs::path& path) {
  return path.filename() == name ? path : path / name;
}

bool holds_batches(const fs::path& folder) {
  return is_there(folder / batch_files(Split::train).front(), ExitCode::data);
}

fs::path batches_at(std::string_view name, const fs::path& path) {
  const bool named = path.filename() == kCifarFolder || path.filename() == kSyntheticFolder;
  return named || holds_batches(path) ? path : path / name;
}

std::unique_ptr<DataSet> open_batches(const DataSource& source, Split split, const OpenOptions& options) {
  return std::make_unique<CifarSet>(source.folder, split, CifarOptions{.on_corrupt = options.on_corrupt});
}

DataSize size_of_batches(const DataSource& source, const OpenOptions& options) {
  const fs::path& folder = source.folder;
  const auto trained = static_cast<int64_t>(batch_files(Split::train).size()),
             files = trained + static_cast<int64_t>(batch_files(Split::test).size());
  const int64_t records = folder.empty() ? kRecordsPerFile : records_per_file(folder);
  const auto count = [&](Split split) { return CifarSet(folder, split, {.on_corrupt = options.on_corrupt}).count(); };
  // Every record is an image, unless damaged ones are left out.
  const bool all = folder.empty() || options.on_corrupt == OnCorrupt::error;
  return {.spec = {.sample = kCifarShape,
                   .classes = kCifarClasses,
                   .test_images = folder.empty() ? records : count(Split::test),
                   .train_images = all ? trained * records : count(Split::train)},
          .bytes = static_cast<int64_t>(kRecordBytes) * records * files};
}

DataKind cifar_kind() {
  return {.key = "cifar10",
          .name = kCifarName,
          .folder = kCifarFolder,
          .remedy = data_remedy(/*synthetic=*/false),
          .how_to_get = how_to_get_cifar,
          .find = find,
          .locate = locate,
          .open = open_batches,
          .size = size_of_batches,
          .verified = "sizes and labels are checked, bytes compared with those published",
          .verify = verify_batches};
}

}  // namespace ct
