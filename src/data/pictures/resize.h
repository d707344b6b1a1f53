// Resizing as in Pillow's Image.resize(size, BILINEAR): an output pixel is the weighted mean of the input pixels under
// a triangle, whose width follows the reduction of the picture, so that no pixel is skipped, but is at least one pixel;
// rows first, then columns, each rounded to 8 bits, with weights of 22 fractional bits. The bits are Pillow's, except
// where Pillow processes columns first, as 13.0 does for some shapes: there they differ by at most one level.
#pragma once

#include <cstdint>
#include <vector>

#include "data/pictures/picture.h"

namespace ct {

/// Resizes a box of a picture to `size`, of which only `part` is computed. Pixels outside the box have no influence, as
/// if the box had been cut out first.
struct Resizing {
  Box box;
  PictureSize size;
  Window part;
};

/// A resizing with its weights, which depend on sizes alone and are computed once.
class Resizer {
 public:
  explicit Resizer(const Resizing& resizing);

  /// The pixels that it reads, in the coordinates of the box.
  Window looked_at() const;
  /// Writes the part, planar: red, then green, then blue, each row by row. The picture's first pixel is at (x, y) in
  /// the coordinates of the box; the picture must contain looked_at().
  void run(const Picture& picture, int x, int y, uint8_t* planar) const;

 private:
  /// One dimension of a picture: the input pixels of each output pixel, and their weights.
  struct Side {
    int origin;              // the box's first whole pixel, in the coordinates of the picture
    std::vector<int> first;  // counted from there
    std::vector<int> count;
    std::vector<int32_t> weights;  // `taps` for each, zero behind its count
    int taps = 0;

    /// Resizes `length` pixels from `at` on, which may be fractional, to `size` pixels; only `wanted` pixels from
    /// `begin` on are computed.
    Side(double at, double length, int size, int begin, int wanted);
    int begin() const { return first.front(); }
    int end() const { return first.back() + count.back(); }
  };
  Side columns_, rows_;
};

/// Resizes a whole picture.
Picture resized(const Picture& picture, PictureSize size);

}  // namespace ct
