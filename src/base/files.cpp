#include "base/files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/paths.h"
#include "base/utf8.h"

namespace ct {

int FileSystem::open(const Path& path, int flags, mode_t mode) { return ::open(path.c_str(), flags, mode); }
ssize_t FileSystem::write(int fd, std::span<const std::byte> bytes) { return ::write(fd, bytes.data(), bytes.size()); }
ssize_t FileSystem::write_at(int fd, std::span<const std::byte> bytes, uint64_t offset) {
  return ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
}
int FileSystem::truncate(int fd, uint64_t bytes) { return ::ftruncate(fd, static_cast<off_t>(bytes)); }
int FileSystem::fsync(int fd) { return ::fsync(fd); }
int FileSystem::close(int fd) { return ::close(fd); }
int FileSystem::rename(const Path& from, const Path& to) { return ::rename(from.c_str(), to.c_str()); }
int FileSystem::link(const Path& from, const Path& to) { return ::link(from.c_str(), to.c_str()); }
int FileSystem::unlink(const Path& path) { return ::unlink(path.c_str()); }
int FileSystem::mkdir(const Path& path) { return ::mkdir(path.c_str(), 0777); }
int FileSystem::rmdir(const Path& path) { return ::rmdir(path.c_str()); }

namespace {

std::string_view remedy_for(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return "free some space or choose another folder";
    case EFBIG:
      return "raise the limit of a file's size (ulimit -f) or choose another file system";
    case EACCES:
    case EPERM:
    case EROFS:
      return "check its permissions and its folder's, or choose another";
    case ENOENT:
    case ENOTDIR:
      return "check the path";
    case ELOOP:
      return "its symbolic links form a loop: correct them or give another path";
    case ENAMETOOLONG:
      return "give a shorter path";
    case EMFILE:
    case ENFILE:
      return "raise the limit of open files (ulimit -n)";
    case ENOMEM:
      return "raise the limit of memory (ulimit -v) or give the job more";
    case EIO:
    case ESTALE:
      return "the disk or the network file system is failing";
    default:
      return "check the path and the file system";
  }
}

}  // namespace

void fail_io(std::string_view what, const Path& path, int error, ExitCode code) {
  const bool memory = error == ENOMEM;
  fail(memory ? ExitCode::memory : code, memory ? "out of memory: " : "", "cannot ", what, " ",
       in_quotes(path.native()), ": ", std::strerror(error), ": ", remedy_for(error));
}

std::string in_quotes(std::string_view text) {
  constexpr size_t kLongest = 200;
  if (text.size() <= kLongest) return "'" + printable(text) + "'";
  size_t end = kLongest;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;  // not within a character
  return "'" + printable(text.substr(0, end)) + "...'";
}

// ---- File

File::File(FileSystem& files, const Path& path, int flags, mode_t mode) : files_(&files), path_(path) {
  do {
    fd_ = files.open(path, flags | O_CLOEXEC, mode);
  } while (fd_ < 0 && errno == EINTR);
  if (fd_ < 0) fail_io(flags & O_CREAT ? "create" : "open", path, errno);
}

File::File(File&& other) noexcept
    : files_(other.files_), path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

File::~File() {
  if (fd_ >= 0) files_->close(fd_);
}

