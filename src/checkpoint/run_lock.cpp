#include "checkpoint/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/host.h"
#include "base/paths.h"

namespace ct {
namespace {

constexpr std::string_view kHolder = "pid ";  // how the text of a lock begins

File open_lock(FileSystem& files, const Path& out) {
  make_folders(files, out);
  const Path path = out / kLockName;
  const PathKind kind = kind_of_entry(path);
  if (kind == PathKind::nothing || kind == PathKind::file) {
    File file(files, path, O_RDWR | O_CREAT | O_NOFOLLOW);
    char start[kHolder.size()] = {};
    const ssize_t n = pread(file.fd(), start, sizeof start, 0);
    if (n < 0) fail_io("read", path, errno);
    if (n == 0 || std::string_view(start, static_cast<size_t>(n)) == kHolder) return file;
  }
  fail(ExitCode::usage, in_quotes(path.native()),
       " is not the lock of a run, and a run would replace it: move it away, or give another --output");
}

/// `out` and the folders above it that are not there, the deepest first.
std::vector<Path> missing_folders(const Path& out) {
  std::vector<Path> missing;
  for (Path at = out; !at.empty() && !is_there(at); at = at.parent_path())
    if (at.has_filename()) missing.push_back(at);  // "a/b/" has the parent "a/b"
  return missing;
}

}  // namespace

RunLock::RunLock(FileSystem& files, const Path& out, std::vector<Path> made)
    : files_(files), out_(out), made_(std::move(made)), file_(open_lock(files, out)) {}

RunLock::~RunLock() {
  if (made_.empty() || !in_place()) return;
  files_.unlink(out_ / kLockName);
  for (const Path& folder : made_)
    if (files_.rmdir(folder) != 0) return;
}

RunLock::RunLock(FileSystem& files, const Path& out) : RunLock(files, out, missing_folders(out)) {
  int result;
  do {
    result = flock(file_.fd(), LOCK_EX | LOCK_NB);
  } while (result != 0 && errno == EINTR);
  if (result != 0 && errno == EWOULDBLOCK) {
    keep();  // it is the other's
    char text[300] = {};
    const ssize_t n = pread(file_.fd(), text, sizeof text - 1, 0);
    std::string holder(text, n > 0 ? static_cast<size_t>(n) : 0);
    while (!holder.empty() && holder.back() == '\n') holder.pop_back();
    fail(ExitCode::usage, "output folder ", in_quotes(out.native()), " is in use by ",
         holder.empty() ? "another run" : in_quotes(holder), ": wait for it, stop it or give another --output");
  }
  if (result != 0) {
    warning_ = str("output folder ", in_quotes(out.native()), " cannot be locked (", std::strerror(errno),
                   "): make sure that no second run uses it");
  }
  file_.truncate(0);
  file_.write(str(kHolder, getpid(), " on host ", host_name(), "\n"));
}

bool RunLock::in_place() const {
  struct stat held {
  }, there{};
  return fstat(file_.fd(), &held) == 0 && lstat((out_ / kLockName).c_str(), &there) == 0 &&
         held.st_dev == there.st_dev && held.st_ino == there.st_ino;
}

}  // namespace ct
