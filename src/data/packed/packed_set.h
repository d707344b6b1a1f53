// One split of a packed file (data/packed/format.h), mapped: the ranks of a host share its pages, nothing is read
// before it is wanted but the index, and what is wanted next is asked of the disk in advance.
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

/// How to get a whole file again, for error messages.
inline constexpr std::string_view kPackedRemedy = "create it again with cifar-train data convert";

/// A mapped file and its index. Error(data) names the file that is none, or is damaged.
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

  /// Of the classes' names and the pictures' checksums and labels.
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