namespace {

/// Calls write(part) until all is written; it returns what write(2) does.
template <class Write>
void write_all(const Path& path, std::span<const std::byte> bytes, Write write) {
  constexpr size_t kMost = size_t{1} << 30;  // Linux writes at most 2^31 - 4096 at once; say so by ourselves
  while (!bytes.empty()) {
    const ssize_t n = write(bytes.first(std::min(bytes.size(), kMost)));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail_io("write", path, n < 0 ? errno : EIO);
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
}

}  // namespace

void File::write(std::span<const std::byte> bytes) {
  write_all(path_, bytes, [&](std::span<const std::byte> part) { return files_->write(fd_, part); });
}

void File::write_at(std::span<const std::byte> bytes, uint64_t offset) {
  write_all(path_, bytes, [&](std::span<const std::byte> part) {
    const ssize_t n = files_->write_at(fd_, part, offset);
    if (n > 0) offset += static_cast<uint64_t>(n);
    return n;
  });
}

void File::write(std::string_view text) { write(std::as_bytes(std::span(text.data(), text.size()))); }

void File::write_at(std::string_view text, uint64_t offset) {
  write_at(std::as_bytes(std::span(text.data(), text.size())), offset);
}

void File::truncate(uint64_t bytes) {
  if (files_->truncate(fd_, bytes) != 0) fail_io("cut", path_, errno);
}

bool File::removed() const {
  struct stat info {};
  return fstat(fd_, &info) == 0 && info.st_nlink == 0;
}

void File::sync() {
  // Not repeated after a failure: the kernel may have dropped the pages it could not write and report success next.
  if (files_->fsync(fd_) != 0) fail_io("sync", path_, errno);
}

void File::close() {
  const int fd = std::exchange(fd_, -1);
  if (fd >= 0 && files_->close(fd) != 0 && errno != EINTR) fail_io("close", path_, errno);
}

// ---- reading

namespace {

/// A regular file opened for reading, without waiting for a pipe to open.
class OpenedFile {
 public:
  OpenedFile(const Path& path, MappedFile::Links links, ExitCode code) : path_(path), code_(code) {
    const int nofollow = links == MappedFile::Links::refuse ? O_NOFOLLOW : 0;
    do {
      fd_ = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | nofollow);
    } while (fd_ < 0 && errno == EINTR);
    if (fd_ < 0) fail_io("open", path, errno, code);
    const bool known = fstat(fd_, &info_) == 0;
    if (known && S_ISREG(info_.st_mode)) return;
    const int error = errno;
    ::close(fd_);
    if (!known) fail_io("read", path, error, code);
    fail(code, "cannot read ", in_quotes(path.native()), ": it is not a regular file: give one that is");
  }
  OpenedFile(const OpenedFile&) = delete;
  OpenedFile& operator=(const OpenedFile&) = delete;
  ~OpenedFile() { ::close(fd_); }

  int fd() const { return fd_; }
  const struct stat& info() const { return info_; }
  uint64_t size() const { return static_cast<uint64_t>(info_.st_size); }
  /// The next bytes; fewer than asked for at the file's end.
  size_t read(std::span<std::byte> out) {
    size_t done = 0;
    while (done < out.size()) {
      const ssize_t n = ::read(fd_, out.data() + done, out.size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail_io("read", path_, errno, code_);
      if (n == 0) break;
      done += static_cast<size_t>(n);
    }
    return done;
  }

 private:
  Path path_;
  ExitCode code_;
  int fd_;
  struct stat info_ {};
};

}  // namespace

MappedFile::MappedFile(const Path& path, Links links, ExitCode code) : path_(path) {
  const OpenedFile file(path, links, code);
  opened_ = file.info();
  if (file.size() == 0) return;
  void* data = mmap(nullptr, file.size(), PROT_READ, MAP_PRIVATE, file.fd(), 0);
  if (data == MAP_FAILED) fail_io("map", path, errno, code);
  data_ = static_cast<const std::byte*>(data);
  size_ = file.size();
  try {
    guard_ = std::make_unique<GuardedRegion>(bytes());
  } catch (...) {
    munmap(data, size_);
    throw;
  }
}

MappedFile::MappedFile(MappedFile&& other) noexcept { *this = std::move(other); }

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(opened_, other.opened_);
  std::swap(guard_, other.guard_);
  return *this;
}

MappedFile::~MappedFile() {
  guard_.reset();
  if (data_) munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::read_ahead(std::span<const std::byte> part) const {
  static const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(part.data()) / page * page;
  const auto end = reinterpret_cast<uintptr_t>(part.data()) + part.size();
  // A hint: where it is not taken, the read itself waits.
  if (!part.empty()) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_WILLNEED);
}

