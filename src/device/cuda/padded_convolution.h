// A convolution whose input has few channels, or an odd number, on padded copies of its operands.
#pragma once

#include <memory>
#include <optional>

#include "device/cuda/convolution.h"

namespace ct::cuda {

/// The shape with channels of x padded to a multiple of 8 and not planar, in which the library's kernels for tensor
/// cores take 16-bit operands; nothing if the shape is that already, or the pass gains nothing.
std::optional<ConvolutionShape> padded_shape(ConvolutionPass pass, const ConvolutionShape& shape);

/// The pass of `shape` by `padded`, which was planned for padded_shape(). Its launches copy x, and w or dw, through the
/// workspace: x as it is and padded is moved once. Pads are zeros, which change no sum.
std::shared_ptr<Convolution> by_padding(std::shared_ptr<Convolution> padded, ConvolutionPass pass,
                                        const ConvolutionShape& shape, cudaStream_t stream);

}  // namespace ct::cuda
