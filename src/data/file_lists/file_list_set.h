// Pictures in file lists, for `data convert`. The folder contains
//   training_file_list.txt, validation_file_list.txt   a line "<path> <label>" for each picture; the second list is
//                                                      the test split
//   labels.txt                                         a line "<name>, <label>" for each class
// A path may contain spaces; a relative path is relative to the folder.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/pictures/picture_set.h"

namespace ct {

inline constexpr std::string_view kTrainingList = "training_file_list.txt",
                                  kValidationList = "validation_file_list.txt", kLabelList = "labels.txt";

/// Does the folder have lists of pictures? Error(data) with the file if one of the three is missing.
bool holds_file_lists(const std::filesystem::path& folder);

class FileListSet final : public PictureSet {
 public:
  /// Reads the list of `split`. Error(data) with the faulty file and line. Pictures are not read.
  FileListSet(const std::filesystem::path& folder, Split split, OnCorrupt on_corrupt);

  uint32_t fingerprint() const override;
  std::span<const std::byte> bytes(int64_t i, std::vector<std::byte>& scratch) const override;
  std::string picture_name(int64_t i) const override { return pictures_[static_cast<size_t>(i)]; }

 private:
  std::vector<std::string> pictures_;
};

}  // namespace ct
