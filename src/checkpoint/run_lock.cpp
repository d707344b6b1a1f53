#include "checkpoint/run_lock.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/new_folder.h"
#include "base/paths.h"

namespace ct {
namespace {

constexpr std::string_view kHolder = "pid ";  // how the text of a lock begins
constexpr size_t kLongestHolder = 300;

std::string start_of(const File& file, size_t bytes) {
  std::string text(bytes, '\0');
  text.resize(file.read_at(std::as_writable_bytes(std::span(text)), 0));
  return text;
}

File open_lock(FileSystem& files, const Path& out, const std::vector<Path>& made) try {
  make_folders(files, out);
  const Path path = out / kLockName;
  const PathKind kind = kind_of_entry(path);
  if (kind == PathKind::nothing || kind == PathKind::file) {
    File file(files, path, O_RDWR | O_CREAT | O_NOFOLLOW);
    const std::string start = start_of(file, kHolder.size());
    // A power failure may have cut its text off, or left zeros.
    if (kHolder.starts_with(start) || start.find_first_not_of('\0') == std::string::npos) return file;
  }
  fail(ExitCode::usage, in_quotes(path.native()),
       " is not the lock of a run, and a run would replace it: move it away, or give another --output");
} catch (const Error&) {
  remove_empty_folders(files, made);
  throw;
}

}  // namespace

std::optional<bool> is_in_use(const Path& out) {
  FileSystem files;
  bool unknown = false;
  for (const std::string_view name : {kLockName, kHolderName}) {
    if (kind_of_entry(out / name) != PathKind::file) continue;
    const std::string text = start_of(File(files, out / name, O_RDONLY | O_NOFOLLOW), kLongestHolder);
    const std::string line = text.substr(0, text.find('\n'));
    if (is_of_living_process(line)) return true;
    unknown |= !line.empty() && !is_of_dead_process(line);
  }
  return unknown ? std::nullopt : std::optional(false);
}

RunLock::RunLock(FileSystem& files, const Path& out, std::vector<Path> made)
    : files_(files), out_(out), made_(std::move(made)), file_(open_lock(files, out, made_)) {}

RunLock::~RunLock() {
  holder_.reset();
  if (locked_ && in_place())
    uninterrupted([&] { return files_.truncate(file_.fd(), 0); });  // its text means a live run
  if (made_.empty() || !in_place()) return;
  uninterrupted([&] { return files_.unlink(out_ / kLockName); });
  remove_empty_folders(files_, made_);
}

RunLock::RunLock(FileSystem& files, const Path& out, const Wait& wait) : RunLock(files, out, missing_folders(out)) {
  locked_ = uninterrupted([&] { return files_.lock(file_.fd()); }) == 0;
  const int error = errno;
  const auto in_use = [&](std::string_view remedy) {
    keep();  // it is the other's
    const std::string text = text_of_lock();
    fail(ExitCode::usage, "output folder ", in_quotes(out.native()), " is in use by ",
         text.empty() ? "another run" : in_quotes(name_in_lock(text)), ": wait for it, stop it or ", wait.otherwise,
         remedy);
  };
  if (!locked_ && error == EWOULDBLOCK) in_use("");
  if (!locked_ && error != ENOLCK && error != EOPNOTSUPP && error != ENOSYS) fail_io("lock", file_.path(), error);
  if (locked_) {
    name_holder();
  } else {
    wait.say(str(in_quotes(out.native()), " is on a file system without locks (", std::strerror(error),
                 "): ", kHolderName, " keeps other runs out instead"));
  }
  // Each of two names itself before it looks for the other.
  if (!locked_ || is_there(out / kHolderName)) {
    std::vector<Path> made = std::exchange(made_, {});  // in case they are another's
    holder_.emplace(files_, out / kHolderName, wait);
    made_ = std::move(made);
  }
  if (!locked_ && is_of_living_process(text_of_lock()))
    in_use(str("; if it is no run, remove ", in_quotes((out / kLockName).native())));
}

void RunLock::name_holder() {
  file_.truncate(0);
  const std::string text = lock_text() + "\n";
  for (auto rest = std::as_bytes(std::span(text)); !rest.empty();) {
    const ssize_t written = uninterrupted([&] { return files_.write(file_.fd(), rest); });
    if (written >= 0) {
      rest = rest.subspan(static_cast<size_t>(written));
      continue;
    }
    const int error = errno;
    if (error != ENOSPC && error != EDQUOT) fail_io("write", file_.path(), error);
    return file_.truncate(0);  // half a name would be another's
  }
}

std::string RunLock::text_of_lock() const {
  const std::string start = start_of(file_, kLongestHolder);
  return start.substr(0, start.find('\n'));
}

bool RunLock::in_place() const {
  return is_at(files_, file_.fd(), out_ / kLockName) && (!holder_ || holder_->in_place());
}

std::string RunLock::taken_by() const { return holder_ && !holder_->in_place() ? holder_->holder() : ""; }

}  // namespace ct
