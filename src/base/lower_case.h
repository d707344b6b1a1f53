// Small letters.
#pragma once

#include <algorithm>
#include <string>

namespace ct {

/// `text` with the letters A to Z small; other bytes stay.
inline std::string lower_case(std::string text) {
  std::ranges::transform(text, text.begin(), [](char c) { return 'A' <= c && c <= 'Z' ? char(c - 'A' + 'a') : c; });
  return text;
}

}  // namespace ct
