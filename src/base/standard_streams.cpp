#include "base/standard_streams.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"

namespace ct {
namespace {

enum class OnFailure { tell, drop };
std::atomic<OnFailure> on_failure{OnFailure::tell};
std::atomic<int> first_error{0};

/// A stream and its reader. stdio locks a stream while it is written.
struct Outlet {
  int fd;
  const char* name;
  bool stalled = false;  // the reader has not read for kPatience
  uint64_t dropped = 0;  // bytes, since then
  bool within_line = false;
};
Outlet output{STDOUT_FILENO, "standard output"}, errors{STDERR_FILENO, "standard error"};

constexpr int kPatience = 2000;  // ms that a job waits for a reader that stalls

/// Does the stream take PIPE_BUF bytes, or an error, without waiting for its reader? Asked again until `ms` have
/// passed; -1: for ever.
bool takes_more(const Outlet& to, int ms) {
  pollfd room{to.fd, POLLOUT, 0};
  int ready = poll(&room, 1, ms);
  while (ready < 0 && errno == EINTR) ready = poll(&room, 1, ms);
  return ready != 0;
}

/// Writes what it can and returns how much that was; errno tells why there is a rest.
size_t write_some(Outlet& to, const char* text, size_t bytes) {
  size_t done = 0;
  while (done < bytes) {
    const bool is_job = on_failure == OnFailure::drop;
    if (is_job && !takes_more(to, to.stalled ? 0 : kPatience)) {
      to.stalled = true;
      to.dropped += bytes - done;
      return bytes;
    }
    const ssize_t n = write(to.fd, text + done, is_job ? std::min<size_t>(bytes - done, PIPE_BUF) : bytes - done);
    if (n > 0) {
      done += static_cast<size_t>(n);
      to.within_line = text[done - 1] != '\n';
    } else if (n == 0) {  // no device takes nothing for ever and calls it a success
      errno = EIO;
      break;
    } else if (errno == EAGAIN) {  // someone else who has it open asked for that
      if (!is_job) takes_more(to, -1);
    } else if (errno != EINTR) {
      break;
    }
  }
  return done;
}

/// Once a stalled reader reads again: ends the line that it has the beginning of, and returns what it is to be told.
/// Empty: it has not stalled, or still does.
std::string news_of_reader(Outlet& to) {
  if (!to.stalled || !takes_more(to, 0)) return "";
  to.stalled = false;
  if (to.within_line) write_some(to, "\n", 1);
  return str("warning: ", to.name, " was not read: ", std::exchange(to.dropped, 0), " bytes were dropped\n");
}

bool to_terminal = false;
std::string cut;  // the beginning of a character whose rest comes with the next call

/// To a terminal, names of files and classes, which may hold anything, go without what it would obey.
size_t write_shown(const char* text, size_t bytes) {
  if (const std::string news = news_of_reader(output); !news.empty()) std::fputs(news.c_str(), stderr);
  if (!to_terminal) return write_some(output, text, bytes);
  std::string all = std::exchange(cut, "").append(text, bytes);
  cut = all.substr(all.size() - cut_character(all));
  all.resize(all.size() - cut.size());
  const std::string shown = printable_lines(all);
  return write_some(output, shown.data(), shown.size()) == shown.size() ? bytes : 0;
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

/// The same for `stderr`, where a failure has nobody to be told.
ssize_t write_errors(void*, const char* text, size_t bytes) {
  const std::string news = news_of_reader(errors);
  write_some(errors, news.data(), news.size());
  write_some(errors, text, bytes);
  return static_cast<ssize_t>(bytes);
}

std::FILE* stream_by(cookie_write_function_t* write, int buffering) {
  std::FILE* stream = fopencookie(nullptr, "w", {.read = nullptr, .write = write, .seek = nullptr, .close = nullptr});
  if (stream == nullptr) throw std::bad_alloc();
  setvbuf(stream, nullptr, buffering, buffering == _IONBF ? 0 : BUFSIZ);
  return stream;
}

}  // namespace

void open_missing_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    // The lowest free number is taken, so this one.
    if (fcntl(fd, F_GETFD) < 0 && errno == EBADF) open("/dev/null", O_RDONLY);
  }
}

void watch_output() {
  to_terminal = isatty(STDOUT_FILENO) != 0;
  stdout = stream_by(write_output, to_terminal ? _IOLBF : _IOFBF);  // stdio keeps that a write failed, but not why
}

int output_error() { return on_failure == OnFailure::tell ? first_error.load() : 0; }

void outlive_readers() {
  std::signal(SIGPIPE, SIG_IGN);
  on_failure = OnFailure::drop;
  stderr = stream_by(write_errors, _IONBF);
}

}  // namespace ct
