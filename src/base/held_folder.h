// A folder held open: it stays the same one when its name is changed or given to another folder.
#pragma once

#include <string>
#include <string_view>

#include "base/files.h"

namespace ct {

class HeldFolder {
 public:
  /// `path` is a folder, or Error(io).
  explicit HeldFolder(const Path& path);

  /// A path that leads to the folder by its descriptor, for this process alone, as long as this object lives. Where
  /// there is no /proc: the name it was opened by.
  const Path& path() const { return path_; }

  enum class Fate : uint8_t { in_place, renamed, removed };
  /// What has become of the name that the folder was opened by.
  Fate fate() const;
  /// The name that the folder has now.
  Path name() const;

 private:
  FileSystem files_;
  Path opened_as_;  // from the root, whatever becomes of the working folder
  File folder_;
  Path path_;
};

/// `path`, for people: with the present name of the folder where it begins with a HeldFolder's path(), else unchanged.
std::string name_of_held(std::string_view path);

}  // namespace ct