void MappedFile::require_unchanged(ExitCode code) const {
  struct stat now {};
  const bool here = stat(path_.c_str(), &now) == 0 && now.st_dev == opened_.st_dev && now.st_ino == opened_.st_ino;
  const auto same_time = [](const timespec& a, const timespec& b) {
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
  };
  if (here && (now.st_size != opened_.st_size || !same_time(now.st_mtim, opened_.st_mtim)))
    fail(code, in_quotes(path_.native()), ": changed while it was in use; restore the file and start again");
  if (was_cut())
    fail(
        code, in_quotes(path_.native()),
        ": could not be read to its end: it was truncated while it was in use, or its disk fails; restore the file and "
        "start again");
}

std::string read_file(const Path& path, uint64_t limit, MappedFile::Links links, ExitCode code) {
  OpenedFile file(path, links, code);
  if (file.size() > limit) {
    fail(code, "cannot read ", in_quotes(path.native()), ": it has ", file.size(), " bytes, more than the ", limit,
         " that such a file can have");
  }
  std::string text(file.size(), '\0');
  text.resize(file.read(std::as_writable_bytes(std::span(text))));
  return text;
}

std::vector<std::string> list_folder(const Path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    names.push_back(it->path().filename().native());
  }
  if (error && error != std::errc::no_such_file_or_directory) fail_io("list", folder, error.value());
  std::sort(names.begin(), names.end());
  return names;
}

// ---- changing

void sync_folder(FileSystem& files, const Path& path) {
  File folder(files, path.empty() ? Path(".") : path, O_RDONLY | O_DIRECTORY);
  // Some network and FUSE file systems cannot sync a folder and say so with EINVAL: there is nothing more to ask for.
  if (files.fsync(folder.fd()) != 0 && errno != EINVAL && errno != ENOTSUP) fail_io("sync", path, errno);
}

void rename_file(FileSystem& files, const Path& from, const Path& to) {
  if (files.rename(from, to) != 0) fail_io("rename " + in_quotes(from.native()) + " to", to, errno);
}

void remove_file(FileSystem& files, const Path& path) {
  if (files.unlink(path) != 0 && errno != ENOENT) fail_io("remove", path, errno);
}

void make_folders(FileSystem& files, const Path& path) {
  if (path.empty() || is_folder(path)) return;
  if (path.has_parent_path() && path.parent_path() != path) make_folders(files, path.parent_path());
  if (path.filename().empty()) return;  // "a/b/" after "a/b"
  if (files.mkdir(path) == 0) return;
  const int error = errno;
  // Another process may have made it meanwhile.
  if (error != EEXIST || !is_folder(path)) fail_io("create the folder", path, error);
}

bool remove_known(FileSystem& files, const Path& folder, const std::function<bool(const std::string&)>& is_ours) {
  for (const std::string& name : list_folder(folder)) {
    if (is_ours(name) && kind_of_entry(folder / name) != PathKind::folder) remove_file(files, folder / name);
  }
  if (files.rmdir(folder) == 0 || errno == ENOENT) return true;
  if (errno == ENOTEMPTY || errno == EEXIST) return false;
  fail_io("remove", folder, errno);
}

Path temporary_of(const Path& path) {
  return path.parent_path() / (std::string(kTemporaryPrefix) + path.filename().native());
}

