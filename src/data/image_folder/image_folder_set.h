// Pictures in a folder for each class: train/CLASS/... and val/CLASS/..., as torchvision's ImageFolder reads them.
#pragma once

#include <filesystem>

#include "data/image_folder/listing.h"
#include "data/pictures/picture_set.h"

namespace ct {

inline constexpr std::string_view kImageFolderName = "image_folder";
inline constexpr std::string_view kImageFolderRemedy = "restore the file, or remove it";

struct ImageFolderOptions {
  PictureTransform pictures = {};
  OnCorrupt on_corrupt = OnCorrupt::error;
  int threads = 1;  // that read names and sizes of the files
  /// The classes, some of which may have no pictures or no folder; empty: all folders, each with pictures.
  std::vector<std::string> classes = {};
};

class ImageFolderSet final : public PictureSet {
 public:
  /// Opens one split's folder.
  ImageFolderSet(std::filesystem::path folder, const ImageFolderOptions& options);

  /// A checksum of names and sizes, because reading every picture would take as long as an epoch.
  uint32_t fingerprint() const override;
  /// Throws if a file's length has changed since the set was opened.
  std::span<const std::byte> bytes(int64_t i, std::vector<std::byte>& scratch) const override;
  std::string picture_name(int64_t i) const override { return path(i).string(); }
  std::filesystem::path path(int64_t i) const;
  const Listing& listing() const { return listing_; }

 private:
  bool is_as_it_was(int64_t i) const override;
  std::filesystem::path folder_;
  Listing listing_;
};

}  // namespace ct
