// One split of a packed file (data/packed/format.h), memory-mapped: the ranks of a host share its pages. Only the index
// is read at the start, and the next pictures are prefetched from the disk.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/files.h"
#include "data/packed/format.h"
#include "data/pictures/picture_set.h"

namespace ct {

inline constexpr std::string_view kPackedName = "packed pictures";

/// The remedy in error messages: how to get a complete file again.
inline constexpr std::string_view kPackedRemedy = "create it again with cifar-train data convert";

/// A mapped file and its index. Error(data) with the file if it is not a packed file or is damaged.
class PackedFile {
 public:
  explicit PackedFile(const std::filesystem::path& path);

  const MappedFile& file() const { return file_; }
  const PackedIndex& index() const { return index_; }
  std::span<const std::byte> bytes(const PackedEntry& picture) const { return packed_bytes(file_.bytes(), picture); }
  std::string problem(const PackedEntry& picture) const { return packed_problem(file_.bytes(), picture); }

 private:
  MappedFile file_;
  PackedIndex index_;
};

class PackedSet final : public PictureSet {
 public:
  PackedSet(const std::filesystem::path& path, Split split, const PictureTransform& transform, OnCorrupt on_corrupt);

  /// A checksum of class names and of the pictures' checksums and labels.
  uint32_t fingerprint() const override;
  std::span<const std::byte> bytes(int64_t i, std::vector<std::byte>& scratch) const override;
  std::string picture_name(int64_t i) const override;
  void prefetch(std::span<const uint32_t> next, std::span<const uint32_t> after_next) const override;
  void check_unchanged() const override { packed_.file().require_unchanged(ExitCode::data); }
  void check_not_cut() const override {
    if (packed_.file().was_cut()) check_unchanged();
  }

 private:
  const PackedFile packed_;
  const Split split_;
  const std::span<const PackedEntry> pictures_;
};

}  // namespace ct
