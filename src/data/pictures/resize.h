// Resizing as Pillow's Image.resize(size, BILINEAR) does: an output pixel is the mean of the input pixels under a
// triangle, which is as wide as the picture shrinks (so nothing is skipped) but never narrower than a pixel; rows
// first, then columns, each rounded to 8 bits, with weights of 22 bits behind the point. The bits are Pillow's, but
// where it takes the columns first, as 13.0 does of some shapes: there they are off by one level at most.
#pragma once

#include "data/pictures/picture.h"

namespace ct {

/// A box of a picture becomes `size`, of which `part` is wanted. Pixels outside of the box count for nothing, as if it
/// had been cut out first.
struct Resizing {
  Box box;
  PictureSize size;
  Window part;
};

/// The pixels that it looks at, in the coordinates of the box.
Window looked_at(const Resizing& resizing);

/// Writes the part: all of red, then green, then blue, each row by row. The picture's first pixel lies at (x, y) in the
/// coordinates of the box; it must hold what is looked at.
void resize(const Picture& picture, int x, int y, const Resizing& resizing, uint8_t* planar);

/// All of a picture.
Picture resized(const Picture& picture, PictureSize size);

}  // namespace ct
