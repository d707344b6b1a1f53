// Random crop, horizontal flip and normalisation of planar u8 images, picked from a data set that lies in device
// memory, in one pass (torchvision's RandomCrop with zero padding, then RandomHorizontalFlip, ToTensor, Normalize).
//
//   out[n][y][x][c] = pixel(y + dy, x' + dx) * scale[c] + shift[c], x' = flip ? W-1-x : x
//
// in f32 with one rounding (fma), then rounded to the output's type. A pixel outside the image is 0 before
// normalisation. (v/255 - mean)/std is scale = 1/(255*std), shift = -mean/std, formed in double.
#pragma once

#include "element.h"

namespace ct::kernels {

/// All pointers are to device memory. Any sizes and alignments; stores are of 16 bytes where `out` is aligned to as
/// many and an image of it is a multiple of as many. Loads are of single bytes, side by side across a warp.
struct AugmentArgs {
  int64_t n;                        // images of out
  int64_t channels, height, width;  // of every image
  int64_t stride;                   // NHWC: elements from one pixel of out to the next, channels or more; the rest 0
  bool planar;                      // out is [N][C][H][W] instead of [N][H][W][stride]; no stride then
  Type type;                        // of out
  int64_t count;                    // images of the data set
  const uint8_t* images;            // [count][C][H][W]
  const int32_t* index;             // [N], which image of the data set; null: image n is number n
  const int32_t* draws;             // [N][4] = {dy, dx, flip, unused}; null: normalise only
  const float *scale, *shift;       // [C]
  void* out;
};

/// Most channels, padding included: what shared memory holds of scale and shift.
constexpr int64_t kMaxAugmentChannels = 6144;

/// Runs in the stream. An image whose index is not in [0, count) becomes NaN (not its padding) and is not read.
/// Moves n*C*H*W bytes of pixels, n*(4 + 16) of index and draws, and writes n*H*W*stride elements (planar: C for
/// stride). cudaErrorInvalidValue: a negative size, stride < channels, an image of 2^29 elements or more, more channels
/// than kMaxAugmentChannels, 2^31 blocks (of 512 stores each) or more.
cudaError_t augment(const AugmentArgs& args, cudaStream_t stream);

}  // namespace ct::kernels
