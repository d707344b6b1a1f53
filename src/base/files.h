// File operations on top of the system calls (base/file_system.h): reads and writes that are complete, or an
// Error(ExitCode::io) with the path, the system's reason and the remedy; changes that survive a crash.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/file_system.h"
#include "base/mapped_guard.h"

namespace ct {

/// Throws Error(code): "cannot <what> <path>: <strerror(error)>: <remedy>". Instead of `code`, ExitCode::memory if the
/// system is out of memory, and ExitCode::io if the disk fails.
[[noreturn]] void fail_io(std::string_view what, const Path& path, int error, ExitCode code = ExitCode::io);

/// Is it a fault of the system or of a disk, not of the file?
bool is_of_system(int error);

/// External text, made printable (base/utf8.h), in quotes, and shortened if it is long.
std::string in_quotes(std::string_view text);

/// An open file, closed by the destructor. `files` must outlive it.
class File {
 public:
  /// flags as for open(2); O_CLOEXEC is added.
  File(FileSystem& files, const Path& path, int flags, mode_t mode = 0666);
  File(File&& other) noexcept;
  File& operator=(File&&) = delete;
  ~File();
  int fd() const { return fd_; }
  const Path& path() const { return path_; }
  /// Writes everything, or throws an Error.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  /// Writes everything at that offset; several processes may write different parts of a file.
  void write_at(std::span<const std::byte> bytes, uint64_t offset);
  void write_at(std::string_view text, uint64_t offset);
  /// Reads from that offset and returns the number of bytes: fewer than asked for at the file's end.
  size_t read_at(std::span<std::byte> bytes, uint64_t offset) const;
  void truncate(uint64_t bytes);
  /// Returns once the contents are on the disk.
  void sync();
  /// Has the file's last name been removed?
  bool removed() const;
  /// Closes the file and throws errors, which the destructor would ignore.
  void close();

 private:
  FileSystem* files_;
  Path path_;
  int fd_;
};

/// A whole regular file mapped for reading; it remains readable if the name is replaced by another file. If the file is
/// truncated meanwhile, or its disk fails, reads return zeros (base/mapped_guard.h): call require_unchanged() after
/// reading and before using the results.
class MappedFile {
 public:
  enum class Links { follow, refuse };
  /// Throws if the path is not a regular file (without waiting for a pipe to open). Every failure is Error(code).
  explicit MappedFile(const Path& path, Links links = Links::follow, ExitCode code = ExitCode::io);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();
  const Path& path() const { return path_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }
  /// Prefetches a part of bytes() from the disk without waiting.
  void read_ahead(std::span<const std::byte> part) const;
  /// Have reads returned zeros instead of missing bytes? Cheap, but does not detect overwritten bytes, nor a change in
  /// the page with the new end of a truncated file.
  bool was_cut() const { return guard_ && guard_->was_cut(); }
  /// Throws Error(code) with the file if was_cut().
  void require_whole(ExitCode code) const;
  /// The same, and if it was written or truncated since it was opened; Error(io) if its disk fails. Replacing or
  /// removing it does not matter.
  void require_unchanged(ExitCode code) const;

 private:
  Path path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  struct stat opened_ {};
  std::unique_ptr<GuardedRegion> guard_;
};

/// The content of a regular file of at most `limit` bytes. Every failure is Error(code).
std::string read_file(const Path& path, uint64_t limit = uint64_t{1} << 30,
                      MappedFile::Links links = MappedFile::Links::follow, ExitCode code = ExitCode::io);

/// Is the opened file still the one at that path, which is not followed if it is a link?
bool is_at(FileSystem& files, int fd, const Path& path);

/// The file that writing to `path` replaces: symbolic links are followed, also to files that do not exist yet, so that
/// a link remains a link. Throws for a folder, device, pipe or socket, which cannot be replaced.
Path replaced_by_writing(const Path& path);

/// Replaces the file of `path`, so that a crash at any moment leaves the old or the new contents: writes ".tmp-<name>"
/// in the same folder, syncs it, renames it, and syncs the folder. A device or pipe is written directly. Error(io) if
/// another process is writing the path, where the file system has locks.
void write_file_atomic(FileSystem& files, const Path& path, const std::function<void(File&)>& write);
void write_file_atomic(FileSystem& files, const Path& path, std::string_view text);
inline constexpr std::string_view kTemporaryPrefix = ".tmp-";
/// The temporary file of write_file_atomic.
Path temporary_of(const Path& path);

/// Replaces `to` by the current file `from`, as write_file_atomic does: by a hard link if the file system supports it,
/// otherwise by a copy. Links are followed on both sides. For files that are only replaced, never changed in place.
void link_or_copy(FileSystem& files, const Path& from, const Path& to);

/// Creates `path` and its missing parents, which are then on the disk; no error if it exists as a folder.
void make_folders(FileSystem& files, const Path& path);

/// Returns once creations, renames and removals in the folder are on the disk (if the file system supports this, and
/// the folder may be read).
void sync_folder(FileSystem& files, const Path& path);

void rename_file(FileSystem& files, const Path& from, const Path& to);

/// Removes a file or symbolic link; no error if there is none.
void remove_file(FileSystem& files, const Path& path);

/// Removes the files (not folders) directly in `folder` whose name `is_ours` accepts, then the folder if it is empty.
/// Returns whether the folder was removed. Does not descend; a link in the folder's place is removed, not followed.
bool remove_known(FileSystem& files, const Path& folder, const std::function<bool(const std::string&)>& is_ours);

/// Names directly in a folder, sorted bytewise; empty if the folder does not exist.
std::vector<std::string> list_folder(const Path& folder);

/// A file that grows by whole lines: after a crash or on a full disk it never ends in a partial line.
class LineFile {
 public:
  /// Opens or creates the file, whose name is then on the disk; removes a last line without newline.
  LineFile(FileSystem& files, const Path& path);
  /// Appends `line`, which has no newline. On failure the file does not change.
  void append(std::string_view line);
  void sync() { file_.sync(); }
  /// Is it still the file at its path? Otherwise its lines would go where nobody finds them. What cannot be seen now is
  /// taken to be there.
  bool in_place() const;

 private:
  FileSystem& files_;
  File file_;
  uint64_t size_;
};

}  // namespace ct
