// Makes a packed file of any data set: pictures as they are or smaller, samples of other sets as PNG.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "base/files.h"
#include "data/dataset.h"
#include "data/pictures/decode.h"

namespace ct {

struct PackOptions {
  std::filesystem::path root = {};  // below which pictures lie: the part of their names that is not kept
  int resize = 0;                   // larger pictures get a shorter side of so many pixels, as JPEG; 0: none does
  int quality = 90;                 // of such a JPEG
  OnCorrupt on_corrupt = OnCorrupt::error;
  int64_t max_pixels = kMaxPixels;
  int threads = 1;
  std::function<void(int64_t done, int64_t of)> progress = {};
  /// Called with OnCorrupt::skip for each picture, those that the set itself left out among them.
  std::function<void(const std::string& picture_and_why)> left_out = {};
};

struct PackedCounts {
  int64_t train = 0, test = 0, left_out = 0;
  uint64_t bytes = 0;
};

/// Replaces `out` as write_file_atomic does (base/files.h): all pictures are decoded, so that none is packed that would
/// fail later. Memory holds a few pictures a thread; the bytes are the same for any number of threads. A damaged
/// picture is Error(data) that names it. A second writer in the same folder is refused.
PackedCounts pack(FileSystem& files, const std::filesystem::path& out, const DataSet& train, const DataSet& test,
                  const PackOptions& options);

}  // namespace ct