Path replaced_by_writing(const Path& path) {
  constexpr int kMostLinks = 40;  // as the kernel follows
  const PathKind kind = kind_of(path);
  if (kind == PathKind::folder || kind == PathKind::other)
    fail(ExitCode::io, "cannot replace ", in_quotes(path.native()), ": it is ",
         kind == PathKind::folder ? "a folder" : "a device, pipe or socket", ": give the path of a file");
  Path at = path;
  for (int links = 0; kind_of_entry(at) == PathKind::link; ++links) {
    std::error_code error;
    const Path target = std::filesystem::read_symlink(at, error);
    if (error || links == kMostLinks) fail_io("follow the link", at, error ? error.value() : ELOOP);
    at = target.is_absolute() ? target : at.parent_path() / target;
  }
  // A link of /proc to a file without a name reads like a path, but leads elsewhere.
  if (kind == PathKind::file && !same_place(at, path))
    fail(ExitCode::io, "cannot replace what ", in_quotes(path.native()), " leads to: it has no name: give a path");
  return at;
}

namespace {

void write_through(FileSystem& files, const Path& path, const std::function<void(File&)>& write) {
  File file(files, path, O_WRONLY | O_NOCTTY);
  write(file);
  file.close();
}

}  // namespace

void write_file_atomic(FileSystem& files, const Path& path, const std::function<void(File&)>& write) {
  if (kind_of(path) == PathKind::other) return write_through(files, path, write);
  const Path target = replaced_by_writing(path), temporary = temporary_of(target);
  remove_file(files, temporary);  // of a run that was killed here
  try {
    File file(files, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW);
    write(file);
    file.sync();
    file.close();
    rename_file(files, temporary, target);
  } catch (const Error&) {
    files.unlink(temporary);  // a full disk should not stay full because of us
    throw;
  }
  sync_folder(files, target.parent_path());
}

void write_file_atomic(FileSystem& files, const Path& path, std::string_view text) {
  write_file_atomic(files, path, [text](File& file) { file.write(text); });
}

void link_or_copy(FileSystem& files, const Path& from, const Path& to) {
  const Path source = replaced_by_writing(from), target = replaced_by_writing(to), temporary = temporary_of(target);
  remove_file(files, temporary);
  if (files.link(source, temporary) != 0) {  // another disk, or a file system without links
    OpenedFile contents(source, MappedFile::Links::follow, ExitCode::io);
    std::vector<std::byte> block(size_t{1} << 20);
    return write_file_atomic(files, target, [&](File& file) {
      uint64_t copied = 0;
      while (const size_t n = contents.read(block)) {
        file.write(std::span(block).first(n));
        copied += n;
      }
      if (copied < contents.size())
        fail(ExitCode::io, "cannot copy ", in_quotes(source.native()), ": it was truncated while it was read");
    });
  }
  rename_file(files, temporary, target);
  remove_file(files, temporary);  // it is left where both were names of one file already
  sync_folder(files, target.parent_path());
}

// ---- LineFile

LineFile::LineFile(FileSystem& files, const Path& path) : file_(files, path, O_RDWR | O_CREAT | O_APPEND), size_(0) {
  struct stat info {};
  if (fstat(file_.fd(), &info) != 0) fail_io("read", path, errno);
  if (!S_ISREG(info.st_mode)) fail(ExitCode::io, "cannot append to ", in_quotes(path.native()), ": not a regular file");
  const auto end = static_cast<uint64_t>(info.st_size);
  // Backwards from the end to the last newline.
  char block[4096];
  for (uint64_t stop = end; stop > 0 && size_ == 0;) {
    const uint64_t start = stop > sizeof block ? stop - sizeof block : 0;
    const ssize_t n = pread(file_.fd(), block, stop - start, static_cast<off_t>(start));
    if (n != static_cast<ssize_t>(stop - start)) fail_io("read", path, n < 0 ? errno : EIO);
    const size_t newline = std::string_view(block, stop - start).rfind('\n');
    if (newline != std::string_view::npos) size_ = start + newline + 1;
    stop = start;
  }
  if (size_ != end) file_.truncate(size_);
}

void LineFile::append(std::string_view line) {
  std::string text(line);
  text += '\n';
  try {
    file_.write(text);
  } catch (const Error&) {
    try {
      file_.truncate(size_);
    } catch (const Error&) {  // the first error says more
    }
    throw;
  }
  size_ += text.size();
}

}  // namespace ct
