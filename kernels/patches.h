// Square patches of planar images as tokens. A token contains the pixels of its patch, optionally followed by those of
// four copies of the image that are shifted by `shift` pixels to the right, left, down and up.
//
//   y[n][t][(row, column), (copy, channel)] = channel of image n at that pixel of patch t, shifted as in the copy
//
// Pixels outside the image are 0. Elements are copied without change.
#pragma once

#include "element.h"

namespace ct::kernels {

/// Operands are images [n][channels][height][width] and y [n][tokens][y_stride] with tokens = height / patch * (width /
/// patch). The first patch * patch * copies * channels elements of a row of y are pixels, the others 0; copies is 5, or
/// 1 without a shift. Stores are 16 bytes wide if y and its stride are multiples of 16 bytes, otherwise one element;
/// loads are one element wide. cudaErrorInvalidValue: an invalid size, or 2^31 stores or more. For e bytes per element,
/// the launch moves n * (channels * height * width + tokens * y_stride) * e bytes.
struct PatchesArgs {
  Type type;
  int64_t n, channels, height, width, patch, shift, y_stride;
  const void* images;
  void* y;
};
cudaError_t patches(const PatchesArgs& args, cudaStream_t stream);

}  // namespace ct::kernels
