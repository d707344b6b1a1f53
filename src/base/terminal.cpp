#include "base/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <cwchar>

#include "base/text.h"
#include "base/utf8.h"

namespace ct {
namespace {

/// Of the character of `bytes` bytes that begins at text[at]; bytes that are no character count one.
int width_of(std::string_view text, size_t at, size_t bytes) {
  // A locale for this alone: the program's own stays "C", by which it reads and writes numbers.
  static const locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  if (utf8 == nullptr || bytes < 2) return 1;
  const locale_t before = uselocale(utf8);
  wchar_t character = 0;
  std::mbstate_t state{};
  std::mbrtowc(&character, text.data() + at, bytes, &state);
  const int width = wcwidth(character);
  uselocale(before);
  return width < 0 ? 1 : width;
}

}  // namespace

bool rewrites_lines(int fd) {
  const char* const kind = std::getenv("TERM");
  return isatty(fd) != 0 && (kind == nullptr || std::string_view(kind) != "dumb");
}

int terminal_columns(int fd) {
  constexpr int kUsual = 80, kLeast = 20;
  winsize window{};
  if (ioctl(fd, TIOCGWINSZ, &window) == 0 && window.ws_col > 0) return std::max<int>(window.ws_col, kLeast);
  const char* const columns = std::getenv("COLUMNS");
  const int given = columns == nullptr ? 0 : std::atoi(columns);
  return given > 0 ? std::max(given, kLeast) : kUsual;
}

std::string in_rows(int fd, const std::string& text, std::string_view indent) {
  const int columns = terminal_columns(fd);
  if (isatty(fd) == 0 || columns_of(text) <= columns) return text;
  const auto broken = [&](std::string_view part) { return wrapped(part, static_cast<size_t>(columns), indent); };
  const size_t command = text.find(": cifar-train ");
  if (command == text.npos) return broken(text);
  return broken(text.substr(0, command + 1)).append("\n").append(indent).append(text, command + 2);
}

void print_line(const std::string& text) {
  std::fputs((in_rows(STDOUT_FILENO, printable(text)) + "\n").c_str(), stdout);
}

std::string_view first_columns(std::string_view text, int columns) {
  size_t at = 0;
  while (at < text.size()) {
    const size_t bytes = std::max<size_t>(utf8_length(text, at), 1);
    columns -= width_of(text, at, bytes);
    if (columns < 0) break;
    at += bytes;
  }
  return text.substr(0, at);
}

int columns_of(std::string_view text) {
  int columns = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t bytes = std::max<size_t>(utf8_length(text, at), 1);
    columns += width_of(text, at, bytes);
    at += bytes;
  }
  return columns;
}

}  // namespace ct
