// Detects the death of another process of this host.
#pragma once

#include <sys/types.h>

namespace ct {

/// Uses a pidfd if the kernel supports it, so that a reused process number is not mistaken for the process.
class PeerProcess {
 public:
  PeerProcess() = default;  // none: never dead
  explicit PeerProcess(pid_t pid);
  PeerProcess(PeerProcess&& other) noexcept;
  PeerProcess& operator=(PeerProcess&& other) noexcept;
  ~PeerProcess();

  bool dead() const;
  /// A descriptor for poll that becomes readable when the process is dead; -1 if the kernel has no pidfd.
  int fd() const { return fd_; }

 private:
  pid_t pid_ = 0;
  int fd_ = -1;
};

}  // namespace ct
