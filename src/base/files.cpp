#include "base/files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/paths.h"
#include "base/utf8.h"

namespace ct {

namespace {

std::string_view remedy_for(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return "free some space, or remove files if their number is at its limit (df -i), or choose another folder";
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
    case EISDIR:
      return "move it away, or give another path";
    case ENAMETOOLONG:
      return "give a shorter path";
    case EMFILE:
    case ENFILE:
      return "raise the limit of open files (ulimit -n)";
    case ENOMEM:
      return "raise the limit of memory (ulimit -v, -d) or give the job more";
    case EMLINK:
      return "the folder has as many folders as its file system allows: remove some, or choose another folder";
    case EXDEV:
      return "it and its folder are on different file systems: choose a folder that is not mounted apart";
    case EBUSY:
    case EAGAIN:
      return "something else uses it: wait and start again, or choose another";
    case EINVAL:
    case ENODEV:
    case ENOSYS:
    case ENOTSUP:
      return "its file system or device cannot do this: choose another";
    case EIO:
    case ESTALE:
      return "the disk or the network file system is failing: have it repaired, or choose another one";
    default:
      return "check the path and the file system";
  }
}

}  // namespace

bool is_of_system(int error) {
  return error == EIO || error == ESTALE || error == EMFILE || error == ENFILE || error == ENOMEM;
}

void fail_io(std::string_view what, const Path& path, int error, ExitCode code) {
  const bool memory = error == ENOMEM;
  if (is_of_system(error)) code = ExitCode::io;
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
  fd_ = uninterrupted([&] { return files.open(path, flags | O_CLOEXEC, mode); });
  if (fd_ < 0) fail_io(flags & O_CREAT ? "create" : "open", path, errno);
}

File::File(File&& other) noexcept
    : files_(other.files_), path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

File::~File() {
  if (fd_ >= 0) files_->close(fd_);
}

namespace {

/// Calls read(rest) until `bytes` are full or the file ends; it returns what read(2) does.
template <class Read>
size_t read_all(const Path& path, std::span<std::byte> bytes, ExitCode code, Read read) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = uninterrupted([&] { return read(bytes.subspan(done), done); });
    if (n < 0) fail_io("read", path, errno, code);
    if (n == 0) break;
    done += static_cast<size_t>(n);
  }
  return done;
}

/// Calls write(part) until all is written; it returns what write(2) does.
template <class Write>
void write_all(const Path& path, std::span<const std::byte> bytes, Write write) {
  constexpr size_t kMost = size_t{1} << 30;  // Linux writes at most 2^31 - 4096 at once; say so by ourselves
  while (!bytes.empty()) {
    const ssize_t n = uninterrupted([&] { return write(bytes.first(std::min(bytes.size(), kMost))); });
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

size_t File::read_at(std::span<std::byte> bytes, uint64_t offset) const {
  return read_all(path_, bytes, ExitCode::io,
                  [&](std::span<std::byte> rest, size_t done) { return files_->read_at(fd_, rest, offset + done); });
}

void File::truncate(uint64_t bytes) {
  if (uninterrupted([&] { return files_->truncate(fd_, bytes); }) != 0) fail_io("cut", path_, errno);
}

bool File::removed() const {
  struct stat info {};
  return fstat(fd_, &info) == 0 && info.st_nlink == 0;
}

void File::sync() {
  // Not repeated after a failure: the kernel may have dropped the pages it could not write and report success next.
  if (uninterrupted([&] { return files_->fsync(fd_); }) != 0) fail_io("sync", path_, errno);
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
    fd_ = uninterrupted([&] { return files_.open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | nofollow, 0); });
    if (fd_ < 0 && errno == ELOOP && nofollow != 0)
      fail(code, "cannot open ", in_quotes(path.native()), ": it is a symbolic link: put the file in its place");
    // Permission is no fault of a checkpoint, which somebody might delete for it.
    if (fd_ < 0) fail_io("open", path, errno, code == ExitCode::checkpoint && errno == EACCES ? ExitCode::io : code);
    const bool known = fstat(fd_, &info_) == 0;
    if (known && S_ISREG(info_.st_mode)) return;
    const int error = errno;
    files_.close(fd_);
    if (!known) fail_io("read", path, error, code);
    fail(code, "cannot read ", in_quotes(path.native()), ": it is not a regular file: give one that is");
  }
  OpenedFile(const OpenedFile&) = delete;
  OpenedFile& operator=(const OpenedFile&) = delete;
  ~OpenedFile() { files_.close(fd_); }

  const struct stat& info() const { return info_; }
  uint64_t size() const { return static_cast<uint64_t>(info_.st_size); }
  void* map() { return files_.map(fd_, size()); }
  /// The next bytes; fewer than asked for at the file's end.
  size_t read(std::span<std::byte> out) {
    return read_all(path_, out, code_, [&](std::span<std::byte> rest, size_t) { return files_.read(fd_, rest); });
  }

 private:
  FileSystem files_;
  Path path_;
  ExitCode code_;
  int fd_;
  struct stat info_ {};
};

}  // namespace

