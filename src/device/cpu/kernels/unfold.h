// im2col: patches of an image as rows of a matrix, so that a convolution is a product of matrices.
//
// The image is [height][width][in_channels] (or planar, before to_channels_last()). Row (oy, ox) of the matrix contains
// the kernel x kernel x in_channels inputs of the output at (oy, ox), zeros outside the image. Rows are contiguous, in
// the order of outputs. uint16_t is bf16.
#pragma once

#include <cstdint>

#include "device/cpu/kernels/plain.h"

namespace ct::cpu {

/// Bytes that unfold() may write after the rows and read after the image.
inline constexpr int64_t kUnfoldSlack = 64;

/// Unfolds one image; n and planar of `dims` are ignored.
void unfold(const ConvDims& dims, const float* image, float* rows);
void unfold(const ConvDims& dims, const uint16_t* image, uint16_t* rows);
/// The adjoint of unfold(): a pixel is the sum of the elements of `rows` that unfold() reads from it.
void fold(const ConvDims& dims, const float* rows, float* image);

/// One image from planar [channels][pixels] to [pixels][channels].
void to_channels_last(const float* planar, int64_t channels, int64_t pixels, float* image);
void to_channels_last(const uint16_t* planar, int64_t channels, int64_t pixels, uint16_t* image);

}  // namespace ct::cpu
