// One edit of each image of a batch, u8 to u8: places and colours, in whole numbers only, so that every device gives
// the same pixels.
//
// What a kind takes (EditDraw::at, in order) and does; shares, factors and coefficients are multiples of 1 / kEditOne.
// v(a, b, factor) is a + (b - a) * factor / kEditOne, cut off to a whole number in 0..255; grey is ITU-R 601's luma of
// three channels, else the first channel.
//
//   none
//   move           dy, dx, flip: out(y, x) = in(y + dy, x' + dx), x' = flip ? W-1-x : x; 0 outside
//   resized_crop   x, y, width, height: that box of the image becomes as large as the image, bilinear: rows, then
//                  columns, each rounded, shares of 22 bits
//   blend          x, y, width, height, partner, share: in that box, share of image `partner` of the batch, or of fill
//                  where there is no such image, and the rest of the pixel, rounded
//   brightness     factor: v(0, pixel, factor)
//   contrast       factor: v(the image's mean grey, pixel, factor)
//   saturation     factor: v(the pixel's grey, pixel, factor)
//   sharpness      factor: v(mean of 3x3 pixels, the middle five times, pixel, factor); the border stays
//   hue            shift: of 256, in hue, saturation and value of 0..255; of three channels
//   posterize      bits that stay
//   solarize       threshold: 255 - pixel from there on
//   auto_contrast  each channel from its lowest to its highest level becomes 0..255
//   equalize       each channel by its histogram, as Pillow's ImageOps.equalize counts
//   affine         a, b, c, d, e, f: out(y, x) = in(dx + ey + f, ax + by + c), cut off to whole pixels; 0 outside
#pragma once

#include "launch.h"

namespace ct::kernels {

constexpr int32_t kEditOne = 1 << 16;

enum class EditKind : int32_t {
  none,
  move,
  resized_crop,
  blend,
  brightness,
  contrast,
  saturation,
  sharpness,
  hue,
  posterize,
  solarize,
  auto_contrast,
  equalize,
  affine
};

struct EditDraw {
  EditKind kind;
  int32_t at[7];
};

/// All pointers are to device memory; images and out are not the same.
struct EditArgs {
  int64_t n, channels, height, width;
  int64_t stride;         // draws from one image's to the next one's
  const uint8_t* images;  // [n][channels][height][width]
  const EditDraw* draws;  // [n][stride], of which the first counts
  const uint8_t* fill;    // [channels]
  uint8_t* out;           // like images
};

/// Runs in the stream, a block an image. Moves 2*n*C*H*W bytes (contrast, auto_contrast and equalize 3) and 32*n of
/// draws. Atomics count pixels in shared memory: whole numbers, whose order does not matter. cudaErrorInvalidValue: a
/// negative size, images wider or higher than kMaxEditSide, or of 2^29 elements or more.
cudaError_t edit(const EditArgs& args, cudaStream_t stream);

constexpr int64_t kMaxEditSide = 2048;

}  // namespace ct::kernels
