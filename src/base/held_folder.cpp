#include "base/held_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files.h"

namespace ct {

HeldFolder::~HeldFolder() {
  if (fd_ >= 0) ::close(fd_);
}

void HeldFolder::hold(const Path& folder) {
  check(fd_ < 0, "a folder is held already");
  fd_ = ::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (fd_ < 0) fail_io("open", folder, errno);
  from_ = str("/proc/self/fd/", fd_, "/");
  struct stat info {};
  if (::stat(from_.c_str(), &info) != 0) return;  // no /proc
  below_ = folder.native();
  if (!below_.ends_with('/')) below_ += '/';
}

Path HeldFolder::held(const Path& path) const {
  const std::string& text = path.native();
  return below_.empty() || !text.starts_with(below_) ? path : Path(from_ + text.substr(below_.size()));
}

int HeldFolder::open(const Path& path, int flags, mode_t mode) { return FileSystem::open(held(path), flags, mode); }
int HeldFolder::rename(const Path& from, const Path& to) { return FileSystem::rename(held(from), held(to)); }
int HeldFolder::link(const Path& from, const Path& to) { return FileSystem::link(held(from), held(to)); }
int HeldFolder::unlink(const Path& path) { return FileSystem::unlink(held(path)); }
int HeldFolder::mkdir(const Path& path) { return FileSystem::mkdir(held(path)); }
int HeldFolder::rmdir(const Path& path) { return FileSystem::rmdir(held(path)); }
int HeldFolder::status(const Path& path, struct stat& info) { return FileSystem::status(held(path), info); }
int HeldFolder::entry_status(const Path& path, struct stat& info) { return FileSystem::entry_status(held(path), info); }
int HeldFolder::list(const Path& folder, std::vector<std::string>& names) {
  return FileSystem::list(held(folder), names);
}

}  // namespace ct
