// How one image is changed by the operation Edit: drawn by the host, done by the device. All in whole numbers, so that
// every device gives the same pixels.
#pragma once

#include <array>
#include <cstdint>

namespace ct {

/// Shares, factors and coefficients are multiples of 1 / kEditOne.
inline constexpr int32_t kEditOne = 1 << 16;

/// What is done, and the numbers that it takes, in their order. Grey is ITU-R 601's luma of three channels, else the
/// first channel. What is between two pixels v(a, b, factor) is a + (b - a) * factor / kEditOne, cut off to a whole
/// number in 0..255, as Pillow's Image.blend does.
enum class EditKind : int32_t {
  none,
  move,          // dy, dx, flip: pixel (y, x) becomes (y + dy, x' + dx), x' mirrored when flipped; black outside
  resized_crop,  // x, y, width, height: a box of the image becomes as large as the image (bilinear)
  blend,         // x, y, width, height, partner, share: within the box that share of another image of the batch; of
                 // Edit's fill, where the partner is none of them
  brightness,    // factor: v(0, pixel, factor)
  contrast,      // factor: v(the image's mean grey, pixel, factor)
  saturation,    // factor: v(the pixel's grey, pixel, factor)
  sharpness,     // factor: v(the mean of 3x3 pixels, of which the middle counts five times, pixel, factor); no border
  hue,        // shift: added to the hue of 256 (hue, saturation and value as Pillow's HSV has them); of three channels
  posterize,  // bits that are kept
  solarize,   // threshold: levels from it on become 255 less the level
  auto_contrast,  // each channel's range becomes 0..255
  equalize,       // each channel's levels become equally frequent
  affine,  // a, b, c, d, e, f: pixel (y, x) becomes the one in which (dx + ey + f, ax + by + c) lies; black outside
};

struct EditDraw {
  EditKind kind = EditKind::none;
  std::array<int32_t, 7> at = {};
};
static_assert(sizeof(EditDraw) == 32);

}  // namespace ct
