// A decoded picture and places in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace ct {

/// Allocates without clearing: pixels are written anyway, and clearing them costs as much as resizing them.
template <class T>
struct Uncleared : std::allocator<T> {
  Uncleared() = default;
  template <class U>
  Uncleared(const Uncleared<U>&) {}
  template <class U>
  struct rebind {
    using other = Uncleared<U>;
  };
  template <class U>
  void construct(U*) {}
  template <class U, class... Args>
  void construct(U* at, Args&&... args) {
    ::new (static_cast<void*>(at)) U(std::forward<Args>(args)...);
  }
};

/// Red, green, blue of each pixel, row by row, without gaps.
struct Picture {
  int width = 0, height = 0;
  std::vector<uint8_t, Uncleared<uint8_t>> rgb;

  Picture() = default;
  Picture(int w, int h) : width(w), height(h), rgb(static_cast<size_t>(w) * static_cast<size_t>(h) * 3) {}
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
