#include "comm/rendezvous/connection.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace ct {
namespace {

bool for_now() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace

Connection::Connection(int fd) : fd_(fd) {
  fcntl(fd_, F_SETFL, fcntl(fd_, F_GETFL) | O_NONBLOCK);
  const int on = 1;
  setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

Connection::Connection(Connection&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), in_(std::move(other.in_)), out_(std::move(other.out_)) {}

Connection& Connection::operator=(Connection&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(in_, other.in_);
  std::swap(out_, other.out_);
  return *this;
}

void Connection::send(std::span<const std::byte> message) {
  if (!open()) return;
  out_.insert(out_.end(), message.begin(), message.end());
  flush();
}

void Connection::send_latest(std::span<const std::byte> message) {
  flush();
  if (!sending()) send(message);
}

void Connection::flush() {
  if (!open() || out_.empty()) return;
  const ssize_t sent = ::send(fd_, out_.data(), out_.size(), MSG_NOSIGNAL);
  if (sent > 0) out_.erase(out_.begin(), out_.begin() + sent);
  if (sent < 0 && !for_now()) out_.clear();  // what the other end still said is read before the connection is given up
}

void Connection::receive() {
  std::array<std::byte, 65536> block;
  if (!open()) return;
  const ssize_t got = recv(fd_, block.data(), block.size(), 0);
  if (got > 0) in_.insert(in_.end(), block.begin(), block.begin() + got);
  if (got == 0 || (got < 0 && !for_now())) close();
}

bool Connection::next(std::span<std::byte> message) {
  if (in_.size() < message.size()) return false;
  const auto end = in_.begin() + static_cast<std::ptrdiff_t>(message.size());
  std::copy(in_.begin(), end, message.begin());
  in_.erase(in_.begin(), end);
  return true;
}

void Connection::exchange(int milliseconds) {
  pollfd event{fd_, static_cast<short>(POLLIN | (sending() ? POLLOUT : 0)), 0};
  poll(&event, 1, milliseconds);
  flush();
  receive();
}

void Connection::finish() {
  if (open()) shutdown(fd_, SHUT_WR);
}

void Connection::close() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

int stream_socket() { return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); }

Connection connect_to(const sockaddr_in& at, std::chrono::milliseconds patience) {
  const int fd = stream_socket();
  if (fd < 0) return {};
  Connection line(fd);
  int problem = connect(fd, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0 ? 0 : errno;
  if (problem == EINPROGRESS) {
    pollfd ready{fd, POLLOUT, 0};
    socklen_t length = sizeof problem;
    if (poll(&ready, 1, static_cast<int>(patience.count())) != 1)
      problem = ETIMEDOUT;
    else
      getsockopt(fd, SOL_SOCKET, SO_ERROR, &problem, &length);
  }
  if (problem == 0) return line;
  line.close();
  errno = problem;
  return {};
}

}  // namespace ct
