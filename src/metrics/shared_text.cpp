#include "metrics/shared_text.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace ct {
namespace {
constexpr size_t kMostBytes = 512;
}

SharedText::SharedText() : fd_(memfd_create("progress", MFD_ALLOW_SEALING)) {}
SharedText::SharedText(SharedText&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
SharedText::~SharedText() {
  if (fd_ >= 0) close(fd_);
}

std::string SharedText::read() const {
  char text[kMostBytes];
  const ssize_t bytes = pread(fd_, text, sizeof text, 0);
  const std::string all(text, static_cast<size_t>(std::max<ssize_t>(bytes, 0)));
  return all.substr(0, all.find('\n'));
}

/// Only files in memory have seals, and only those that were made so have none set.
bool is_shared_text(int fd) { return fcntl(fd, F_GET_SEALS) == 0; }

void write_shared_text(int fd, const std::string& line) {
  const std::string text = line.substr(0, kMostBytes - 1) + "\n";  // what an earlier, longer line leaves is not read
  [[maybe_unused]] const ssize_t written = pwrite(fd, text.data(), text.size(), 0);
}

}  // namespace ct
