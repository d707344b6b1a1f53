// A packed file (NAME.ctpack): an index and the pictures of both splits, all little-endian.
//
//   header       64 bytes: PackedHeader
//   index        a PackedEntry for each picture, the training split first; the end of each class name: u32; then the
//                class names and the pictures' names, without gaps
//   pictures     JPEG or PNG files, at the offsets of the entries
//
// Header, index and every picture have a CRC-32C. Opening checks header and index and every number in them; reading a
// picture checks its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/dataset.h"

namespace ct {

inline constexpr std::string_view kPackedSuffix = ".ctpack";
inline constexpr std::string_view kPackedMagic = "ctpack\r\n";  // detects a transfer in text mode
inline constexpr uint32_t kPackedVersion = 1;

struct PackedHeader {
  char magic[8];
  uint32_t version;
  uint32_t header_crc;  // of these 64 bytes with 0 in its place
  uint64_t file_bytes;
  uint64_t index_bytes;
  uint32_t index_crc;
  uint32_t classes;
  uint64_t train, test;  // pictures
  uint64_t text_bytes;   // of all names
};
static_assert(sizeof(PackedHeader) == 64);

struct PackedEntry {
  uint64_t offset;  // from the file's start
  uint32_t bytes, crc;
  uint32_t label;
  uint32_t name_end;  // in the text; it begins at the end of the previous name, or of the class names
};
static_assert(sizeof(PackedEntry) == 24);

/// The index, as views of the file's bytes.
struct PackedIndex {
  std::vector<std::string> class_names;
  std::span<const PackedEntry> entries;  // training's first
  int64_t train = 0;
  std::string_view text;
  uint32_t class_text = 0;  // bytes of class names at its start

  std::span<const PackedEntry> of(Split split) const {
    const auto count = static_cast<size_t>(train);
    return split == Split::train ? entries.first(count) : entries.subspan(count);
  }
  /// A picture's path below the folder that was packed.
  std::string_view name(Split split, int64_t i) const;
};

/// Does a file begin like a packed file, complete or not?
bool is_packed(std::span<const std::byte> file);

/// A fault is Error(data) without the file's name. `file` is the whole file; its pictures are not read.
PackedIndex read_packed_index(std::span<const std::byte> file);

/// A picture's bytes; empty if the entry points outside the file, which is possible after the file was overwritten in
/// place.
std::span<const std::byte> packed_bytes(std::span<const std::byte> file, const PackedEntry& picture);
/// The fault of a picture's bytes, in one line without its name; empty: none.
std::string packed_problem(std::span<const std::byte> file, const PackedEntry& picture);

/// A picture to be packed.
struct PackedPicture {
  uint64_t offset = 0;
  uint32_t bytes = 0, crc = 0;
  int label = 0;
  std::string name;
};

/// Header and index.
std::vector<std::byte> packed_front(std::span<const std::string> class_names, std::span<const PackedPicture> train,
                                    std::span<const PackedPicture> test, uint64_t file_bytes);
/// The length of header and index, where `text_bytes` is the length of all names.
uint64_t packed_front_bytes(uint64_t pictures, uint64_t classes, uint64_t text_bytes);

}  // namespace ct
