// A convolution over planar images, or over channels that are no multiple of 8, on copies of its operands.
#pragma once

#include <memory>
#include <optional>

#include "device/cuda/convolution.h"

namespace ct::cuda {

/// The shape that the library computes instead, in which its kernels for tensor cores take 16-bit operands: not planar,
/// and with a multiple of 8 channels. Either x gets more channels, or, where that takes fewer products, also each
/// square of stride x stride pixels becomes one with all their channels (space to depth), and the stride 1: the 7x7
/// stem of a ResNet has 4x4 windows of 16 channels instead of 7x7 of 8. Nothing if the shape is so already, for f32,
/// and for the gradient of the input.
std::optional<ConvolutionShape> widened_shape(ConvolutionPass pass, const ConvolutionShape& shape);

/// The pass of `shape` by `widened`, which was planned for widened_shape(). Its launches copy x, and w or dw, through
/// the workspace. What the copies have beside the operands is zero, which changes no sum of finite numbers.
std::shared_ptr<Convolution> by_widening(std::shared_ptr<Convolution> widened, ConvolutionPass pass,
                                         const ConvolutionShape& shape, cudaStream_t stream);

}  // namespace ct::cuda
