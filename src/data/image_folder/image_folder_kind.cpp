#include <algorithm>
#include <array>
#include <iterator>
#include <memory>
#include <tuple>

#include "base/cores.h"
#include "base/in_order.h"
#include "base/paths.h"
#include "data/cifar/cifar_set.h"
#include "data/description.h"
#include "data/folder_names.h"
#include "data/image_folder/image_folder_set.h"
#include "data/kinds.h"
#include "data/unread_layout.h"

namespace ct {
namespace fs = std::filesystem;
namespace {

constexpr int kImageNetClasses = 1000;
constexpr int64_t kImageNetTest = 50000;

constexpr std::array kValNames = {"val", "valid", "validation"};
constexpr const char *kTrainName = "train", *kTestName = "test";

/// The folder of validation pictures in `folder`; empty: there is none.
fs::path val_in(const fs::path& folder) {
  for (const char* name : kValNames)
    if (is_folder(folder / name, ExitCode::data)) return folder / name;
  return {};
}

fs::path test_in(const fs::path& folder) {
  return is_folder(folder / kTestName, ExitCode::data) ? folder / kTestName : fs::path();
}

/// Are the folders of the classes directly in `folder`?
bool holds_classes(const fs::path& folder) {
  return !is_folder(folder / kTrainName, ExitCode::data) && !is_there(folder / kSyntheticFolder, ExitCode::data) &&
         is_one_split(folder);
}

/// Where the pictures of each split lie; empty: the set has no such split.
struct Folders {
  fs::path train, val, test;
  const fs::path& of(Split split) const { return split == Split::train ? train : split == Split::val ? val : test; }
};

Folders folders_of(const DataSource& source) {
  if (!source.train.empty() || !source.val.empty() || !source.test.empty())
    return {source.train, source.val, source.test};
  const fs::path& folder = source.folder;
  if (holds_classes(folder)) return {.train = folder};
  return {folder / kTrainName, val_in(folder), test_in(folder)};
}

bool has(const DataSource& source, Split split) { return !folders_of(source).of(split).empty(); }

std::string how_to_get(const fs::path& path) {
  return str("put the pictures of each class into ", (path / "CLASS").string(), "/, or into ",
             (path / "train" / "CLASS").string(), "/ and ", (path / "val" / "CLASS").string(), "/");
}

std::optional<fs::path> find(const fs::path& path) {
  const bool divided = is_folder(path / kTrainName, ExitCode::data) && !(val_in(path).empty() && test_in(path).empty());
  return divided || holds_classes(path) ? std::optional(path) : std::nullopt;
}

std::optional<DataSource> locate(const fs::path& path, const LocateOptions& options) {
  const bool train =
      options.evaluated == Split::train && (is_there(path / kTrainName, ExitCode::data) || holds_classes(path));
  const bool others =
      options.evaluated && options.evaluated != Split::train && !(val_in(path).empty() && test_in(path).empty());
  if (train || others || (!options.evaluated && find(path)))
    return DataSource{.folder = path, .note = str("data: ", kImageFolderName, " in ", path.string())};
  if (!options.by_name) return std::nullopt;
  if (options.evaluated)
    fail(ExitCode::data, path.string(), ": ", lack_of("folder of pictures", path),
         "; give the folder that contains train/ and val/, or one of these, with --data DIR");
  fail(ExitCode::data, path.string(), ": no train/ and val/, and no folders of classes; ", how_to_get(path),
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

/// Folders of splits beside those of classes would be classes.
void require_no_split(const fs::path& folder) {
  std::vector<std::string> names(kValNames.begin(), kValNames.end());
  names.emplace_back(kTestName);
  for (const std::string& name : names)
    if (is_folder(folder / name, ExitCode::data))
      fail(ExitCode::data, folder.string(), ": has ", name, "/ but no train/, so it would be a class: move the ",
           "folders of the classes into ", (folder / kTrainName).string(), "/");
}

/// A run's folder among those of the classes would be one of them.
void require_no_output_in(const fs::path& folder, const fs::path& output) {
  const fs::path inside = without_links(output).lexically_relative(without_links(folder));
  if (!inside.empty() && *inside.begin() != "..")
    fail(ExitCode::usage, "output folder ", in_quotes(output.native()), " lies in ", in_quotes(folder.native()),
         ", whose folders are the classes: give another --output");
}

std::unique_ptr<DataSet> open(const DataSource& source, Split split, const OpenOptions& options) {
  const Folders folders = folders_of(source);
  const fs::path& own = folders.of(split);
  const fs::path& place = split == Split::test && own.empty() ? folders.val : own;
  if (place.empty())
    fail(ExitCode::data, source.folder.string(), ": has no ", split == Split::val ? "val/" : "val/ or test/",
         split == Split::test && holds_classes(source.folder) ? "; move the folders of the classes into train/, and "
                                                                "some pictures of each class into val/CLASS/; training "
                                                                "(--data) needs no such division"
                                                              : "; put pictures of each class there");
  if (!options.output.empty()) {
    require_no_output_in(place, options.output);
    // A folder that takes the name of a split would be taken for that.
    if (place == source.folder / kTrainName) require_no_output_in(source.folder / kTestName, options.output);
  }
  if (split == Split::train && place == source.folder) require_no_split(place);
  ImageFolderOptions folder{.pictures = options.pictures,
                            .on_corrupt = options.on_corrupt,
                            .threads = options.threads > 0 ? options.threads : available_cores()};
  if (split != Split::train) {
    if (is_there(folders.train, ExitCode::data)) require_known_classes(folders.train, place);
    folder.classes = classes_to_test(folders.train, place, options.classes);
  }
  return std::make_unique<ImageFolderSet>(place, folder);
}

/// Nothing is mapped: pictures are read one by one.
DataSize size(const DataSource& source, const OpenOptions& options) {
  DataSpec spec{
      .sample = options.pictures.shape(), .classes = kImageNetClasses, .test_images = kImageNetTest, .direct = false};
  if (!source.folder.empty() || !source.val.empty()) {
    const bool divided = has(source, Split::val) || has(source, Split::test);
    const auto set = open(source, divided ? Split::test : Split::train, options);
    spec.classes = set->classes();
    spec.test_images = divided ? set->count() : std::max<int64_t>(set->count() / 5, 1);
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
FileReport report_of_classes(const fs::path& folder, const Folders& folders) {
  FileReport report{.path = folder};
  try {
    for (const fs::path& place : {folders.val, folders.test})
      if (!place.empty()) require_known_classes(folders.train, place);
  } catch (const Error& error) {
    report.problem = without(folder, error);
  }
  return report;
}

/// A line for each split and each bad picture.
std::vector<FileReport> verify(const fs::path& folder, const OpenOptions& options, Depth depth) {
  const Folders folders = folders_of({.folder = folder});
  if (depth == Depth::names_and_sizes) return {report_of_classes(folder, folders)};
  std::vector<FileReport> reports;
  bool all_open = true;
  std::unique_ptr<ImageFolderSet> train;
  for (const Split split : {Split::train, Split::val, Split::test}) {
    const fs::path& place = folders.of(split);
    if (place.empty()) continue;
    const Split use = split == Split::val && folders.test.empty() ? Split::test : split;
    try {
      ImageFolderOptions opening{
          .pictures = options.pictures, .on_corrupt = OnCorrupt::skip, .threads = available_cores()};
      if (train) opening.classes = classes_to_test(folders.train, place);
      auto opened = std::make_unique<ImageFolderSet>(place, opening);
      const ImageFolderSet& set = *opened;
      const size_t whole = reports.size();
      reports.push_back({.path = place, .records = set.count(), .notes = notes_of(set, use)});
      if (std::string same = train ? same_images(*train, set, use) : ""; !same.empty())
        reports.back().notes.push_back("warning: " + same);
      in_order(
          set.count(), available_cores(), [&](int64_t i) { return set.problem(i); },
          [&](int64_t i, std::string problem) {
            const uint32_t bytes = set.listing().bytes(i);
            reports[whole].bytes += bytes;
            if (!problem.empty())
              reports.push_back({.path = set.path(i), .bytes = bytes, .records = 1, .problem = std::move(problem)});
          });
      if (split == Split::train) train = std::move(opened);
    } catch (const Error& error) {
      if (error.code() != ExitCode::data) throw;
      reports.push_back({.path = place, .problem = without(place, error)});
      all_open = false;
    }
  }
  if (const FileReport classes = report_of_classes(folder, folders); all_open && !classes.problem.empty())
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
          .has = has,
          .open = open,
          .size = size,
          .verified = "every picture is decoded",
          .verify = verify};
}

}  // namespace ct
