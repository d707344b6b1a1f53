// The files in a zip archive that are stored without compression (PKWARE's APPNOTE 6.3, with ZIP64), as torch.save()
// writes them.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "base/files.h"

namespace ct {

/// A file in an archive; both views lie in the archive.
struct ZipEntry {
  std::string_view name;
  std::span<const std::byte> data;
};

/// All files of the archive, in its directory's order. Error(checkpoint) that names `path`: a damaged or cut archive; a
/// compressed or encrypted file in it.
std::vector<ZipEntry> stored_entries(std::span<const std::byte> archive, const Path& path);

}  // namespace ct
