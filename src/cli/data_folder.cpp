#include "cli/data_folder.h"

#include "base/paths.h"
#include "data/cifar_binary.h"

namespace ct {
namespace fs = std::filesystem;

std::optional<fs::path> find_batches(const std::string& dataset, const fs::path& path) {
  const fs::path given = path.has_filename() ? path : path.parent_path();
  const bool itself = given.filename() == kCifarFolder || given.filename() == kSyntheticFolder ||
                      is_there(given / batch_files(Split::train).front(), ExitCode::data);
  for (const auto& [set, name] : {std::pair{"cifar10", kCifarFolder}, {"synthetic", kSyntheticFolder}}) {
    if (dataset != "auto" && dataset != set) continue;
    const fs::path folder = itself ? given : given / name;
    if (!is_folder(folder, ExitCode::data)) continue;
    // A moved synthetic set says what it is by its class names.
    if (is_synthetic_folder(folder) == (set == std::string("synthetic"))) return folder;
  }
  return std::nullopt;
}

}  // namespace ct
