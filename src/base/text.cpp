#include "base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace ct {

std::string counted(int64_t count, std::string_view one) {
  return fmt::format("{} {}{}", count, one, count == 1 ? "" : "s");
}

std::string human_bytes(uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 999.5 && unit + 1 < std::size(kUnits); ++unit) value /= 1000;
  return fmt::format("{:.{}f} {}", value, unit > 0 && value < 9.95 ? 1 : 0, kUnits[unit]);
}

std::string local_time(std::time_t at, const char* format) {
  std::tm parts{};
  localtime_r(&at, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, format, &parts)};
}

std::string_view without_byte_order_mark(std::string_view text) {
  constexpr std::string_view kMark = "\xef\xbb\xbf";
  return text.substr(text.starts_with(kMark) ? kMark.size() : 0);
}

std::string wrapped(std::string_view text, size_t width, std::string_view indent) {
  std::string all;
  size_t begin = 0;  // of the line, in `all`
  while (!text.empty()) {
    std::string_view word = text.substr(0, text.find(' ', text.find_first_not_of(' ')));
    text.remove_prefix(word.size());
    if (!all.empty() && all.size() - begin + word.size() > width) {
      all += '\n';
      begin = all.size();
      all += indent;
      word.remove_prefix(std::min(word.find_first_not_of(' '), word.size()));
    }
    all += word;
  }
  return all;
}

std::string lower_case(std::string text) {
  std::ranges::transform(text, text.begin(), [](char c) { return 'A' <= c && c <= 'Z' ? char(c - 'A' + 'a') : c; });
  return text;
}

std::string_view trimmed(std::string_view text, std::string_view blanks) {
  const size_t first = text.find_first_not_of(blanks);
  return first == text.npos ? "" : text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

}  // namespace ct
