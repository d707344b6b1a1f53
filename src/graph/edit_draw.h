// The changes of one image by the operations Augment (Draw) and Edit (EditDraw). The host draws them, and the device
// applies them in integer arithmetic, so every device computes the same pixels. Kernels include this too.
//
// The arguments (EditDraw::at, in order) and the effect of each kind of edit. v(a, b, factor) is a + (b - a) * factor /
// kEditOne, truncated to an integer in 0..255, as in Pillow's Image.blend. grey is the luma of ITU-R 601 for three
// channels, otherwise the first channel.
//
//   none
//   move           dy, dx, flip: out(y, x) = in(y + dy, x' + dx), x' = flip ? W-1-x : x; 0 outside
//   resized_crop   x, y, width, height: resizes that box to the size of the image, bilinearly: rows, then
//                  columns, each rounded, with weights of 22 bits
//   blend          x, y, width, height, partner, share: in that box,
//                  share * image `partner` of the batch + (1 - share) * the pixel, rounded;
//                  Edit's fill takes the place of an image that does not exist
//   brightness     factor: v(0, pixel, factor)
//   contrast       factor: v(the image's mean grey, pixel, factor)
//   saturation     factor: v(the pixel's grey, pixel, factor)
//   sharpness      factor: v(mean of 3x3 pixels with weight 5 in the middle, pixel, factor); the border is unchanged
//   hue            shift, modulo 256, of the hue in Pillow's HSV with values 0..255; for three channels
//   posterize      bits: the number of bits that are kept
//   solarize       threshold: 255 - pixel for pixels >= threshold
//   auto_contrast  stretches each channel's range of levels to 0..255
//   equalize       equalizes each channel's histogram, as Pillow's ImageOps.equalize
//   affine         a, b, c, d, e, f: out(y, x) = in(dx + ey + f, ax + by + c), truncated to whole pixels; 0 outside
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
