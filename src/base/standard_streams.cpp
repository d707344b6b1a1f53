#include "base/standard_streams.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "base/utf8.h"

namespace ct {
namespace {

enum class OnFailure { tell, drop };
std::atomic<OnFailure> on_failure{OnFailure::tell};
std::atomic<int> first_error{0};

/// Writes what it can and returns how much that was; errno tells why there is a rest.
size_t write_some(const char* text, size_t bytes) {
  size_t done = 0;
  while (done < bytes) {
    const ssize_t n = write(STDOUT_FILENO, text + done, bytes - done);
    if (n > 0) {
      done += static_cast<size_t>(n);
    } else if (n == 0) {  // no device takes nothing for ever and calls it a success
      errno = EIO;
      break;
    } else if (errno == EAGAIN) {  // someone else who has it open asked for that
      pollfd room{STDOUT_FILENO, POLLOUT, 0};
      poll(&room, 1, -1);
    } else if (errno != EINTR) {
      break;
    }
  }
  return done;
}

bool to_terminal = false;
std::string cut;  // the beginning of a character whose rest comes with the next call

/// To a terminal, names of files and classes, which may hold anything, go without what it would obey.
size_t write_shown(const char* text, size_t bytes) {
  if (!to_terminal) return write_some(text, bytes);
  std::string all = std::exchange(cut, "").append(text, bytes);
  cut = all.substr(all.size() - cut_character(all));
  all.resize(all.size() - cut.size());
  const std::string shown = printable_lines(all);
  return write_some(shown.data(), shown.size()) == shown.size() ? bytes : 0;
}

/// What stdio calls to empty the buffer of `stdout`; less than `bytes` is a failure to it.
ssize_t write_output(void*, const char* text, size_t bytes) {
  const size_t done = write_shown(text, bytes);
  if (done == bytes) return static_cast<ssize_t>(bytes);
  int none = 0;
  const bool first = first_error.compare_exchange_strong(none, errno);
  if (on_failure == OnFailure::tell) return static_cast<ssize_t>(done);
  if (first)
    std::fprintf(stderr, "warning: standard output cannot be written (%s): further output is dropped\n",
                 std::strerror(first_error));
  return static_cast<ssize_t>(bytes);
}

}  // namespace

void open_missing_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    // The lowest free number is taken, so this one.
    if (fcntl(fd, F_GETFD) < 0 && errno == EBADF) open("/dev/null", O_RDONLY);
  }
}

void watch_output() {
  // stdio keeps that a write failed, but not why.
  std::FILE* watched =
      fopencookie(nullptr, "w", {.read = nullptr, .write = write_output, .seek = nullptr, .close = nullptr});
  if (watched == nullptr) throw std::bad_alloc();
  to_terminal = isatty(STDOUT_FILENO) != 0;
  setvbuf(watched, nullptr, to_terminal ? _IOLBF : _IOFBF, BUFSIZ);
  stdout = watched;
}

int output_error() { return on_failure == OnFailure::tell ? first_error.load() : 0; }

void outlive_readers() {
  std::signal(SIGPIPE, SIG_IGN);
  on_failure = OnFailure::drop;
}

}  // namespace ct
