// What lies in a split's folder, as torchvision's ImageFolder finds it: a class for each folder, in the order of their
// names; a class's pictures wherever they lie below, folder by folder in the order of the folders' paths, by name in
// each. Links are followed. A file counts by its name's ending; what it holds shows when it is read. Hidden names
// (data/folder_names.h), which torchvision takes, are left out and counted.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/pictures/picture_set.h"

namespace ct {

/// Hidden folders, and hidden files with a picture's name.
struct Hidden {
  int64_t count = 0;
  std::filesystem::path first;

  void add(const std::filesystem::path& path) {
    if (count++ == 0) first = path;
  }
};

/// Names of the folders in `folder`, sorted; hidden ones go to `hidden`. Error(data) where it is none.
std::vector<std::string> folders_in(const std::filesystem::path& folder, Hidden* hidden = nullptr);

/// The same as the names of classes. Error(data) naming it where there are fewer than two, or more than a label
/// can tell apart, and the name that is not text.
std::vector<std::string> class_folders(const std::filesystem::path& folder);

struct ListingOptions {
  OnCorrupt on_corrupt = OnCorrupt::error;
  bool may_lack_classes = false;  // some may have no pictures, or no folder
  int threads = 1;                // that look at the files
};

/// ".jpeg" in any case, and the other endings that ImageFolder takes.
bool is_picture_name(std::string_view name);

/// Why a file that has a picture's name cannot be one: empty, too large, a broken link, no file at all. In one line
/// without the path; empty: it may be one.
std::string problem_of_file(const std::filesystem::path& path);

/// The pictures of all classes. It takes their names' bytes and 14 more for each.
class Listing {
 public:
  /// Looks at `folder`, whose class folders are `classes`. What cannot be a picture (see problem_of_file) is
  /// Error(data), or listed as of no bytes. Error(data) for a class without pictures, or where there are none at all,
  /// and for links in a circle.
  Listing(const std::filesystem::path& folder, const std::vector<std::string>& classes, const ListingOptions& options);

  int64_t count() const { return static_cast<int64_t>(bytes_.size()); }
  /// Below its class's folder.
  std::string_view name(int64_t i) const;
  /// 0: it cannot be a picture.
  uint32_t bytes(int64_t i) const { return bytes_[static_cast<size_t>(i)]; }
  const Hidden& hidden() const { return hidden_; }
  /// Of all pictures, which are then the caller's.
  std::vector<uint16_t> take_labels() { return std::move(labels_); }

 private:
  std::string names_;             // one behind the other
  std::vector<uint64_t> ends_;    // of each in names_
  std::vector<uint32_t> bytes_;   // of each file
  std::vector<uint16_t> labels_;  // of each picture
  Hidden hidden_;
};

}  // namespace ct