MappedFile::MappedFile(const Path& path, Links links, ExitCode code) : path_(path) {
  OpenedFile file(path, links, code);
  opened_ = file.info();
  if (file.size() == 0) return;
  void* const data = file.map();
  if (data == nullptr) fail_io("map", path, errno, code);
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
  const bool here =
      FileSystem().status(path_, now) == 0 && now.st_dev == opened_.st_dev && now.st_ino == opened_.st_ino;
  const auto same_time = [](const timespec& a, const timespec& b) {
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
  };
  if (here && now.st_size != opened_.st_size)
    fail(code, in_quotes(path_.native()), ": changed while it was in use; restore the file and start again");
  if (here && !same_time(now.st_mtim, opened_.st_mtim))
    fail(code, in_quotes(path_.native()),
         ": its time of modification changed while it was in use; start again if its content is the same, otherwise "
         "restore the file first");
  if (here && was_cut())
    fail(ExitCode::io, in_quotes(path_.native()),
         ": could not be read to its end: the disk or the network file system is failing; start again once it can be "
         "read, or restore the file");
  require_whole(code);
}

void MappedFile::require_whole(ExitCode code) const {
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
         " that such a file can have: move it away, or give another");
  }
  std::string text(file.size(), '\0');
  text.resize(file.read(std::as_writable_bytes(std::span(text))));
  return text;
}

std::vector<std::string> list_folder(const Path& folder) {
  std::vector<std::string> names;
  if (uninterrupted([&] { return names.clear(), FileSystem().list(folder, names); }) != 0 && errno != ENOENT)
    fail_io("list", folder, errno);
  std::sort(names.begin(), names.end());
  return names;
}

// ---- changing

void sync_folder(FileSystem& files, const Path& path) {
  const Path folder = path.empty() ? Path(".") : path;
  const int fd = uninterrupted([&] { return files.open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0); });
  if (fd < 0 && errno == EACCES) return;  // it may be written, but not opened
  if (fd < 0) fail_io("open", folder, errno);
  // Some network and FUSE file systems cannot sync a folder and say so: there is nothing more to ask for.
  const int result = uninterrupted([&] { return files.fsync(fd); }), error = errno;
  files.close(fd);
  if (result != 0 && error != EINVAL && error != ENOTSUP && error != ENOSYS) fail_io("sync", folder, error);
}

void rename_file(FileSystem& files, const Path& from, const Path& to) {
  struct stat moved {
  }, there{};
  const bool known = uninterrupted([&] { return files.entry_status(from, moved); }) == 0;
  if (uninterrupted([&] { return files.rename(from, to); }) == 0) return;
  const int error = errno;
  // A network file system whose reply was lost asks a second time, and finds the first one done.
  const bool done = error == ENOENT && known && uninterrupted([&] { return files.entry_status(to, there); }) == 0 &&
                    there.st_dev == moved.st_dev && there.st_ino == moved.st_ino;
  if (!done) fail_io("rename " + in_quotes(from.native()) + " to", to, error);
}

void remove_file(FileSystem& files, const Path& path) {
  if (uninterrupted([&] { return files.unlink(path); }) != 0 && errno != ENOENT) fail_io("remove", path, errno);
}

void make_folders(FileSystem& files, const Path& path) {
  if (path.empty() || is_folder(path)) return;
  if (path.has_parent_path() && path.parent_path() != path) make_folders(files, path.parent_path());
  if (path.filename().empty()) return;  // "a/b/" after "a/b"
  if (uninterrupted([&] { return files.mkdir(path); }) == 0) return sync_folder(files, path.parent_path());
  const int error = errno;
  if (error == EEXIST && is_folder(path)) return;  // another process has made it meanwhile
  if (error == EEXIST)
    fail(ExitCode::io, in_quotes(path.native()), " is no folder: move it away, or give another folder");
  fail_io("create the folder", path, error);
}

bool remove_known(FileSystem& files, const Path& folder, const std::function<bool(const std::string&)>& is_ours) {
  if (kind_of_entry(folder) == PathKind::link) {
    remove_file(files, folder);
    return true;
  }
  for (const std::string& name : list_folder(folder)) {
    if (is_ours(name) && kind_of_entry(folder / name) != PathKind::folder) remove_file(files, folder / name);
  }
  if (uninterrupted([&] { return files.rmdir(folder); }) == 0 || errno == ENOENT) return true;
  if (errno == ENOTEMPTY || errno == EEXIST) return false;
  fail_io("remove", folder, errno);
}

bool is_at(FileSystem& files, int fd, const Path& path) {
  struct stat opened {
  }, there{};
  const auto ask = [&] { return uninterrupted([&] { return files.entry_status(path, there); }) == 0; };
  // Asked again where it fails: the ESTALE of a network file system passes.
  return fstat(fd, &opened) == 0 && (ask() || (errno != ENOENT && ask())) && opened.st_dev == there.st_dev &&
         opened.st_ino == there.st_ino;
}

