#include "fetch/fetch.h"

#include <algorithm>
#include <cstdlib>
#include <functional>

#include "base/new_folder.h"
#include "base/paths.h"
#include "base/text.h"
#include "data/kinds.h"
#include "fetch/unpack.h"

namespace ct {
namespace {

/// Makes a folder with its parents, and in the end removes those that it made and that are empty: nothing was got.
class FolderForDownloads {
 public:
  FolderForDownloads(FileSystem& files, const Path& folder) : files_(files), folder_(folder) { make(); }
  ~FolderForDownloads() { remove_empty_folders(files_, made_); }
  FolderForDownloads(const FolderForDownloads&) = delete;
  FolderForDownloads& operator=(const FolderForDownloads&) = delete;

  /// Again, where another download has removed what it made.
  void make() {
    const std::vector<Path> missing = missing_folders(folder_);
    made_.insert(made_.begin(), missing.begin(), missing.end());  // the deepest first
    make_folders(files_, folder_);
  }

 private:
  FileSystem& files_;
  Path folder_;
  std::vector<Path> made_;
};

void tell_source(const Published& what, Console& console) {
  for (const PublishedFile& file : what.files)
    console.note(str(what.key, ": ", file.name, ", ", human_bytes(file.bytes), ", ", checksum_text(file)));
  console.note(str("terms of ", what.title, ": ", what.terms));
}

bool is_verified(const Path& path, const PublishedFile& file) {
  return kind_of(path, ExitCode::data) == PathKind::file && difference(path, file).empty();
}

/// Verifies the set in `folder`, and tells what its kind says of it; throws its fault.
void verify_set(const Path& folder, Console& console) {
  for (const DataKind& kind : data_kinds()) {
    if (!kind.find(folder)) continue;
    const std::vector<FileReport> files = kind.verify(folder, {}, Depth::every_byte);
    for (const FileReport& file : files)
      if (!file.problem.empty())
        fail(ExitCode::data, file.path.string(), ": ", file.problem, "; move ", folder.string(),
             " away, and fetch it again");
    console.note(str(folder.string(), ": there already, nothing to download; ", kind.verified));
    for (const FileReport& file : files)
      for (const std::string& line : file.notes) console.note(line);
    return;
  }
  fail(ExitCode::data, folder.string(), ": exists, but has no data set: move it away, and fetch it again");
}

/// The set's folder in `data`, which may be that folder itself, as data.path may.
Path folder_of(const Published& set, const Path& data) {
  const Path itself = data.has_filename() ? data : data.parent_path();
  const bool holds_set =
      itself.filename() == set.folder &&
      std::ranges::any_of(data_kinds(), [&](const DataKind& kind) { return kind.find(itself).has_value(); });
  return holds_set ? itself : data / set.folder;
}

/// The files of a set, verified: those that the user has put into `data`, otherwise downloads.
struct Parts {
  std::vector<Path> paths;
  std::vector<Download> downloads;
};

/// Nothing where another process has made the set meanwhile.
std::optional<Parts> get_parts(FileSystem& files, const Published& set, const Path& data, const Path& folder,
                               const std::function<void()>& make_folder, const DownloadOptions& options,
                               Console& console) {
  const auto is_done = [&] { return is_there(folder); };
  Parts parts;
  for (const PublishedFile& file : set.files) {
    const Path own = data / file.name;
    if (is_verified(own, file)) {
      console.note(str(own.string(), ": there already, verified by its ", checksum_text(file)));
      parts.paths.push_back(own);
      continue;
    }
    if (kind_of(own, ExitCode::data) == PathKind::file)
      console.note(str(own.string(), ": ", difference(own, file), "; downloading the published file"));
    // Hidden, so that a run that looks for data in this folder does not take it for any.
    const Path partial = data / str(kTemporaryPrefix, set.key, ".", file.name);
    std::optional<Download> download = Download::begin(files, partial, make_folder, is_done, options, console);
    if (!download) return std::nullopt;
    download->complete(set, file, options, console);
    parts.paths.push_back(partial);
    parts.downloads.push_back(*std::move(download));
  }
  return parts;
}

void unpack(FileSystem& files, const Published& set, const Parts& parts, const Path& folder) {
  if (set.files.size() == 1) return unpack_tar(files, parts.paths.front(), set.folder, folder);
  for (size_t i = 0; i < set.files.size(); ++i)
    unpack_gzip(files, parts.paths[i], folder / Path(set.files[i].name).stem());
}

}  // namespace

Path cache_folder() {
  const auto variable = [](const char* name) {
    const char* const value = std::getenv(name);
    return Path(value == nullptr ? "" : value);
  };
  if (const Path cache = variable("XDG_CACHE_HOME"); cache.is_absolute()) return cache / "cifar-train";
  const Path home = variable("HOME");
  if (home.empty())
    fail(ExitCode::usage, "there is no place for downloaded weights: set XDG_CACHE_HOME to the path of a folder");
  return home / ".cache" / "cifar-train";
}

Path fetch_weights(FileSystem& files, const Published& weights, const DownloadOptions& options, Console& console,
                   bool says_found) {
  const PublishedFile& file = weights.files.front();
  const Path folder = cache_folder(), path = folder / file.name;
  const auto is_done = [&] { return is_verified(path, file); };
  const auto found = [&] {
    if (says_found) console.note(str(path.string(), ": there already, verified by its ", checksum_text(file)));
    return path;
  };
  console.progress("verifying " + path.string());
  if (is_done()) return found();
  if (is_there(path)) console.note(str(path.string(), ": ", difference(path, file), "; replacing it"));
  FolderForDownloads made(files, folder);
  std::optional<Download> download = Download::begin(
      files, temporary_of(path), [&] { made.make(); }, is_done, options, console);
  if (!download) return found();
  tell_source(weights, console);
  download->complete(weights, file, options, console);
  download->rename(path);
  return path;
}

Path fetch_set(FileSystem& files, const Published& set, const Path& data, const DownloadOptions& options,
               Console& console) {
  const Path folder = folder_of(set, data);
  const auto found = [&] {
    console.progress("verifying " + folder.string());
    verify_set(folder, console);
    return folder;
  };
  if (is_there(folder, ExitCode::data)) return found();
  FolderForDownloads made(files, data);
  tell_source(set, console);
  const std::optional<Parts> parts = get_parts(
      files, set, data, folder, [&] { made.make(); }, options, console);
  if (!parts) return found();
  console.progress("unpacking into " + folder.string());
  make_filled_folder(files, folder, [&](const Path& temporary) { unpack(files, set, *parts, temporary); });
  for (const Download& download : parts->downloads) remove_file(files, download.path());
  return folder;
}

}  // namespace ct
