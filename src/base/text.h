// Small functions on text.
#pragma once

#include <cstdint>
#include <ctime>
#include <functional>
#include <string>
#include <string_view>

namespace ct {

/// "1 picture", "0 pictures", "3 pictures".
std::string counted(int64_t count, std::string_view one);

/// An amount of memory in decimal units: "1.2 GB", "178 B".
std::string human_bytes(uint64_t bytes);

/// A moment as strftime(3) writes it, in the local time zone.
std::string local_time(std::time_t at, const char* format = "%Y-%m-%d %H:%M:%S");

/// `text` with the letters A to Z in lower case; other bytes do not change.
std::string lower_case(std::string text);

/// `text` without leading and trailing `blanks`. These include carriage returns, because lines of Windows files end
/// with one.
std::string_view trimmed(std::string_view text, std::string_view blanks = " \t\r");

/// `text` without the byte-order mark that some editors of Windows put at the start of UTF-8 files.
std::string_view without_byte_order_mark(std::string_view text);

/// Lines of at most `width` bytes, broken at blanks; all but the first are indented. A longer word stays whole.
std::string wrapped(std::string_view text, size_t width = 80, std::string_view indent = "  ");

/// The texts of all items, separated by `separator`: joined(models, ", ", &Model::name).
template <class Items, class Text = std::identity>
std::string joined(const Items& items, std::string_view separator, Text text = {}) {
  std::string all;
  std::string_view before;
  for (const auto& item : items) {
    all.append(before).append(std::invoke(text, item));
    before = separator;
  }
  return all;
}

}  // namespace ct
