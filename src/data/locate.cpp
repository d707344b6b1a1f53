#include "data/locate.h"

#include "base/paths.h"
#include "data/synthetic.h"

namespace ct {
namespace fs = std::filesystem;
namespace {

std::string how_to_get_cifar(const fs::path& parent) {
  return str("download cifar-10-binary.tar.gz from https://www.cs.toronto.edu/~kriz/ and unpack it in ",
             parent.string(), "/");
}

/// path/name, or path where it is that folder itself.
fs::path folder_named(std::string_view name, const fs::path& path) {
  return path.filename() == name ? path : path / name;
}

DataSource synthetic_source(const fs::path& folder, const std::string& why, IfAbsent if_absent,
                            const std::function<void()>& progress) {
  const auto in_memory = [&](const std::string& because) {
    return DataSource{
        std::string(kSyntheticName), {}, str("data: ", kSyntheticName, " in memory (", because, ")", why)};
  };
  try {
    if (if_absent == IfAbsent::keep_in_memory && !synthetic_there(folder))
      return in_memory("none lies in " + folder.string());
    const bool written = write_synthetic(folder, progress);
    return {std::string(kSyntheticName), folder,
            str("data: ", kSyntheticName, (written ? ", written to " : " in "), folder.string(), why), written};
  } catch (const Error& error) {
    if (error.code() != ExitCode::io) throw;
    return in_memory(error.what());
  }
}

}  // namespace

DataSource locate_data(std::string_view dataset, const fs::path& where, IfAbsent if_absent,
                       const std::function<void()>& progress) {
  const bool automatic = dataset == "auto";
  if (!automatic && dataset != "cifar10" && dataset != "synthetic") {
    fail(ExitCode::usage, "data.dataset: '", dataset, "' is not a data set; use auto, cifar10 or synthetic");
  }
  const fs::path path = where.empty() ? fs::path(".") : where.has_filename() ? where : where.parent_path();
  if (const PathKind kind = kind_of(path, ExitCode::data); kind != PathKind::nothing && kind != PathKind::folder) {
    fail(ExitCode::data, path.string(), ": not a folder; data.path names the folder that holds ", kCifarFolder, "/");
  }
  // A folder of batches under any name may be given itself.
  const bool itself = is_there(path / batch_files(Split::train).front(), ExitCode::data);
  if (itself && is_synthetic_folder(path)) {
    if (dataset == "cifar10")
      fail(ExitCode::data, path.string(), ": holds the synthetic set; ", how_to_get_cifar(path / ".."));
    return {std::string(kSyntheticName), path, str("data: ", kSyntheticName, " in ", path.string())};
  }
  const fs::path cifar = itself ? path : folder_named(kCifarFolder, path);
  const std::string remedy = how_to_get_cifar(cifar.has_parent_path() ? cifar.parent_path() : fs::path("."));
  const bool there = is_there(cifar, ExitCode::data);
  if (dataset != "synthetic" && (there || cifar == path)) {
    if (!there) fail(ExitCode::data, cifar.string(), ": no such folder; ", remedy);
    if (!is_synthetic_folder(cifar))
      return {std::string(kCifarName), cifar, str("data: ", kCifarName, " in ", cifar.string())};
    if (!automatic) fail(ExitCode::data, cifar.string(), ": holds the synthetic set; ", remedy);
  }
  if (dataset == "cifar10") {
    fail(ExitCode::data, cifar.string(), ": no such folder; ", remedy, ", or set data.dataset to auto");
  }
  const fs::path base = cifar == path ? (path.has_parent_path() ? path.parent_path() : fs::path(".")) : path;
  return synthetic_source(folder_named(kSyntheticFolder, base),
                          automatic ? str("; for ", kCifarName, ", ", remedy) : "", if_absent, progress);
}

void require_named_folder(const fs::path& path) {
  if (absolute_of(path / "") == absolute_of(fs::path(kShippedFolder) / "") || is_there(path, ExitCode::data)) return;
  fail(ExitCode::data, in_quotes(path.native()), ": no such folder; give the one that holds ", kCifarFolder,
       "/, or make it with: cifar-train data synth --out ", in_quotes(path.native()));
}

ImageSet open_images(const DataSource& source, Split split, const ImageSetOptions& options, int threads) {
  if (!source.folder.empty()) return ImageSet(source.folder, split, options);
  const bool train = split == Split::train;
  return ImageSet(source.name, split, {kSyntheticClasses.begin(), kSyntheticClasses.end()},
                  synthetic_records(kSyntheticSeed, train ? 0 : kSyntheticTrain,
                                    train ? kSyntheticTrain : kSyntheticTest, threads));
}

}  // namespace ct
