// One end of a TCP connection that carries messages of known length and never blocks.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace ct {

class WatchdogLink {
 public:
  WatchdogLink() = default;
  /// Takes a connected socket over.
  explicit WatchdogLink(int fd);
  WatchdogLink(WatchdogLink&& other) noexcept;
  WatchdogLink& operator=(WatchdogLink&& other) noexcept;
  ~WatchdogLink() { close(); }

  int fd() const { return fd_; }
  bool open() const { return fd_ >= 0; }
  bool sending() const { return open() && !out_.empty(); }
  /// Sends a message, or drops it while an earlier one is still on its way: the other end does not read, and the next
  /// will say more.
  void send(std::span<const std::byte> message);
  void flush();
  /// Takes what has arrived; closes when the other end has.
  void receive();
  /// The next whole message, if there is one.
  bool next(std::span<std::byte> message);
  /// Nothing more will be sent.
  void finish();
  void close();

 private:
  int fd_ = -1;
  std::vector<std::byte> in_, out_;
};

}  // namespace ct
