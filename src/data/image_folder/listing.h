// The content of a split's folder, as in torchvision's ImageFolder: a class for each folder, in the order of their
// names; the pictures of a class at any depth below, in the order of the folders' paths and by name in each folder.
// Links are followed. The ending of a name decides whether a file is listed; its content is checked when it is read.
// Hidden names (data/folder_names.h), which torchvision includes, are left out. All that is left out is counted.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/pictures/picture_set.h"

namespace ct {

/// Files and folders that a listing leaves out, for one reason.
struct LeftOut {
  int64_t count = 0;
  std::filesystem::path first;

  void add(const std::filesystem::path& path) {
    if (count++ == 0) first = path;
  }
  void add(const LeftOut& others) {
    if (count == 0) first = others.first;
    count += others.count;
  }
};

/// By their reasons.
struct AllLeftOut {
  LeftOut hidden;   // files and folders
  LeftOut loose;    // pictures beside the folders of the classes
  LeftOut unnamed;  // files without the name of a picture
};

/// Names of the folders in `folder`, sorted; what lies beside them is added to `left_out`. Error(data) if `folder` is
/// not a folder.
std::vector<std::string> folders_in(const std::filesystem::path& folder, AllLeftOut* left_out = nullptr);

/// The same as class names. Error(data) if there are fewer than two or more than a label can represent, or if a name is
/// not UTF-8 text or contains a control character.
std::vector<std::string> class_folders(const std::filesystem::path& folder);

struct ListingOptions {
  OnCorrupt on_corrupt = OnCorrupt::error;
  bool may_lack_classes = false;  // some may have no pictures, or no folder
  int threads = 1;                // that read sizes of the files
};

/// Does the name end in ".jpeg", in any case, or another of ImageFolder's endings?
bool is_picture_name(std::string_view name);

/// The reason why a file with a picture's name cannot be a picture (empty, too large, a broken link, not a file), in
/// one line without the path; empty: it may be one.
std::string problem_of_file(const std::filesystem::path& path);

/// The pictures of all classes. It needs the bytes of their names and 14 more for each.
class Listing {
 public:
  /// Lists `folder`, whose class folders are `classes`. A file that cannot be a picture (see problem_of_file) is
  /// Error(data), or with OnCorrupt::skip listed with 0 bytes. Error(data) also for a class without pictures, for no
  /// pictures at all, and for links in a circle.
  Listing(const std::filesystem::path& folder, const std::vector<std::string>& classes, const ListingOptions& options);

  int64_t count() const { return static_cast<int64_t>(bytes_.size()); }
  /// The path below the folder of its class.
  std::string_view name(int64_t i) const;
  /// 0: it cannot be a picture.
  uint32_t bytes(int64_t i) const { return bytes_[static_cast<size_t>(i)]; }
  const AllLeftOut& left_out() const { return left_out_; }
  /// Moves the labels of all pictures to the caller.
  std::vector<uint16_t> take_labels() { return std::move(labels_); }

 private:
  std::string names_;             // concatenated
  std::vector<uint64_t> ends_;    // of each in names_
  std::vector<uint32_t> bytes_;   // of each file
  std::vector<uint16_t> labels_;  // of each picture
  AllLeftOut left_out_;
};

}  // namespace ct
