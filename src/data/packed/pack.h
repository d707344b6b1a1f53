// Packs any data set into one file: pictures unchanged or resized, samples of other sets as PNG.
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
  std::filesystem::path root = {};  // the pictures' folder, which is removed from their names
  int resize = 0;                   // larger pictures are resized to this shorter side, as JPEG; 0: none
  int quality = 90;                 // of these JPEGs
  OnCorrupt on_corrupt = OnCorrupt::error;
  int64_t max_pixels = kMaxPixels;
  int threads = 1;
  std::function<void(int64_t done, int64_t of)> progress = {};
  /// Called with OnCorrupt::skip for each picture that is left out, including those that the set itself left out.
  std::function<void(const std::string& picture_and_why)> left_out = {};
};

struct PackedCounts {
  int64_t train = 0, test = 0, left_out = 0;
  uint64_t bytes = 0;
};

/// Replaces `out` as write_file_atomic does (base/files.h). All pictures are decoded, so every packed picture can be
/// decoded later. Memory contains a few pictures for each thread; the bytes are the same for any number of threads. A
/// damaged picture is Error(data) with its name. A second writer in the same folder is refused.
PackedCounts pack(FileSystem& files, const std::filesystem::path& out, const DataSet& train, const DataSet& test,
                  const PackOptions& options);

}  // namespace ct
