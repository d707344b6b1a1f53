#include "base/input.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "base/error.h"

namespace ct {

Input::Input(const Path& path, ExitCode code, PipePatience patience) : path_(path), code_(code), patience_(patience) {
  // A pipe that nobody writes to yet opens too.
  fd_ = uninterrupted([&] { return files_.open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0); });
  struct stat info {};
  const bool known = fd_ >= 0 && fstat(fd_, &info) == 0;
  if (known && !S_ISDIR(info.st_mode)) {
    is_pipe_ = S_ISFIFO(info.st_mode);
    return;
  }
  const int error = known ? EISDIR : errno;
  if (fd_ >= 0) files_.close(fd_);
  if (known) fail(code, "cannot read ", in_quotes(path.native()), ": it is a folder: give a file");
  fail_io("open", path, error, code);
}

Input::~Input() {
  if (fd_ >= 0) files_.close(fd_);
}

void Input::wait() const {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  for (bool named = false;;) {
    const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin);
    if (waited >= patience_.given_up)
      fail(code_, "cannot read ", in_quotes(path_.native()), ": this pipe has delivered nothing for ",
           patience_.given_up.count() / 1000, " s: check the program that should write to it, or give a file");
    if (!named && waited >= patience_.named) {
      std::fprintf(stderr, "waiting for %s: this pipe delivers nothing\n", in_quotes(path_.native()).c_str());
      named = true;
    }
    pollfd ready{.fd = fd_, .events = POLLIN, .revents = 0};
    const int found =
        poll(&ready, 1, static_cast<int>(((named ? patience_.given_up : patience_.named) - waited).count()));
    if (found > 0) return;
    if (found < 0 && errno != EINTR) fail_io("read", path_, errno, code_);
  }
}

size_t Input::read(std::span<std::byte> out) {
  for (;;) {
    wait();
    const ssize_t n = files_.read(fd_, out);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n < 0) fail_io("read", path_, errno, code_);
    if (n == 0 && is_pipe_ && !is_begun_)
      fail(code_, "cannot read ", in_quotes(path_.native()), ": this pipe is empty: the program that should write to ",
           "it has failed, or the pipe was read before, which is possible only once: give a file");
    is_begun_ = true;
    return static_cast<size_t>(n);
  }
}

int Input::release() {
  wait();
  fcntl(fd_, F_SETFL, fcntl(fd_, F_GETFL) & ~O_NONBLOCK);
  return std::exchange(fd_, -1);
}

std::string read_input(const Path& path, size_t limit, ExitCode code, PipePatience patience) {
  constexpr size_t kStep = size_t{64} << 10;  // what a pipe holds
  Input input(path, code, patience);
  std::string text;
  for (size_t n = 1; n > 0;) {
    const size_t end = text.size();
    text.resize(end + kStep);
    n = input.read(std::as_writable_bytes(std::span(text).subspan(end)));
    text.resize(end + n);
    if (text.size() > limit)
      fail(code, "cannot read ", in_quotes(path.native()), ": it is larger than ", limit >> 20,
           " MiB, the limit for such a file: give another");
  }
  return text;
}

}  // namespace ct
