// Memory that processes of one host share: a mapped file without a name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ct {

/// Where such files go, best first: /dev/shm (a container's may hold 64 MB only), then TMPDIR or /tmp.
std::vector<std::string> shared_file_folders();

/// A file mapped for reading and writing, by every process that opens it. The mapping lives on after remove_name().
class SharedFile {
 public:
  /// A new file of `bytes` zeros in `folder`; none where that has less than `bytes` of free space or refuses.
  static std::optional<SharedFile> create(const std::string& folder, size_t bytes);
  /// A file that another process made with the same `bytes`; none if that fails.
  static std::optional<SharedFile> open(const std::string& path, size_t bytes);
  SharedFile(SharedFile&& other) noexcept;
  SharedFile& operator=(SharedFile&& other) noexcept;
  ~SharedFile();

  std::byte* data() const { return data_; }
  const std::string& path() const { return path_; }
  /// Takes the space for a part: without it, writing to a full file system is a SIGBUS. False: there is not enough.
  bool reserve(size_t offset, size_t bytes);
  /// Nobody can open it from now on; its space is free again once all mappings are gone, even by a crash.
  void remove_name();

 private:
  SharedFile(std::string path, int fd, std::byte* data, size_t bytes, bool named)
      : path_(std::move(path)), fd_(fd), data_(data), bytes_(bytes), named_(named) {}
  static std::optional<SharedFile> map(std::string path, int fd, size_t bytes, bool named);

  std::string path_;
  int fd_;
  std::byte* data_;
  size_t bytes_;
  bool named_;  // remove_name() is still to come
};

/// Throws ExitCode::memory: names the folders, what is free there, and the remedy.
[[noreturn]] void fail_no_shared_memory(size_t bytes);

}  // namespace ct
