// Resizing as Pillow's Image.resize(size, BILINEAR, box) does, bit for bit: an output pixel is the mean of the input
// pixels under a triangle, which is as wide as the picture shrinks (so nothing is skipped) but never narrower than a
// pixel; rows first, then columns, each rounded to 8 bits, with weights of 22 bits behind the point.
#pragma once

#include "data/pictures/picture.h"

namespace ct {

/// What a box of a picture becomes: a picture of `size`, of which only `part` is computed.
struct Resizing {
  Box box;
  PictureSize size;
  Window part;
};

/// Writes `part` of the resized picture to `planar`: all of red, then green, then blue, each row by row.
void resize(const Picture& picture, const Resizing& resizing, uint8_t* planar);

/// Interleaved, all of it.
Picture resized(const Picture& picture, const Box& box, PictureSize size);

}  // namespace ct
