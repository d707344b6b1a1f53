#include "data/kinds.h"

#include <algorithm>

namespace ct {

// Each is in the folder of its kind.
DataKind cifar_kind();
DataKind cifar100_kind();
DataKind mnist_kind();
DataKind packed_kind();
DataKind image_folder_kind();
DataKind synthetic_kind();

std::span<const DataKind> data_kinds() {
  static const DataKind kinds[] = {cifar_kind(),  cifar100_kind(),     mnist_kind(),
                                   packed_kind(), image_folder_kind(), synthetic_kind()};
  return kinds;
}

const DataKind* find_kind(std::string_view key_or_name, std::span<const DataKind> kinds) {
  const auto found = std::ranges::find_if(
      kinds, [&](const DataKind& kind) { return kind.key == key_or_name || kind.name == key_or_name; });
  return found == kinds.end() ? nullptr : &*found;
}

std::string problem_of(const DataKind& kind, const std::filesystem::path& folder) {
  for (const FileReport& file : kind.verify(folder, {}, Depth::names_and_sizes))
    if (!file.problem.empty())
      return file.path == folder ? file.problem : str(file.path.filename().string(), ": ", file.problem);
  return "";
}

FileReport report_of(const std::filesystem::path& path, const std::function<void(FileReport&)>& inspect) {
  FileReport report{.path = path};
  try {
    inspect(report);
  } catch (const Error& unreadable) {
    if (unreadable.code() == ExitCode::memory) throw;
    report.problem = unreadable.what();
  }
  return report;
}

void name_twins(std::vector<FileReport>& files) {
  for (auto file = files.begin(); file != files.end(); ++file) {
    if (file->sha256.empty() || !file->problem.empty()) continue;
    const auto first = std::ranges::find(files.begin(), file, file->sha256, &FileReport::sha256);
    if (first != file) file->problem = str("the same bytes as ", first->path.filename().string());
  }
}

std::string shown_folder(const DataKind& kind) {
  const bool as_it_is = !kind.suffix.empty() || kind.folder.ends_with('/');
  return std::string(kind.folder) + (as_it_is ? "" : "/");
}

std::vector<std::string> dataset_choices() {
  std::vector<std::string> choices = {"auto"};
  for (const DataKind& kind : data_kinds()) choices.emplace_back(kind.key);
  return choices;
}

}  // namespace ct
