// A folder that is held open, so that what is done below its path is done in it, even if the folder was moved meanwhile
// and another one has taken its name.
#pragma once

#include "base/file_system.h"

namespace ct {

/// The system's file operations, but for paths that lie below the held folder's, as they are written (without ".."):
/// they lead from the held folder. Before hold(), and where /proc is not mounted, all paths are the system's.
class HeldFolder final : public FileSystem {
 public:
  HeldFolder() = default;
  /// hold(folder)
  explicit HeldFolder(const Path& folder) { hold(folder); }
  HeldFolder(const HeldFolder&) = delete;
  HeldFolder& operator=(const HeldFolder&) = delete;
  ~HeldFolder() override;
  /// Once; Error(io) if the folder cannot be opened. Its own path stays the system's.
  void hold(const Path& folder);

  int open(const Path& path, int flags, mode_t mode) override;
  int rename(const Path& from, const Path& to) override;
  int link(const Path& from, const Path& to) override;
  int unlink(const Path& path) override;
  int mkdir(const Path& path) override;
  int rmdir(const Path& path) override;
  int status(const Path& path, struct stat& info) override;
  int entry_status(const Path& path, struct stat& info) override;
  int list(const Path& folder, std::vector<std::string>& names) override;

 private:
  Path held(const Path& path) const;

  int fd_ = -1;
  std::string below_;  // how paths below the folder begin, and what takes that place
  std::string from_;
};

}  // namespace ct
