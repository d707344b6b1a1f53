#include "comm/host/shared_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <filesystem>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace ct {
namespace {

uint64_t free_space(const std::string& folder) {
  struct statvfs fs {};
  return statvfs(folder.c_str(), &fs) == 0 ? uint64_t{fs.f_bavail} * fs.f_frsize : 0;
}

constexpr std::string_view kPrefix = "cifar-train-", kUnique = "XXXXXX";

/// A process locks its file until the name is removed, so one that can be locked was left by a killed process.
bool lock(int fd) { return flock(fd, LOCK_EX | LOCK_NB) == 0; }

/// Removes this user's files that killed processes left, which hold memory in /dev/shm.
void remove_left_files(const std::string& folder) {
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().native();
    if (!name.starts_with(kPrefix) || name.size() != kPrefix.size() + kUnique.size()) continue;
    const int fd = ::open(entry->path().c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) continue;
    struct stat st {};
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() && lock(fd)) unlink(entry->path().c_str());
    close(fd);
  }
}

/// A new file, locked; -1: none can be created.
int create_locked(std::string& path) {
  for (int attempt = 0; attempt < 10; ++attempt) {
    std::string name = path;
    const int fd = mkostemp(name.data(), O_CLOEXEC);
    if (fd < 0) return -1;
    struct stat st {};
    if (lock(fd) && fstat(fd, &st) == 0 && st.st_nlink > 0) {
      path = std::move(name);
      return fd;
    }
    close(fd);  // another process took it for a left one, in the moment before it was locked
  }
  return -1;
}

}  // namespace

std::vector<std::string> shared_file_folders() {
  const char* tmp = getenv("TMPDIR");
  return {"/dev/shm", tmp != nullptr && *tmp != '\0' ? tmp : "/tmp"};
}

std::optional<SharedFile> SharedFile::create(const std::string& folder, size_t bytes) {
  remove_left_files(folder);
  if (free_space(folder) < bytes) return std::nullopt;
  std::string path = str(folder, "/", kPrefix, kUnique);
  const int fd = create_locked(path);
  if (fd < 0) return std::nullopt;
  if (ftruncate(fd, static_cast<off_t>(bytes)) != 0) {
    close(fd);
    unlink(path.c_str());
    return std::nullopt;
  }
  return map(std::move(path), fd, bytes, true);
}

std::optional<SharedFile> SharedFile::open(const std::string& path, size_t bytes) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return std::nullopt;
  struct stat st {};
  if (fstat(fd, &st) != 0 || st.st_size != static_cast<off_t>(bytes)) {
    close(fd);
    return std::nullopt;
  }
  return map(path, fd, bytes, false);
}

std::optional<SharedFile> SharedFile::map(std::string path, int fd, size_t bytes, bool named) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) {
    close(fd);
    if (named) unlink(path.c_str());
    return std::nullopt;
  }
  return SharedFile(std::move(path), fd, static_cast<std::byte*>(data), bytes, named);
}

SharedFile::SharedFile(SharedFile&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(other.bytes_),
      named_(std::exchange(other.named_, false)) {}

SharedFile& SharedFile::operator=(SharedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(named_, other.named_);
  return *this;
}

SharedFile::~SharedFile() {
  remove_name();
  if (data_ != nullptr) munmap(data_, bytes_);
  if (fd_ >= 0) close(fd_);
}

bool SharedFile::reserve(size_t offset, size_t bytes) {
  return posix_fallocate(fd_, static_cast<off_t>(offset), static_cast<off_t>(bytes)) == 0;
}

void SharedFile::remove_name() {
  if (std::exchange(named_, false)) unlink(path_.c_str());
}

void fail_no_shared_memory(size_t bytes) {
  const std::string need = str("the ranks of this host need ", (bytes >> 20) + 1, " MB of shared memory");
  struct rlimit limit {};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < bytes)
    fail(ExitCode::memory, need, " in one file, but the limit of a file's size (ulimit -f) is ", limit.rlim_cur >> 10,
         " kB: raise it, or start the ranks as threads of one process (--ranks)");
  std::string free;
  for (const std::string& folder : shared_file_folders()) {
    free += str(free.empty() ? "" : " and ", folder, " has ", free_space(folder) >> 20, " MB free");
  }
  fail(ExitCode::memory, need, ", but ", free,
       ": enlarge /dev/shm (docker: --shm-size) or point TMPDIR at a folder with room");
}

}  // namespace ct
