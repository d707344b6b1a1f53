#include "base/new_folder.h"

#include <fcntl.h>

#include <cerrno>
#include <chrono>

#include "base/paths.h"

namespace ct {
namespace fs = std::filesystem;
namespace {

/// A new, empty folder beside `folder` that no other process uses.
Path make_temporary(FileSystem& files, const Path& folder) {
  const Path parent = folder.has_parent_path() ? folder.parent_path() : Path(".");
  const std::string prefix = str(kTemporaryPrefix, folder.filename().string(), "-");
  make_folders(files, parent);
  for (const std::string& name : list_folder(parent)) {
    std::error_code error;
    const auto age = fs::file_time_type::clock::now() - fs::last_write_time(parent / name, error);
    if (name.starts_with(prefix) && !error && age > std::chrono::hours(1)) fs::remove_all(parent / name, error);
  }
  for (int i = 0;; ++i) {
    const Path temporary = parent / str(prefix, i);
    if (uninterrupted([&] { return files.mkdir(temporary); }) == 0) return temporary;
    if (errno != EEXIST) fail_io("create the folder", temporary, errno);
  }
}

}  // namespace

bool make_filled_folder(FileSystem& files, const Path& folder, const std::function<void(const Path&)>& fill) {
  const Path temporary = make_temporary(files, folder);
  std::error_code ignored;
  try {
    fill(temporary);
    sync_folder(files, temporary);
    const bool renamed = uninterrupted([&] { return files.rename(temporary, folder); }) == 0;
    const int error = renamed ? 0 : errno;
    // As in rename_file(), a lost reply.
    if (renamed || (error == ENOENT && is_folder(folder) && !is_there(temporary))) {
      sync_folder(files, folder.parent_path());
      return true;
    }
    if (error != ENOTEMPTY && error != EEXIST && error != ENOTDIR) fail_io("create the folder", folder, error);
  } catch (...) {
    fs::remove_all(temporary, ignored);
    throw;
  }
  fs::remove_all(temporary, ignored);
  return false;
}

std::vector<Path> missing_folders(const Path& folder) {
  std::vector<Path> missing;
  for (Path at = folder; !at.empty() && !is_there(at); at = at.parent_path())
    if (at.has_filename()) missing.push_back(at);  // "a/b/" has the parent "a/b"
  return missing;
}

void remove_empty_folders(FileSystem& files, const std::vector<Path>& folders) {
  for (const Path& folder : folders)
    if (uninterrupted([&] { return files.rmdir(folder); }) != 0 && errno != ENOENT) return;
}

void write_new_file(FileSystem& files, const Path& path, std::span<const std::byte> bytes) {
  File file(files, path, O_WRONLY | O_CREAT | O_EXCL);
  file.write(bytes);
  file.sync();
  file.close();
}

}  // namespace ct
