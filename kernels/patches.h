// Square patches of images as tokens, and back. A token contains the pixels of its patch, optionally followed by those
// of four copies of the image that are shifted by `shift` pixels to the right, left, down and up.
//
//   y[n][t][(row, column), (copy, channel)] = channel of image n at that pixel of patch t, shifted as in the copy
//
// Pixels outside the image are 0. Elements are copied without change. Without copies this is also called space to
// depth, and makes of a strided convolution one of stride 1 (src/device/cuda/widened_convolution.h).
#pragma once

#include "element.h"

namespace ct::kernels {

/// Images are [n][channels][height][width] or, where so stated, [n][height][width][channels]. y is
/// [n][tokens][y_stride] with tokens = down * across: patches in rows, the first of which begins `before` rows above
/// and columns left of the image. The first patch * patch * copies * channels elements of a row of y are pixels, the
/// others 0; copies is 5, or 1 without a shift.
struct PatchShape {
  Type type;
  int64_t n, channels, height, width;
  int64_t patch, down, across, before = 0;
  int64_t y_stride;
};

/// Stores are 16 bytes wide if y and its stride are multiples of 16 bytes, otherwise one element; loads are one element
/// wide. cudaErrorInvalidValue: an invalid size, or 2^31 stores or elements of an image or more. For e bytes per
/// element, the launch moves n * (channels * height * width + tokens * y_stride) * e bytes.
struct PatchesArgs {
  PatchShape shape;
  bool planar = true;
  int64_t shift = 0;
  const void* images;
  void* y;
};
cudaError_t patches(const PatchesArgs& args, cudaStream_t stream);

/// images [n][height][width][channels] from the patches without copies that contain their pixels. One element a thread.
/// cudaErrorInvalidValue: an invalid size, or a pixel in no patch.
struct PixelsOfPatchesArgs {
  PatchShape shape;
  const void* y;
  void* images;
};
cudaError_t pixels_of_patches(const PixelsOfPatchesArgs& args, cudaStream_t stream);

}  // namespace ct::kernels
