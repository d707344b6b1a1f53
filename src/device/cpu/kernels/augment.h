// Random crop, horizontal flip and normalisation of planar u8 images in one pass (torchvision's RandomCrop with zero
// padding, then RandomHorizontalFlip, ToTensor, Normalize).
//
//   out[n][c][y][x] = pixel(y + dy, x' + dx) * scale[c] + shift[c], one rounding; x' = flip ? W-1-x : x
//
// A pixel outside the image is 0 before normalisation. images u8 [count][C][H][W]; index i32 [N], numbers of images, or
// null: image n is number n; draws i32 [N][4] = {dy, dx, flip, unused}; out f32 [N][C][H][W], 64-byte aligned. An image
// whose number is not in [0, count) becomes NaN. For (v/255 - mean)/std: scale = 1/(255*std), shift = -mean/std,
// computed in double. Reads 1 byte and writes 4 bytes per pixel. Width is at most kMaxAugmentWidth.
#pragma once

#include <cstdint>

namespace ct::cpu {

constexpr int64_t kMaxAugmentWidth = 1024;

struct AugmentArgs {
  int64_t n, channels, height, width;
  int64_t count;
  const uint8_t* images;
  const int32_t* index;
  const int32_t* draws;
  const float *scale, *shift;  // [channels]
  float* out;
};

void augment(const AugmentArgs& args);

}  // namespace ct::cpu
