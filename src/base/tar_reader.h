// Regular files of a tar archive, gzipped or plain, one after another. Nothing is unpacked: names are words to compare
// with those that are wanted. What is wrong is Error(code) that names the archive.
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
  /// An archive that unpacks to more than `limit` bytes is refused once that shows.
  TarReader(const std::filesystem::path& path, uint64_t limit, ExitCode code);
  ~TarReader();

  struct Member {
    std::string name;
    uint64_t bytes = 0;
  };
  /// The next regular file; nothing at the archive's end.
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
  uint64_t padding_ = 0;  // behind them
};

}  // namespace ct
