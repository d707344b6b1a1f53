// Reads the regular files of a tar archive, gzipped or plain, one after another, by libarchive. It writes no files;
// names are only compared. A fault is Error(code) with the archive's path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
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
  /// The next regular file; nullopt at the end of the archive. Folders, links and devices are passed over.
  std::optional<Member> next();
  /// The bytes of the member that next() returned.
  std::vector<std::byte> content();

 private:
  struct Stream;

  std::unique_ptr<Stream> stream_;
  uint64_t limit_, size_ = 0;  // size_: of the current member's bytes
};

/// libarchive's name and version.
std::string tar_library();

}  // namespace ct
