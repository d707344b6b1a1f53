#include "base/paths.h"
#include "base/shell_word.h"
#include "data/cifar/cifar_kind.h"
#include "data/deferred_data_set.h"
#include "data/folder_names.h"
#include "data/synthetic/synthetic.h"

namespace ct {
namespace fs = std::filesystem;
namespace {

std::optional<fs::path> find(const fs::path& path) {
  const fs::path folder = batches_at(kSyntheticFolder, path);
  if (!is_folder(folder, ExitCode::data) || !is_synthetic_folder(folder)) return std::nullopt;
  return folder;
}

std::optional<DataSource> locate(const fs::path& path, const LocateOptions& options) {
  const bool itself = holds_batches(path);
  if (itself && is_synthetic_folder(path))
    return DataSource{.folder = path, .note = str("data: ", kSyntheticName, " in ", path.string())};
  const bool other = itself || path.filename() == kCifarFolder;  // it goes beside another set, never into it
  const fs::path parent = path.has_parent_path() ? path.parent_path() : fs::path(".");
  const fs::path place = other ? parent : path, folder = folder_named(kSyntheticFolder, place);
  const std::string why = options.by_name ? "" : str("; for ", kCifarName, ", ", how_to_get_cifar(place));
  const auto in_memory = [&](const std::string& because) {
    return DataSource{.note = str("data: ", kSyntheticName, " in memory (", because, ")", why)};
  };
  const bool there = synthetic_there(folder);
  if (!there && !is_vacant(place, kSyntheticFolder))
    return in_memory(str(place.string(), " contains other files; cifar-train data synth writes the set to a folder"));
  if (!there) switch (options.if_absent) {
      case IfAbsent::write:
        break;
      case IfAbsent::write_later:
        return DataSource{.folder = folder, .note = why, .to_write = true};
      case IfAbsent::keep_in_memory:
        return in_memory("there is none in " + folder.string());
    }
  try {
    const bool written = write_synthetic(folder, options.progress);
    return DataSource{.folder = folder,
                      .note = str("data: ", kSyntheticName, (written ? ", written to " : " in "), folder.string(), why),
                      .written = written};
  } catch (const Error& error) {  // a full or read-only disk, but not one on which a set that is there cannot be read
    if (there || error.code() != ExitCode::io) throw;
    return in_memory(error.what());
  }
}

std::unique_ptr<DataSet> open(const DataSource& source, Split split, const OpenOptions& options) {
  if (!source.folder.empty() && !source.to_write) return open_batches(source, split, options);
  const bool train = split == Split::train;
  const uint32_t first = train ? 0 : kSyntheticTrain, count = train ? kSyntheticTrain : kSyntheticTest;
  std::vector<std::string> class_names{kSyntheticClasses.begin(), kSyntheticClasses.end()};
  if (!source.to_write)
    return std::make_unique<CifarSet>(std::string(kSyntheticName), std::move(class_names),
                                      synthetic_records(kSyntheticSeed, first, count, options.threads));
  std::vector<uint16_t> labels;
  for (uint32_t i = first; i < first + count; ++i)
    labels.push_back(static_cast<uint16_t>(synthetic_label(kSyntheticSeed, i)));
  return std::make_unique<DeferredDataSet>(
      DeferredDataSet::Known{.name = std::string(kSyntheticName),
                             .shape = kCifarShape,
                             .class_names = std::move(class_names),
                             .labels = std::move(labels),
                             .fingerprint = kSyntheticFingerprints[train ? 0 : 1]});
}

std::string how_to_get(const fs::path& path) {
  return str("write it with: cifar-train data synth --out ", shell_word(path.string()));
}

}  // namespace

DataKind synthetic_kind() {
  return {.key = "synthetic",
          .name = kSyntheticName,
          .folder = kSyntheticFolder,
          .remedy = data_remedy(/*synthetic=*/true),
          .how_to_get = how_to_get,
          .find = find,
          .locate = locate,
          .open = open,
          .size = size_of_batches,
          .verified = "sizes, labels and SHA-256 are compared",
          .verify = verify_batches};
}

}  // namespace ct
