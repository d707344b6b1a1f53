// The system calls on files. Tests replace them and let the n-th call fail: everything that a run keeps is read and
// written through this class.
//
// What changes the disk takes a FileSystem from its caller, so that a unit test can pass another one. What only reads
// constructs one itself, because a FileSystem has no state; the program cifar-train-faulty (tests/faulty/) is linked
// with other definitions of these functions, which reach those too.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace ct {

using Path = std::filesystem::path;

/// The conventions are the system's: -1 and errno on failure. Any of them may be interrupted (EINTR), on network file
/// systems also those that a local disk never interrupts: see uninterrupted().
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  virtual int open(const Path& path, int flags, mode_t mode);
  virtual ssize_t read(int fd, std::span<std::byte> bytes);
  virtual ssize_t read_at(int fd, std::span<std::byte> bytes, uint64_t offset);
  virtual ssize_t write(int fd, std::span<const std::byte> bytes);
  virtual ssize_t write_at(int fd, std::span<const std::byte> bytes, uint64_t offset);
  /// A private mapping of the first `bytes` bytes for reading; nullptr on failure.
  virtual void* map(int fd, size_t bytes);
  virtual int truncate(int fd, uint64_t bytes);
  virtual int fsync(int fd);
  /// An exclusive flock, without waiting for it.
  virtual int lock(int fd);
  virtual int close(int fd);
  virtual int rename(const Path& from, const Path& to);
  virtual int link(const Path& from, const Path& to);
  virtual int unlink(const Path& path);
  virtual int mkdir(const Path& path);
  virtual int rmdir(const Path& path);
  /// stat(2), and lstat(2).
  virtual int status(const Path& path, struct stat& info);
  virtual int entry_status(const Path& path, struct stat& info);
  /// Appends the names in a folder, but "." and "..", in no order.
  virtual int list(const Path& folder, std::vector<std::string>& names);
};

/// Repeats a call while signals interrupt it. Not for close(), which has closed the file even then.
template <class Call>
auto uninterrupted(const Call& call) {
  for (;;) {
    const auto result = call();
    if (result != -1 || errno != EINTR) return result;
  }
}

}  // namespace ct
