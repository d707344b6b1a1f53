// One end of a non-blocking TCP connection for messages of known length.
#pragma once

#include <netinet/in.h>

#include <chrono>
#include <cstddef>
#include <span>
#include <vector>

namespace ct {

/// The bytes of a plain object, to receive into and to send.
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
  /// Takes ownership of a connected socket.
  explicit Connection(int fd);
  Connection(Connection&& other) noexcept;
  Connection& operator=(Connection&& other) noexcept;
  ~Connection() { close(); }

  int fd() const { return fd_; }
  bool open() const { return fd_ >= 0; }
  bool sending() const { return open() && !out_.empty(); }
  /// Sends a message after all pending ones.
  void send(std::span<const std::byte> message);
  /// Sends a message, or drops it if an earlier one is still pending because the other end does not read; the next
  /// message replaces it.
  void send_latest(std::span<const std::byte> message);
  void flush();
  /// Receives the available bytes; closes if the other end has closed.
  void receive();
  /// Copies the next complete message; false: there is none.
  bool next(std::span<std::byte> message);
  /// Waits until the connection can receive or send, and does so.
  void exchange(int milliseconds);
  /// Announces the end of sending.
  void finish();
  void close();

 private:
  int fd_ = -1;
  std::vector<std::byte> in_, out_;
};

/// A non-blocking TCP socket over IPv4; -1: see errno.
int stream_socket();
/// Connects within `patience`; if the result is not open, see errno.
Connection connect_to(const sockaddr_in& at, std::chrono::milliseconds patience);

}  // namespace ct
