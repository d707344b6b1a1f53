// Square patches of planar images as tokens, each pixel alone or with four copies of the image, moved by `shift` pixels
// to the right, left, down and up, beside it.
//
//   y[n][t][(row, column), (copy, channel)] = image n, channel, at that pixel of patch t, moved as copy says
//
// What lies outside the image is 0. Elements are moved, never changed.
#pragma once

#include "element.h"

namespace ct::kernels {

/// images [n][channels][height][width], y [n][height/patch * width/patch][y_stride], of which the first patch * patch *
/// copies * channels elements are pixels, the others 0; copies is 5, or 1 without a shift. Stores are of 16 bytes where
/// y and its stride are multiples of as many, else of one element; loads are of one element. cudaErrorInvalidValue: a
/// size that makes no sense, or 2^31 stores or more. With e bytes an element moves n (channels height width + tokens
/// y_stride) e.
struct PatchesArgs {
  Type type;
  int64_t n, channels, height, width, patch, shift, y_stride;
  const void* images;
  void* y;
};
cudaError_t patches(const PatchesArgs& args, cudaStream_t stream);

}  // namespace ct::kernels
