// Reads the regular files of a tar archive, gzipped or plain, one after another. It writes no files; names are only
// compared. A fault is Error(code) with the archive's path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"

namespace ct {

class TarReader {
 public:
  /// An archive that unpacks to more than `limit` bytes is refused while it is read.
  TarReader(const std::filesystem::path& path, uint64_t limit, ExitCode code);
  ~TarReader();

  struct Member {
    std::string name;
    uint64_t bytes = 0;
  };
  /// The next regular file; nullopt at the end of the archive.
  std::optional<Member> next();
  /// The bytes of the member that next() returned.
  std::vector<std::byte> content();

 private:
  struct Stream;
  [[noreturn]] void fail_archive(const std::string& problem) const;
  void read(std::byte* to, size_t bytes);
  size_t read_some(std::span<std::byte> to);
  void read_to_end();
  void skip(uint64_t bytes);

  std::filesystem::path path_;
  uint64_t limit_, read_ = 0;
  ExitCode code_;
  std::unique_ptr<Stream> stream_;
  uint64_t left_ = 0;     // of the current member's bytes
  uint64_t padding_ = 0;  // after them
};

}  // namespace ct
