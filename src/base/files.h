// Files: every change to the disk that must survive a crash goes through here.
//
// What is changed on disk goes through a FileSystem, whose default is the operating system's: a test puts another in
// its place and lets the n-th operation fail. Reading needs no such seam: a bad disk is imitated by damaging the file.
// Every failure is Error(ExitCode::io) with the path, the system's reason and what to do.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/mapped_guard.h"

namespace ct {

using Path = std::filesystem::path;

/// The system calls by which files are changed, with their own conventions: -1 and errno on failure.
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  virtual int open(const Path& path, int flags, mode_t mode);
  virtual ssize_t write(int fd, std::span<const std::byte> bytes);
  virtual ssize_t write_at(int fd, std::span<const std::byte> bytes, uint64_t offset);
  virtual int truncate(int fd, uint64_t bytes);
  virtual int fsync(int fd);
  virtual int close(int fd);
  virtual int rename(const Path& from, const Path& to);
  virtual int link(const Path& from, const Path& to);
  virtual int unlink(const Path& path);
  virtual int mkdir(const Path& path);
  virtual int rmdir(const Path& path);
};

/// Throws Error(code): "cannot <what> <path>: <strerror(error)>: <remedy>". Where the system has no memory left,
/// Error(ExitCode::memory) whatever `code` says.
[[noreturn]] void fail_io(std::string_view what, const Path& path, int error, ExitCode code = ExitCode::io);

/// Someone else's text as printable() has it (base/utf8.h), in quotes, and cut when long.
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
  /// Writes everything at that place; several processes may write different places of a file.
  void write_at(std::span<const std::byte> bytes, uint64_t offset);
  void write_at(std::string_view text, uint64_t offset);
  void truncate(uint64_t bytes);
  /// Returns once the contents are on the disk.
  void sync();
  /// Has its last name gone?
  bool removed() const;
  /// Closes and reports what the destructor would have to swallow.
  void close();

 private:
  FileSystem* files_;
  Path path_;
  int fd_;
};

/// A whole regular file mapped for reading; it stays readable when the name is replaced by another file. Where it is
/// cut meanwhile, or its disk fails, zeros are read (base/mapped_guard.h): ask require_unchanged() once all is read,
/// before the results count.
class MappedFile {
 public:
  enum class Links { follow, refuse };
  /// Refuses what is not a regular file (without waiting for a pipe to open). Every failure is Error(code).
  explicit MappedFile(const Path& path, Links links = Links::follow, ExitCode code = ExitCode::io);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();
  const Path& path() const { return path_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  /// Asks the disk for a part of bytes() that is about to be read; does not wait for it.
  void read_ahead(std::span<const std::byte> part) const;
  /// Were zeros read in place of bytes that are gone? Cheap, but says nothing of what was written over, nor of the
  /// page that holds a cut file's new end.
  bool was_cut() const { return guard_ && guard_->was_cut(); }
  /// Throws Error(code) naming the file when it was written or cut since it was opened. Replaced or removed, it does no
  /// harm.
  void require_unchanged(ExitCode code) const;

 private:
  Path path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  struct stat opened_ {};
  std::unique_ptr<GuardedRegion> guard_;
};

/// A whole regular file; one larger than `limit` bytes is refused. Every failure is Error(code).
std::string read_file(const Path& path, uint64_t limit = uint64_t{1} << 30,
                      MappedFile::Links links = MappedFile::Links::follow, ExitCode code = ExitCode::io);

/// Where that lies which is written to `path`: symbolic links are followed, also to what is not there yet, so that a
/// link stays one when its file is replaced. Refuses what can only be written to, not replaced: a folder, device, pipe
/// or socket.
Path replaced_by_writing(const Path& path);

/// Replaces what `path` leads to so that a crash at any moment leaves the old or the new contents: written as
/// ".tmp-<name>" beside it, synced, renamed, the folder synced. A device or pipe is written to as it is. One writer per
/// path at a time.
void write_file_atomic(FileSystem& files, const Path& path, const std::function<void(File&)>& write);
void write_file_atomic(FileSystem& files, const Path& path, std::string_view text);
inline constexpr std::string_view kTemporaryPrefix = ".tmp-";
/// Where write_file_atomic writes first.
Path temporary_of(const Path& path);

/// Replaces `to` by what `from` is now, as write_file_atomic does: by another name for it where the file system can,
/// else by a copy. Links are followed on both sides. For files that are only ever replaced, never changed.
void link_or_copy(FileSystem& files, const Path& from, const Path& to);

/// Makes `path` and its missing parents; fine when it exists as a folder.
void make_folders(FileSystem& files, const Path& path);

/// Returns once creations, renames and removals in the folder are on the disk (where the file system offers that).
void sync_folder(FileSystem& files, const Path& path);

void rename_file(FileSystem& files, const Path& from, const Path& to);

/// Removes a file or symbolic link; fine when there is none.
void remove_file(FileSystem& files, const Path& path);

/// Removes the files (not folders) directly in `folder` whose name `is_ours` accepts, then the folder if nothing is
/// left in it. Returns whether the folder is gone. Never follows links, never descends.
bool remove_known(FileSystem& files, const Path& folder, const std::function<bool(const std::string&)>& is_ours);

/// Names directly in a folder, sorted bytewise; none when the folder does not exist.
std::vector<std::string> list_folder(const Path& folder);

/// A file of lines that grows by whole lines: after a crash or a full disk it never ends in a piece of one.
class LineFile {
 public:
  /// Opens or creates; cuts a last line that lacks its newline.
  LineFile(FileSystem& files, const Path& path);
  /// `line` without a newline. On failure the file is as before.
  void append(std::string_view line);
  void sync() { file_.sync(); }

 private:
  File file_;
  uint64_t size_;
};

}  // namespace ct
