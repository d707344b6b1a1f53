// A file read from beginning to end, decompressed if it is gzipped, with gzip's own checksum checked. It may be a pipe.
// A fault is Error(code) with the file's path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "base/error.h"

namespace ct {

class GzipInput {
 public:
  /// A file that unpacks to more than `limit` bytes is refused while it is read.
  GzipInput(const std::filesystem::path& path, uint64_t limit, ExitCode code);
  ~GzipInput();

  /// As many bytes as come next, at most the span's; 0 at the end.
  size_t read(std::span<std::byte> to);
  /// Throws Error(code) with the path.
  [[noreturn]] void fail_file(const std::string& problem) const;

 private:
  struct Stream;

  std::filesystem::path path_;
  uint64_t limit_, read_ = 0;
  ExitCode code_;
  std::unique_ptr<Stream> stream_;
};

}  // namespace ct
