// One end of a TCP connection that carries messages of known length and never blocks.
#pragma once

#include <netinet/in.h>

#include <chrono>
#include <cstddef>
#include <span>
#include <vector>

namespace ct {

/// An object of plain data as room for bytes that arrive, and as bytes to send.
template <class T>
std::span<std::byte> room_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}
template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

class Connection {
 public:
  Connection() = default;
  /// Takes a connected socket over.
  explicit Connection(int fd);
  Connection(Connection&& other) noexcept;
  Connection& operator=(Connection&& other) noexcept;
  ~Connection() { close(); }

  int fd() const { return fd_; }
  bool open() const { return fd_ >= 0; }
  bool sending() const { return open() && !out_.empty(); }
  /// Sends a message, behind those that are still to be sent.
  void send(std::span<const std::byte> message);
  /// Sends a message, or drops it while an earlier one is still to be sent: the other end does not read, and the next
  /// message will replace this one.
  void send_latest(std::span<const std::byte> message);
  void flush();
  /// Takes what has arrived; closes when the other end has.
  void receive();
  /// The next whole message, if there is one.
  bool next(std::span<std::byte> message);
  /// Waits until something has arrived or can be sent, and receives and sends it.
  void exchange(int milliseconds);
  /// Nothing more will be sent.
  void finish();
  void close();

 private:
  int fd_ = -1;
  std::vector<std::byte> in_, out_;
};

/// A socket of TCP over IPv4 that does not block; -1: errno.
int stream_socket();
/// A connection that is made within `patience`; not open: errno.
Connection connect_to(const sockaddr_in& at, std::chrono::milliseconds patience);

}  // namespace ct
