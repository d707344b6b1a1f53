#include "base/new_folder.h"

#include <fcntl.h>

#include <cerrno>
#include <chrono>
#include <optional>
#include <string>

#include "base/paths.h"

namespace ct {
namespace fs = std::filesystem;
using namespace std::chrono_literals;
namespace {

/// Keeps other processes from removing a temporary folder while this one lives.
class FolderLock {
 public:
  enum class State { held, anothers, unknown };

  FolderLock(FileSystem& files, const Path& folder)
      : files_(files), fd_(uninterrupted([&] { return files.open(folder, kOpen, 0); })) {
    if (fd_ < 0) {
      if (errno == ENOENT) state_ = State::anothers;  // who has removed it meanwhile
      return;
    }
    if (uninterrupted([&] { return files.lock(fd_); }) != 0) {
      if (errno == EWOULDBLOCK) state_ = State::anothers;
      return;
    }
    errno = 0;
    const bool gone = !is_at(files, fd_, folder) && (errno == 0 || errno == ENOENT);  // else it could not be seen
    state_ = gone ? State::anothers : State::held;
  }
  ~FolderLock() {
    if (fd_ >= 0) files_.close(fd_);
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  /// unknown: there are no locks, or the folder cannot be opened.
  State state() const { return state_; }

 private:
  static constexpr int kOpen = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

  FileSystem& files_;
  const int fd_;
  State state_ = State::unknown;
};

Path parent_of(const Path& folder) { return folder.has_parent_path() ? folder.parent_path() : Path("."); }
std::string beginning_of(const Path& folder) { return str(kTemporaryPrefix, folder.filename().string(), "-"); }

/// Has nobody made a file in the folder for so long?
bool is_idle_for(std::chrono::minutes time, const Path& folder) {
  std::error_code error;
  const auto written = fs::last_write_time(folder, error);
  return !error && fs::file_time_type::clock::now() - written > time;
}

/// A new, empty folder beside the one that is being made.
class UnfinishedFolder {
 public:
  UnfinishedFolder(FileSystem& files, const Path& folder) {
    make_folders(files, parent_of(folder));
    remove_left_folders(files, folder);
    for (int i = 0;; ++i) {
      path_ = parent_of(folder) / str(beginning_of(folder), i);
      if (uninterrupted([&] { return files.mkdir(path_); }) != 0) {
        if (errno != EEXIST) fail_io("create the folder", path_, errno);
        continue;
      }
      lock_.emplace(files, path_);
      if (lock_->state() != FolderLock::State::anothers) return;  // else it was taken for a left one just now
    }
  }
  const Path& path() const { return path_; }

 private:
  Path path_;
  std::optional<FolderLock> lock_;
};

}  // namespace

void remove_left_folders(FileSystem& files, const Path& folder) {
  const std::string beginning = beginning_of(folder);
  for (const std::string& name : list_folder(parent_of(folder))) {
    const Path path = parent_of(folder) / name;
    if (!name.starts_with(beginning) || name.find_first_not_of("0123456789", beginning.size()) != name.npos ||
        kind_of_entry(path) != PathKind::folder)
      continue;
    const FolderLock lock(files, path);
    if (lock.state() == FolderLock::State::anothers) continue;
    // A lock may be one of this host alone.
    const std::chrono::minutes patience = lock.state() == FolderLock::State::held ? 1min : 60min;
    std::error_code stays;
    if (is_idle_for(patience, path)) fs::remove_all(path, stays);
  }
}

bool make_filled_folder(FileSystem& files, const Path& folder, const std::function<void(const Path&)>& fill) {
  const std::vector<Path> above = missing_folders(parent_of(folder));
  std::optional<UnfinishedFolder> made;
  std::error_code ignored;
  try {
    const Path& temporary = made.emplace(files, folder).path();
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
    if (made) fs::remove_all(made->path(), ignored);
    remove_empty_folders(files, above);
    throw;
  }
  fs::remove_all(made->path(), ignored);
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
