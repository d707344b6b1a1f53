// Another process of this host, by its number: is it still there?
#pragma once

#include <sys/types.h>

namespace ct {

/// Holds on to the process itself where the kernel can (pidfd), so that a number given out again does not mislead.
class PeerProcess {
 public:
  PeerProcess() = default;  // none: never dead
  explicit PeerProcess(pid_t pid);
  PeerProcess(PeerProcess&& other) noexcept;
  PeerProcess& operator=(PeerProcess&& other) noexcept;
  ~PeerProcess();

  bool dead() const;
  /// Readable, for poll, once the process is dead; -1 where the kernel has no such thing.
  int fd() const { return fd_; }

 private:
  pid_t pid_ = 0;
  int fd_ = -1;
};

}  // namespace ct