Path temporary_of(const Path& path) {
  const std::string name = path.filename().native().substr(0, NAME_MAX - kTemporaryPrefix.size());
  return path.parent_path() / (std::string(kTemporaryPrefix) + name);
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

/// A new file `temporary`, which this process has locked until it closes it, in the place of one that a killed process
/// left. Who removes one holds its lock too, so that nobody renames the file of another. Where there are no locks, all
/// are taken for left ones.
File new_temporary(FileSystem& files, const Path& temporary, const Path& target) {
  const auto busy = [&] {
    fail(ExitCode::io, "cannot write ", in_quotes(target.native()),
         ": another process is writing it: wait for it, or give another path");
  };
  const auto lock = [&](int fd) {
    if (::flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) busy();
  };
  const int left = files.open(temporary, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0);
  const int error = left < 0 ? errno : 0;
  const bool gone = error == ENOENT;
  if (error == EACCES || error == EPERM)
    fail(ExitCode::io, "cannot write ", in_quotes(target.native()), ": ", in_quotes(temporary.native()),
         " is another user's, who may be writing it: wait, remove it, or give another path");
  const auto close = [&files](const int* fd) {
    if (*fd >= 0) files.close(*fd);
  };
  const std::unique_ptr<const int, decltype(close)> closes(&left, close);
  if (left >= 0) lock(left);
  if (left >= 0 && !is_at(files, left, temporary)) busy();  // it was renamed meanwhile
  if (!gone) remove_file(files, temporary);
  File file(files, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW);
  lock(file.fd());
  errno = 0;
  if (!is_at(files, file.fd(), temporary)) {
    const int unseen = errno;
    if (unseen == 0 || unseen == ENOENT) busy();
    files.unlink(temporary);  // it is there for all we know, and ours
    fail_io("look at", temporary, unseen);
  }
  return file;
}

/// Is it a standard stream that was closed, whose number leads to /dev/null (base/standard_streams.h)?
bool is_closed_stream(const Path& path) {
  const std::string name = path.lexically_normal();
  for (const auto& [fd, word] : {std::pair{STDOUT_FILENO, "stdout"}, {STDERR_FILENO, "stderr"}})
    if (name == str("/dev/", word) || name == str("/dev/fd/", fd) || name == str("/proc/self/fd/", fd))
      return (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY;
  return false;
}

void write_through(FileSystem& files, const Path& path, const std::function<void(File&)>& write) {
  if (is_closed_stream(path))
    fail(ExitCode::io, in_quotes(path.native()), " is closed: redirect it to a file, a pipe or /dev/null");
  File file(files, path, O_WRONLY | O_NOCTTY);
  write(file);
  file.close();
}

}  // namespace

void write_file_atomic(FileSystem& files, const Path& path, const std::function<void(File&)>& write) {
  if (kind_of(path) == PathKind::other) return write_through(files, path, write);
  const Path target = replaced_by_writing(path), temporary = temporary_of(target);
  File file = new_temporary(files, temporary, target);
  try {
    write(file);
    file.sync();
    rename_file(files, temporary, target);
    file.close();
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
  if (uninterrupted([&] { return files.link(source, temporary); }) !=
      0) {  // another disk, or a file system without links
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

LineFile::LineFile(FileSystem& files, const Path& path)
    : files_(files), file_(files, path, O_RDWR | O_CREAT | O_APPEND), size_(0) {
  struct stat info {};
  if (fstat(file_.fd(), &info) != 0) fail_io("read", path, errno);
  if (!S_ISREG(info.st_mode)) fail(ExitCode::io, "cannot append to ", in_quotes(path.native()), ": not a regular file");
  const auto end = static_cast<uint64_t>(info.st_size);
  // Backwards from the end to the last newline.
  char block[4096];
  for (uint64_t stop = end; stop > 0 && size_ == 0;) {
    const uint64_t start = stop > sizeof block ? stop - sizeof block : 0;
    const size_t n = file_.read_at(std::as_writable_bytes(std::span(block)).first(stop - start), start);
    if (n != stop - start) fail_io("read", path, EIO);
    const size_t newline = std::string_view(block, stop - start).rfind('\n');
    if (newline != std::string_view::npos) size_ = start + newline + 1;
    stop = start;
  }
  if (size_ != end) file_.truncate(size_);
  if (size_ == 0) sync_folder(files, path.parent_path());
}

bool LineFile::in_place() const {
  struct stat opened {
  }, there{};
  if (uninterrupted([&] { return files_.status(file_.path(), there); }) != 0) return errno != ENOENT;
  return fstat(file_.fd(), &opened) != 0 || (opened.st_dev == there.st_dev && opened.st_ino == there.st_ino);
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
