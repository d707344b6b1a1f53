#include <algorithm>
#include <iterator>
#include <memory>
#include <tuple>

#include "base/cores.h"
#include "base/in_order.h"
#include "base/paths.h"
#include "data/description.h"
#include "data/folder_names.h"
#include "data/image_folder/image_folder_set.h"
#include "data/kinds.h"

namespace ct {
namespace fs = std::filesystem;
namespace {

constexpr int kImageNetClasses = 1000;
constexpr int64_t kImageNetTest = 50000;

fs::path train_of(const DataSource& source) { return source.train.empty() ? source.folder / "train" : source.train; }
fs::path val_of(const DataSource& source) { return source.val.empty() ? source.folder / "val" : source.val; }

std::string how_to_get(const fs::path& path) {
  return str("put the pictures of each class into ", (path / "train" / "CLASS").string(), "/ and ",
             (path / "val" / "CLASS").string(), "/");
}

std::optional<fs::path> find(const fs::path& path) {
  if (!is_folder(path / "train", ExitCode::data) || !is_folder(path / "val", ExitCode::data)) return std::nullopt;
  return path;
}

std::optional<DataSource> locate(const fs::path& path, const LocateOptions& options) {
  const bool there = options.evaluated
                         ? is_there(path / (options.evaluated == Split::test ? "val" : "train"), ExitCode::data)
                         : find(path).has_value();
  if (there) return DataSource{.folder = path, .note = str("data: ", kImageFolderName, " in ", path.string())};
  if (!options.by_name) return std::nullopt;
  if (options.evaluated)
    fail(ExitCode::data, path.string(), ": ", lack_of("folder of pictures", path),
         "; give the folder that contains train/ and val/, or one of these, with --data DIR");
  fail(ExitCode::data, path.string(), ": no train/ and val/; ", how_to_get(path),
       ", or name the two folders by data.train and data.val");
}

bool holds_split(const fs::path& path) { return is_folder(path, ExitCode::data); }

/// Labels are numbers of the classes to train on, so those to test on may be fewer, but no others.
void require_known_classes(const fs::path& train, const fs::path& val) {
  const std::vector<std::string> in_train = folders_in(train), in_val = folders_in(val);
  std::vector<std::string> missing, more;
  std::ranges::set_difference(in_train, in_val, std::back_inserter(missing));
  std::ranges::set_difference(in_val, in_train, std::back_inserter(more));
  for (const auto& [outer, names, inner] : {std::tuple(train, missing, val), {val, more, train}})
    for (const std::string& name : names)
      if (same_place(outer / name, inner, ExitCode::data))
        fail(ExitCode::data, inner.string(), ": is inside ", outer.string(), " and would be one of its classes; give ",
             "data.train and data.val that are next to each other");
  if (more.empty()) return;
  const auto named = [](const std::vector<std::string>& names) {
    return str(in_quotes(names.front()), names.size() > 1 ? str(" and ", names.size() - 1, " more") : "");
  };
  if (missing.empty())
    fail(ExitCode::data, train.string(), ": no folder for the class ", named(more), ", which ", val.string(),
         " has; give it pictures to train on, or remove it there");
  fail(ExitCode::data, val.string(), ": no folder for the class ", named(missing), ", which ", train.string(),
       " has, but one for ", named(more), ", which has no such class there; give the same class the same name in both");
}

/// The classes that `val` is to tell apart, be they there or not: those of `train`, or `known` where that is not there.
/// None where it has others, or no folder at all.
std::vector<std::string> classes_to_test(const fs::path& train, const fs::path& val,
                                         const std::vector<std::string>& known = {}) {
  const std::vector<std::string> classes = is_there(train, ExitCode::data) ? class_folders(train) : known;
  std::vector<std::string> sorted = classes;
  std::ranges::sort(sorted);
  const std::vector<std::string> in_val = folders_in(val);
  return !in_val.empty() && std::ranges::includes(sorted, in_val) ? classes : std::vector<std::string>{};
}

std::unique_ptr<DataSet> open(const DataSource& source, Split split, const OpenOptions& options) {
  const fs::path train = train_of(source), val = val_of(source);
  if (split == Split::test && is_there(train, ExitCode::data)) require_known_classes(train, val);
  ImageFolderOptions folder{.pictures = options.pictures,
                            .on_corrupt = options.on_corrupt,
                            .threads = options.threads > 0 ? options.threads : available_cores()};
  if (split == Split::test) folder.classes = classes_to_test(train, val, options.classes);
  return std::make_unique<ImageFolderSet>(split == Split::train ? train : val, folder);
}

/// Nothing is mapped: pictures are read one by one.
DataSize size(const DataSource& source, const OpenOptions& options) {
  DataSpec spec{
      .sample = options.pictures.shape(), .classes = kImageNetClasses, .test_images = kImageNetTest, .direct = false};
  if (!source.folder.empty() || !source.val.empty()) {
    const auto test = open(source, Split::test, options);
    spec.classes = test->classes();
    spec.test_images = test->count();
  }
  return {.spec = spec};
}

/// What an error about `path`, or about something below it, says besides that name.
std::string without(const fs::path& path, const Error& error) {
  const std::string text = error.what();
  for (const std::string& begin : {path.string() + ": ", path.string() + "/"})
    if (text.starts_with(begin)) return text.substr(begin.size());
  return text;
}

/// What is wrong with the names of the classes.
FileReport report_of_classes(const fs::path& folder) {
  FileReport report{.path = folder};
  try {
    require_known_classes(folder / "train", folder / "val");
  } catch (const Error& error) {
    report.problem = without(folder, error);
  }
  return report;
}

/// A line for each split and each bad picture.
std::vector<FileReport> verify(const fs::path& folder, const OpenOptions& options, Depth depth) {
  if (depth == Depth::names_and_sizes) return {report_of_classes(folder)};
  std::vector<FileReport> reports;
  bool both_open = true;
  std::unique_ptr<ImageFolderSet> last;
  const fs::path train = folder / "train", val = folder / "val";
  for (const fs::path& split : {train, val}) {
    try {
      ImageFolderOptions opening{
          .pictures = options.pictures, .on_corrupt = OnCorrupt::skip, .threads = available_cores()};
      if (split == val && both_open) opening.classes = classes_to_test(train, val);
      auto opened = std::make_unique<ImageFolderSet>(split, opening);
      const ImageFolderSet& set = *opened;
      const size_t whole = reports.size();
      reports.push_back(
          {.path = split, .records = set.count(), .notes = notes_of(set, split == train ? Split::train : Split::test)});
      if (std::string same = last ? same_images(*last, set) : ""; !same.empty())
        reports.back().notes.push_back("warning: " + same);
      in_order(
          set.count(), available_cores(), [&](int64_t i) { return set.problem(i); },
          [&](int64_t i, std::string problem) {
            const uint32_t bytes = set.listing().bytes(i);
            reports[whole].bytes += bytes;
            if (!problem.empty())
              reports.push_back({.path = set.path(i), .bytes = bytes, .records = 1, .problem = std::move(problem)});
          });
      last = std::move(opened);
    } catch (const Error& error) {
      if (error.code() != ExitCode::data) throw;
      reports.push_back({.path = split, .problem = without(split, error)});
      both_open = false;
    }
  }
  if (const FileReport classes = report_of_classes(folder); both_open && !classes.problem.empty())
    reports.push_back(classes);
  return reports;
}

}  // namespace

DataKind image_folder_kind() {
  return {.key = "image_folder",
          .name = kImageFolderName,
          .folder = "train/ and val/",
          .pictures = true,
          .remedy = kImageFolderRemedy,
          .how_to_get = how_to_get,
          .find = find,
          .holds_split = holds_split,
          .locate = locate,
          .open = open,
          .size = size,
          .verified = "every picture is decoded",
          .verify = verify};
}

}  // namespace ct
