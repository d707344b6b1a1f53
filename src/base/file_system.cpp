#include "base/file_system.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <string_view>

// Only these functions: cifar-train-faulty has definitions of its own in the place of this file.

namespace ct {

int FileSystem::open(const Path& path, int flags, mode_t mode) { return ::open(path.c_str(), flags, mode); }
ssize_t FileSystem::read(int fd, std::span<std::byte> bytes) { return ::read(fd, bytes.data(), bytes.size()); }
ssize_t FileSystem::read_at(int fd, std::span<std::byte> bytes, uint64_t offset) {
  return ::pread(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
}
ssize_t FileSystem::write(int fd, std::span<const std::byte> bytes) { return ::write(fd, bytes.data(), bytes.size()); }
ssize_t FileSystem::write_at(int fd, std::span<const std::byte> bytes, uint64_t offset) {
  return ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
}
void* FileSystem::map(int fd, size_t bytes) {
  void* const data = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
  return data == MAP_FAILED ? nullptr : data;
}
int FileSystem::truncate(int fd, uint64_t bytes) { return ::ftruncate(fd, static_cast<off_t>(bytes)); }
int FileSystem::fsync(int fd) { return ::fsync(fd); }
int FileSystem::lock(int fd) { return ::flock(fd, LOCK_EX | LOCK_NB); }
int FileSystem::close(int fd) { return ::close(fd); }
int FileSystem::rename(const Path& from, const Path& to) { return ::rename(from.c_str(), to.c_str()); }
int FileSystem::link(const Path& from, const Path& to) { return ::link(from.c_str(), to.c_str()); }
int FileSystem::unlink(const Path& path) { return ::unlink(path.c_str()); }
int FileSystem::mkdir(const Path& path) { return ::mkdir(path.c_str(), 0777); }
int FileSystem::rmdir(const Path& path) { return ::rmdir(path.c_str()); }
int FileSystem::status(const Path& path, struct stat& info) { return ::stat(path.c_str(), &info); }
int FileSystem::entry_status(const Path& path, struct stat& info) { return ::lstat(path.c_str(), &info); }

int FileSystem::list(const Path& folder, std::vector<std::string>& names) {
  DIR* const entries = ::opendir(folder.c_str());
  if (entries == nullptr) return -1;
  int error = 0;
  for (;;) {
    errno = 0;
    const dirent* const entry = ::readdir(entries);
    if (entry == nullptr) {
      error = errno;
      break;
    }
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  ::closedir(entries);
  errno = error;
  return error == 0 ? 0 : -1;
}

}  // namespace ct
