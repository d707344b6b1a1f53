// Random crop, horizontal flip and normalisation of planar u8 images, gathered from a data set in device memory, in one
// pass (torchvision's RandomCrop with zero padding, then RandomHorizontalFlip, ToTensor, Normalize).
//
//   out[n][y][x][c] = pixel(y + dy, x' + dx) * scale[c] + shift[c], x' = flip ? W-1-x : x
//
// in f32 with one rounding (fma), then rounded to the output's type. A pixel outside the image is 0 before
// normalisation. For (v/255 - mean)/std, scale = 1/(255*std) and shift = -mean/std, computed in double.
#pragma once

#include "element.h"

namespace ct::kernels {

/// All pointers are to device memory. Sizes and alignments may have any values. Stores are 16 bytes wide if `out` is
/// aligned to 16 bytes and its images are multiples of 16 bytes. Loads are single bytes, adjacent across a warp.
struct AugmentArgs {
  int64_t n;                        // images of out
  int64_t channels, height, width;  // of every image
  int64_t stride;                   // NHWC: elements between pixels of out, >= channels; pads are 0
  bool planar;                      // out is [N][C][H][W] without stride, instead of [N][H][W][stride]
  Type type;                        // of out
  int64_t count;                    // images of the data set
  const uint8_t* images;            // [count][C][H][W]
  const int32_t* index;             // [N], image numbers in the data set; null: image n is number n
  const int32_t* draws;             // [N][4] = {dy, dx, flip, unused}; null: normalise only
  const float *scale, *shift;       // [C]
  void* out;
};

/// The largest number of channels including padding: scale and shift must fit into shared memory.
constexpr int64_t kMaxAugmentChannels = 6144;

/// Runs in the stream. An image whose index is not in [0, count) becomes NaN (not its padding) and is not read. Moves
/// n*C*H*W bytes of pixels, n*(4 + 16) of index and draws, and writes n*H*W*stride elements (planar: n*H*W*C).
/// cudaErrorInvalidValue: a negative size, stride < channels, an image of 2^29 elements or more, more channels than
/// kMaxAugmentChannels, 2^31 blocks (of 512 stores each) or more.
cudaError_t augment(const AugmentArgs& args, cudaStream_t stream);

}  // namespace ct::kernels
