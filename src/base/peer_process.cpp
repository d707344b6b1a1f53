#include "base/peer_process.h"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>

#include "base/error.h"

namespace ct {
namespace {

/// Where the kernel has no pidfd: 'Z' and 'X' are processes that are dead, but not yet reaped.
bool dead_by_proc(pid_t pid) {
  if (kill(pid, 0) != 0 && errno == ESRCH) return true;
  std::ifstream file(str("/proc/", pid, "/stat"));
  std::string stat;
  std::getline(file, stat);
  const size_t name_end = stat.rfind(')');  // the name may hold anything
  return name_end != std::string::npos && name_end + 2 < stat.size() &&
         std::strchr("ZX", stat[name_end + 2]) != nullptr;
}

}  // namespace

PeerProcess::PeerProcess(pid_t pid) : pid_(pid), fd_(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))) {}

PeerProcess::PeerProcess(PeerProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)), fd_(std::exchange(other.fd_, -1)) {}

PeerProcess& PeerProcess::operator=(PeerProcess&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(fd_, other.fd_);
  return *this;
}

PeerProcess::~PeerProcess() {
  if (fd_ >= 0) close(fd_);
}

bool PeerProcess::dead() const {
  if (pid_ == 0) return false;
  pollfd fd{fd_, POLLIN, 0};
  return fd_ >= 0 ? poll(&fd, 1, 0) > 0 : dead_by_proc(pid_);
}

}  // namespace ct
