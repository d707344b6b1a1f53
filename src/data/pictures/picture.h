// A decoded picture and places in it.
#pragma once

#include <cstdint>
#include <vector>

namespace ct {

/// Red, green, blue of each pixel, row by row, without gaps.
struct Picture {
  int width = 0, height = 0;
  std::vector<uint8_t> rgb;
  const uint8_t* row(int y) const { return rgb.data() + static_cast<size_t>(y) * static_cast<size_t>(width) * 3; }
  uint8_t* row(int y) { return rgb.data() + static_cast<size_t>(y) * static_cast<size_t>(width) * 3; }
};

struct PictureSize {
  int width = 0, height = 0;
  bool operator==(const PictureSize&) const = default;
};

/// Whole pixels of a picture.
struct Window {
  int x = 0, y = 0, width = 0, height = 0;
  bool operator==(const Window&) const = default;
};

/// A window that may begin and end inside pixels: pixel i covers i to i + 1.
struct Box {
  double x = 0, y = 0, width = 0, height = 0;
};
inline Box box_of(const Window& w) {
  return {static_cast<double>(w.x), static_cast<double>(w.y), static_cast<double>(w.width),
          static_cast<double>(w.height)};
}

}  // namespace ct
