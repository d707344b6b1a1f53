// Resizing as Pillow's Image.resize(size, BILINEAR) does: an output pixel is the mean of the input pixels under a
// triangle, which is as wide as the picture shrinks (so nothing is skipped) but never narrower than a pixel; rows
// first, then columns, each rounded to 8 bits, with weights of 22 bits behind the point. The bits are Pillow's, but
// where it takes the columns first, as 13.0 does of some shapes: there they are off by one level at most.
#pragma once

#include <cstdint>
#include <vector>

#include "data/pictures/picture.h"

namespace ct {

/// A box of a picture becomes `size`, of which `part` is wanted. Pixels outside of the box count for nothing, as if it
/// had been cut out first.
struct Resizing {
  Box box;
  PictureSize size;
  Window part;
};

/// A resizing with its weights, which are made once: sizes alone decide them.
class Resizer {
 public:
  explicit Resizer(const Resizing& resizing);

  /// The pixels that it looks at, in the coordinates of the box.
  Window looked_at() const;
  /// Writes the part: all of red, then green, then blue, each row by row. The picture's first pixel lies at (x, y) in
  /// the coordinates of the box; it must hold what is looked at.
  void run(const Picture& picture, int x, int y, uint8_t* planar) const;

 private:
  /// One side of a picture: which pixels each wanted pixel is made of, and how much of each.
  struct Side {
    int origin;              // the box's first whole pixel, in the coordinates of the picture
    std::vector<int> first;  // counted from there
    std::vector<int> count;
    std::vector<int32_t> weights;  // `taps` for each, zero behind its count
    int taps = 0;

    /// `at` and `length` in whole or broken pixels become `size` pixels, of which `wanted` from `begin` on count.
    Side(double at, double length, int size, int begin, int wanted);
    int begin() const { return first.front(); }
    int end() const { return first.back() + count.back(); }
  };
  Side columns_, rows_;
};

/// All of a picture.
Picture resized(const Picture& picture, PictureSize size);

}  // namespace ct
