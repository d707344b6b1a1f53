// Memory that processes of one host share: a mapped file whose name is removed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ct {

/// Folders for such files, best first: /dev/shm (in a container possibly only 64 MB), then TMPDIR or /tmp.
std::vector<std::string> shared_file_folders();

/// A file that every process maps for reading and writing. The mapping remains valid after remove_name().
class SharedFile {
 public:
  /// A new file of `bytes` zeros in `folder`, after this user's files there that killed processes left are removed;
  /// nullopt if the folder has less free space or creation fails.
  static std::optional<SharedFile> create(const std::string& folder, size_t bytes);
  /// A file that another process created with the same `bytes`; nullopt on failure.
  static std::optional<SharedFile> open(const std::string& path, size_t bytes);
  SharedFile(SharedFile&& other) noexcept;
  SharedFile& operator=(SharedFile&& other) noexcept;
  ~SharedFile();

  std::byte* data() const { return data_; }
  const std::string& path() const { return path_; }
  /// Allocates the space of a part; without this a write to a full file system raises SIGBUS. False: not enough space.
  bool reserve(size_t offset, size_t bytes);
  /// Removes the name, so that no process can open the file any more. Its space is freed when all mappings are gone,
  /// also after a crash.
  void remove_name();

 private:
  SharedFile(std::string path, int fd, std::byte* data, size_t bytes, bool named)
      : path_(std::move(path)), fd_(fd), data_(data), bytes_(bytes), named_(named) {}
  static std::optional<SharedFile> map(std::string path, int fd, size_t bytes, bool named);

  std::string path_;
  int fd_;
  std::byte* data_;
  size_t bytes_;
  bool named_;  // remove_name() has not been called
};

/// Throws ExitCode::memory with the folders, their free space, and the remedy.
[[noreturn]] void fail_no_shared_memory(size_t bytes);

}  // namespace ct
