// A line of text in memory that one process writes and the process that started it reads.
#pragma once

#include <string>

namespace ct {

class SharedText {
 public:
  /// An empty one, whose descriptor processes that are started from now on inherit. Without one (no memory) nothing is
  /// shared.
  SharedText();
  SharedText(SharedText&& other) noexcept;
  SharedText& operator=(SharedText&&) = delete;
  ~SharedText();
  int fd() const { return fd_; }
  /// The latest line; empty: none yet.
  std::string read() const;

 private:
  int fd_;
};

/// Is it the descriptor of a SharedText? No other file may be written to.
bool is_shared_text(int fd);
/// Replaces its line.
void write_shared_text(int fd, const std::string& line);

}  // namespace ct
