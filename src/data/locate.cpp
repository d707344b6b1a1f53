#include "data/locate.h"

#include <initializer_list>

#include "base/paths.h"
#include "base/text.h"
#include "data/folder_names.h"
#include "data/unread_layout.h"

namespace ct {
namespace fs = std::filesystem;
namespace {

fs::path without_slash(const fs::path& path) {
  return path.empty() ? fs::path(".") : path.has_filename() ? path : path.parent_path();
}

constexpr std::string_view kPictureFolders = "a folder of pictures for each class";

bool is_shipped_folder(const fs::path& path) {
  return absolute_of(path / "") == absolute_of(fs::path(kShippedFolder) / "");
}

bool names_split(const LocateOptions& options) {
  return !options.train.empty() || !options.val.empty() || !options.test.empty();
}

/// A kind that is there or is not.
std::optional<DataSource> locate_found(const DataKind& kind, const fs::path& path, const LocateOptions& options) {
  if (const auto folder = kind.find(path))
    return DataSource{.folder = *folder, .note = str("data: ", kind.name, " in ", folder->string())};
  if (!options.by_name) return std::nullopt;
  fail(ExitCode::data, path.string(), ": no ", shown_folder(kind), "; for ", kind.name, ", ", kind.how_to_get(path));
}

std::optional<DataSource> locate_kind(const DataKind& kind, const fs::path& path, const LocateOptions& options) {
  auto source = kind.locate ? kind.locate(path, options) : locate_found(kind, path, options);
  if (source) source->kind = &kind;
  return source;
}

/// A kind that was asked for: where it is not there, what lies there says more of the cause than what does not.
DataSource locate_named(const DataKind& kind, const fs::path& path, const LocateOptions& options) {
  try {
    return *locate_kind(kind, path, options);
  } catch (const Error& missing) {
    if (missing.code() != ExitCode::data || kind.find(path)) throw;
    const std::string layout = unread_layout(path, &kind, options.evaluated);
    if (layout.empty()) throw;
    fail(ExitCode::data, layout);
  }
}

/// The set that `made` makes is for who asks for it, and for who says nothing: where data.path is its default and
/// nothing else lies there. Wherever else a set is looked for in vain, Error(data) says what is there instead.
void require_nothing_else(const DataKind& made, const fs::path& path) {
  const bool there = made.find(path).has_value(), shipped = is_shipped_folder(path);
  if (shipped && (there || is_vacant(path, made.folder))) return;
  constexpr std::string_view kOtherwise = ", or set data.dataset: synthetic for the built-in set";
  if (const std::string layout = unread_layout(path); !layout.empty()) fail(ExitCode::data, layout, kOtherwise);
  if (there) return;
  std::vector<std::string> folders;
  for (const DataKind& kind : data_kinds())
    if (kind.automatic && kind.key != made.key) folders.push_back(shown_folder(kind));
  fail(ExitCode::data, path.string(), ": ", lack_of("data set", path), "; put ", kPictureFolders,
       " into it, or give a folder that holds one of ", joined(folders, ", "), kOtherwise);
}

[[noreturn]] void refuse_name(std::string_view dataset) {
  fail(ExitCode::usage, "data.dataset: ", in_quotes(dataset), " is not a data set; use one of ",
       joined(dataset_choices(), ", "));
}

/// Where a split lies whose key is not given: in its own folder under `path`.
fs::path split_in(const fs::path& path, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (is_folder(path / name, ExitCode::data)) return path / name;
  return {};
}

/// The set whose splits keys name. Of those without a key, train is `path` itself if that holds classes.
std::optional<DataSource> find_apart(std::string_view dataset, const fs::path& path, const LocateOptions& options,
                                     std::span<const DataKind> kinds) {
  const bool classes = options.train.empty() && split_in(path, {"train"}).empty() && is_one_split(path);
  const auto place = [&](const fs::path& given, std::initializer_list<const char*> names) {
    return !given.empty() ? without_slash(given) : classes ? fs::path() : split_in(path, names);
  };
  fs::path train = classes ? path : place(options.train, {"train"});
  fs::path val = place(options.val, {"val", "valid", "validation"});
  const fs::path test = place(options.test, {"test"});
  if (train.empty()) train = path / "train";
  if (val.empty() && test.empty()) val = path / "val";
  for (const DataKind& kind : kinds) {
    if (dataset == "auto" ? !kind.automatic : dataset != kind.key) continue;
    if (kind.holds_split == nullptr) continue;
    if (!kind.holds_split(train) && !kind.holds_split(val) && !kind.holds_split(test)) continue;
    return DataSource{.kind = &kind,
                      .folder = path,
                      .train = train,
                      .val = val,
                      .test = test,
                      .note = str("data: ", kind.name, " in ", train.string(), val.empty() ? "" : " and ", val.string(),
                                  test.empty() ? "" : " and ", test.string())};
  }
  return std::nullopt;
}

/// Where one key is given alone, the other split lies under data.path.
void require_other_split(std::string_view key, const fs::path& given, const fs::path& place, std::string_view use) {
  if (given.empty() && !place.empty() && !is_there(place, ExitCode::data))
    fail(ExitCode::data, key, ": not given, and there is no ", in_quotes(place.native()),
         " instead; set it to the folder of the pictures to ", use);
}

DataSource locate_apart(std::string_view dataset, const fs::path& path, const LocateOptions& options,
                        std::span<const DataKind> kinds) {
  if (auto source = find_apart(dataset, path, options, kinds)) {
    if (!options.evaluated) {
      require_other_split("data.train", options.train, source->train, "train on");
      require_other_split("data.val", options.val, source->val, "test on");
    }
    return *std::move(source);
  }
  const DataKind* const named = find_kind(dataset, kinds);
  if (named == nullptr && options.by_name) refuse_name(dataset);
  if (named != nullptr && named->holds_split == nullptr)
    fail(ExitCode::usage, "data.train, data.val and folders of data.validation and data.test: ", named->name,
         " has all splits in one place; give it as data.path");
  const std::string_view key = !options.train.empty() ? "data.train" : !options.val.empty() ? "data.val" : "data.test";
  const fs::path& given = !options.train.empty() ? options.train : !options.val.empty() ? options.val : options.test;
  fail(ExitCode::data, in_quotes(given.native()), ": there is no such split of a data set, which ", key,
       " names; give a folder that holds a folder of pictures for each class");
}

}  // namespace

DataSource locate_data(std::string_view dataset, const fs::path& where, LocateOptions options,
                       std::span<const DataKind> kinds) {
  options.by_name = dataset != "auto";
  const fs::path path = without_slash(where);
  if (names_split(options)) return locate_apart(dataset, path, options, kinds);
  const PathKind there = kind_of(path, ExitCode::data);
  const bool folder = there == PathKind::nothing || there == PathKind::folder;
  for (const DataKind& kind : kinds) {
    if (options.by_name ? kind.key != dataset : !kind.automatic) continue;
    if (!folder && (there != PathKind::file || kind.suffix.empty())) continue;
    if (options.by_name) return locate_named(kind, path, options);
    if (&kind == &kinds.back()) require_nothing_else(kind, path);
    if (auto source = locate_kind(kind, path, options)) return *std::move(source);
  }
  if (!folder) {
    if (const std::string layout = unread_file(path); !layout.empty()) fail(ExitCode::data, layout);
    const DataKind* wanted = find_kind(dataset, kinds);
    fail(ExitCode::data, path.string(), ": not a folder; ", options.evaluated ? "--data" : "data.path",
         " must be the folder that contains ", shown_folder(wanted != nullptr ? *wanted : data_kinds().front()));
  }
  refuse_name(dataset);
}

std::optional<DataSource> find_data(std::string_view dataset, const fs::path& path, const LocateOptions& options) {
  if (names_split(options)) return find_apart(dataset, without_slash(path), options, data_kinds());
  for (const DataKind& kind : data_kinds()) {
    if (dataset == "auto" ? !kind.automatic : dataset != kind.key) continue;
    if (const auto folder = kind.find(without_slash(path))) return DataSource{.kind = &kind, .folder = *folder};
  }
  return std::nullopt;
}

void require_named_folder(const fs::path& path, std::string_view dataset) {
  if (is_shipped_folder(path) || is_there(path, ExitCode::data)) return;
  for (const DataKind& file : data_kinds())
    if (!file.suffix.empty() && path.extension() == file.suffix)
      fail(ExitCode::data, in_quotes(path.native()), ": there is no such file; ", file.how_to_get(path));
  const DataKind *kind = find_kind(dataset), *made = &data_kinds().back();
  if (kind != nullptr && kind != made)
    fail(ExitCode::data, in_quotes(path.native()), ": there is no such folder; give the one that contains ",
         shown_folder(*kind), kind->automatic ? "; " + kind->how_to_get(path) : "");
  fail(ExitCode::data, in_quotes(path.native()), ": there is no such folder; give ",
       kind == made ? "an existing folder"
                    : str("one with ", kPictureFolders, ", or with ", shown_folder(data_kinds().front())),
       ", or create the built-in set with: cifar-train data synth --out ", in_quotes(path.native()));
}

}  // namespace ct
