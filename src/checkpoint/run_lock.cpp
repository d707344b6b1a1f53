#include "checkpoint/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/host.h"

namespace ct {
RunLock::RunLock(FileSystem& files, const Path& out)
    : file_([&] {
        make_folders(files, out);
        return File(files, out / kLockName, O_RDWR | O_CREAT | O_NOFOLLOW);
      }()) {
  int result;
  do {
    result = flock(file_.fd(), LOCK_EX | LOCK_NB);
  } while (result != 0 && errno == EINTR);
  if (result != 0 && errno == EWOULDBLOCK) {
    char text[300] = {};
    const ssize_t n = pread(file_.fd(), text, sizeof text - 1, 0);
    std::string holder(text, n > 0 ? static_cast<size_t>(n) : 0);
    while (!holder.empty() && holder.back() == '\n') holder.pop_back();
    fail(ExitCode::usage, "output folder ", in_quotes(out.native()), " is in use by ",
         holder.empty() ? "another run" : in_quotes(holder), ": wait for it, stop it or give another --output");
  }
  if (result != 0) {
    warning_ = str("output folder ", in_quotes(out.native()), " cannot be locked (", std::strerror(errno),
                   "): take care that no second run uses it");
  }
  file_.truncate(0);
  file_.write(str("pid ", getpid(), " on host ", host_name(), "\n"));
}

}  // namespace ct
