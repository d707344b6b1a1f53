// A convolution over a number of channels that is no multiple of 8, on copies of its operands with more channels.
#pragma once

#include <memory>
#include <optional>

#include "device/cuda/convolution.h"

namespace ct::cuda {

/// The shape that the library computes instead: not planar, and with a multiple of 8 channels, in which its kernels for
/// tensor cores take 16-bit operands. Either x gets more channels, or, where that takes fewer products, also each
/// square of stride x stride pixels becomes one with all their channels (space to depth), and the stride 1: the 7x7
/// stem of a ResNet has 4x4 windows of 16 channels instead of 7x7 of 8. Nothing if the shape is as it should be, or the
/// pass gains nothing.
std::optional<ConvolutionShape> widened_shape(ConvolutionPass pass, const ConvolutionShape& shape);

/// The pass of `shape` by `widened`, which was planned for widened_shape(). Its launches copy x, and w or dw, through
/// the workspace. What the copies have beside the operands is zero, which changes no sum of finite numbers.
std::shared_ptr<Convolution> by_widening(std::shared_ptr<Convolution> widened, ConvolutionPass pass,
                                         const ConvolutionShape& shape, cudaStream_t stream);

}  // namespace ct::cuda
