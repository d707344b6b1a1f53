#include "device/cpu/kernels/patches.h"

#include <algorithm>
#include <span>

#include "device/cpu/kernels/linear.h"

namespace ct::cpu {
namespace {

/// Where a copy of the image has been moved to.
struct Move {
  int64_t right, down;
};

template <class T>
void move_pixels(const PatchesShape& s, const T* images, T* y) {
  const Move all[] = {{0, 0}, {s.shift, 0}, {-s.shift, 0}, {0, s.shift}, {0, -s.shift}};
  const std::span copies(all, s.shift > 0 ? 5 : 1);
  const int64_t columns = s.width / s.patch, tokens = s.height / s.patch * columns;
  const int64_t pixel = static_cast<int64_t>(copies.size()) * s.channels, token = s.patch * s.patch * pixel;
  const int64_t stride = padded(token);
  for (int64_t n = 0; n < s.n; ++n, images += s.channels * s.height * s.width, y += tokens * stride) {
    T* to = y;  // the copy's and channel's place in the first pixel of the first token
    for (const Move& move : copies)
      for (int64_t c = 0; c < s.channels; ++c, ++to)
        for (int64_t row = 0; row < s.height; ++row) {
          T* out = to + row / s.patch * columns * stride + row % s.patch * s.patch * pixel;
          const int64_t from = row - move.down;
          const bool inside = from >= 0 && from < s.height;
          const T* line = inside ? images + (c * s.height + from) * s.width : nullptr;
          int64_t x = -move.right;
          for (int64_t t = 0; t < columns; ++t, out += stride)
            for (int64_t i = 0; i < s.patch; ++i, ++x)
              out[i * pixel] = inside && x >= 0 && x < s.width ? line[x] : T(0);
        }
    for (int64_t t = 0; t < tokens; ++t) std::fill(y + t * stride + token, y + (t + 1) * stride, T(0));
  }
}

}  // namespace

void patches(const PatchesShape& shape, const float* images, float* y) { move_pixels(shape, images, y); }
void patches(const PatchesShape& shape, const uint16_t* images, uint16_t* y) { move_pixels(shape, images, y); }

}  // namespace ct::cpu
