// Patches of an image as rows of a matrix, so that a convolution is a product of matrices.
//
// Image NHWC, [height][width][in_channels] (or planar, before to_channels_last()). Row (oy, ox) of the matrix has the
// kernel x kernel x in_channels elements that the output at (oy, ox) is computed from, zeros outside the image; rows
// lie one after the other, in the order of outputs. uint16_t is bf16.
#pragma once

#include <cstdint>

#include "device/cpu/kernels/plain.h"

namespace ct::cpu {

/// Bytes after the rows that unfold() writes, and after the image that it reads, where vectors do not end with them.
inline constexpr int64_t kUnfoldSlack = 64;

/// Of one image, as `dims` says but for its n and planar.
void unfold(const ConvDims& dims, const float* image, float* rows);
void unfold(const ConvDims& dims, const uint16_t* image, uint16_t* rows);
/// image = sums of the elements of rows at the places that unfold() takes them from.
void fold(const ConvDims& dims, const float* rows, float* image);

/// One image from planar [channels][pixels] to [pixels][channels].
void to_channels_last(const float* planar, int64_t channels, int64_t pixels, float* image);
void to_channels_last(const uint16_t* planar, int64_t channels, int64_t pixels, uint16_t* image);

}  // namespace ct::cpu
