#include "comm/watchdog/watchdog_link.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
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

WatchdogLink::WatchdogLink(int fd) : fd_(fd) {
  fcntl(fd_, F_SETFL, fcntl(fd_, F_GETFL) | O_NONBLOCK);
  const int on = 1;
  setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

WatchdogLink::WatchdogLink(WatchdogLink&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), in_(std::move(other.in_)), out_(std::move(other.out_)) {}

WatchdogLink& WatchdogLink::operator=(WatchdogLink&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(in_, other.in_);
  std::swap(out_, other.out_);
  return *this;
}

void WatchdogLink::send(std::span<const std::byte> message) {
  flush();
  if (!open() || !out_.empty()) return;
  out_.assign(message.begin(), message.end());
  flush();
}

void WatchdogLink::flush() {
  if (!open() || out_.empty()) return;
  const ssize_t sent = ::send(fd_, out_.data(), out_.size(), MSG_NOSIGNAL);
  if (sent > 0) out_.erase(out_.begin(), out_.begin() + sent);
  if (sent < 0 && !for_now()) out_.clear();  // what the other end still said is read before the connection is given up
}

void WatchdogLink::receive() {
  std::array<std::byte, 65536> block;
  if (!open()) return;
  const ssize_t got = recv(fd_, block.data(), block.size(), 0);
  if (got > 0) in_.insert(in_.end(), block.begin(), block.begin() + got);
  if (got == 0 || (got < 0 && !for_now())) close();
}

bool WatchdogLink::next(std::span<std::byte> message) {
  if (in_.size() < message.size()) return false;
  const auto end = in_.begin() + static_cast<std::ptrdiff_t>(message.size());
  std::copy(in_.begin(), end, message.begin());
  in_.erase(in_.begin(), end);
  return true;
}

void WatchdogLink::finish() {
  if (open()) shutdown(fd_, SHUT_WR);
}

void WatchdogLink::close() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

}  // namespace ct
