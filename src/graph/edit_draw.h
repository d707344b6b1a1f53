// How one image is changed by the operations Augment (Draw) and Edit (EditDraw): drawn by the host, done by the device.
// All in whole numbers, so that every device gives the same pixels. Kernels include this too.
//
// What a kind of edit takes (EditDraw::at, in order) and does. v(a, b, factor) is a + (b - a) * factor / kEditOne, cut
// off to a whole number in 0..255, as Pillow's Image.blend does; grey is ITU-R 601's luma of three channels, else the
// first channel.
//
//   none
//   move           dy, dx, flip: out(y, x) = in(y + dy, x' + dx), x' = flip ? W-1-x : x; 0 outside
//   resized_crop   x, y, width, height: that box of the image becomes as large as the image, bilinear: rows, then
//                  columns, each rounded, shares of 22 bits
//   blend          x, y, width, height, partner, share: in that box, share of image `partner` of the batch, or of
//   Edit's
//                  fill where there is no such image, and the rest of the pixel, rounded
//   brightness     factor: v(0, pixel, factor)
//   contrast       factor: v(the image's mean grey, pixel, factor)
//   saturation     factor: v(the pixel's grey, pixel, factor)
//   sharpness      factor: v(mean of 3x3 pixels, the middle five times, pixel, factor); the border stays
//   hue            shift: of 256, in hue, saturation and value of 0..255 as Pillow's HSV has them; of three channels
//   posterize      bits that stay
//   solarize       threshold: 255 - pixel from there on
//   auto_contrast  each channel from its lowest to its highest level becomes 0..255
//   equalize       each channel by its histogram, as Pillow's ImageOps.equalize counts
//   affine         a, b, c, d, e, f: out(y, x) = in(dx + ey + f, ax + by + c), cut off to whole pixels; 0 outside
#pragma once

#include <array>
#include <cstdint>

namespace ct {

/// Output pixel (y, x) is input pixel (y + dy, x' + dx), x' = flip ? width - 1 - x : x; black outside the image.
struct Draw {
  int32_t dy = 0, dx = 0, flip = 0, unused = 0;
};
static_assert(sizeof(Draw) == 16);

/// Shares, factors and coefficients are multiples of 1 / kEditOne.
inline constexpr int32_t kEditOne = 1 << 16;

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
  EditKind kind = EditKind::none;
  std::array<int32_t, 7> at = {};
};
static_assert(sizeof(EditDraw) == 32);

}  // namespace ct
