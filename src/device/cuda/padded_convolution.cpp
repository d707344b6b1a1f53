#include "device/cuda/padded_convolution.h"

#include <utility>

#include "base/error.h"
#include "device/cuda/check.h"
#include "device/cuda/cuda_kernel.h"
#include "kernels/elementwise.h"

namespace ct::cuda {
namespace {

constexpr int64_t kChannels = 8;  // a multiple fills accesses of 16 bytes

class PaddedConvolution final : public Convolution {
 public:
  PaddedConvolution(std::shared_ptr<Convolution> padded, ConvolutionPass pass, const ConvolutionShape& s,
                    cudaStream_t stream)
      : padded_(std::move(padded)), pass_(pass), planar_(s.planar), stream_(stream) {
    const int64_t channels = s.in_channels, wide = round_up(channels, kChannels), pixels = s.in_h * s.in_w;
    const int64_t taps = s.out_channels * s.kernel * s.kernel;
    const bool gradient = pass == ConvolutionPass::grad_weights;
    const DType weights = gradient ? DType::f32 : s.dtype;
    image_bytes_ = room(s.n * pixels * wide, s.dtype);
    weights_bytes_ = room(taps * wide, weights);
    pixels_ = {.type = type_of(s.dtype), .n = s.n, .channels = channels, .pixels = pixels, .y_stride = wide};
    image_rows_ = {
        .type = type_of(s.dtype), .rows = s.n * pixels, .features = channels, .x_stride = channels, .y_stride = wide};
    weight_rows_ = {.type = type_of(weights),
                    .rows = taps,
                    .features = channels,
                    .x_stride = gradient ? wide : channels,
                    .y_stride = gradient ? channels : wide};
  }

  size_t workspace_bytes() const override { return image_bytes_ + weights_bytes_ + padded_->workspace_bytes(); }

  void launch(void* image, void* weights, void* result, void* workspace) override {
    auto* wide_image = static_cast<std::byte*>(workspace);
    std::byte *wide_weights = wide_image + image_bytes_, *rest = wide_weights + weights_bytes_;
    if (planar_) {
      pixels_.x = image, pixels_.y = wide_image;
      CT_CUDA(kernels::pixels(pixels_, stream_));
    } else {
      image_rows_.x = image, image_rows_.y = wide_image;
      CT_CUDA(kernels::copy_rows(image_rows_, stream_));
    }
    if (pass_ == ConvolutionPass::forward) copy_weights(weights, wide_weights);
    padded_->launch(wide_image, wide_weights, result, rest);
    if (pass_ == ConvolutionPass::grad_weights) copy_weights(wide_weights, weights);
  }

  std::string plan() const override { return padded_->plan(); }
  Traits traits() const override { return padded_->traits(); }

 private:
  static size_t room(int64_t elements, DType dtype) {
    return static_cast<size_t>(round_up(elements * static_cast<int64_t>(size_of(dtype)), 256));
  }

  void copy_weights(void* from, void* to) {
    weight_rows_.x = from, weight_rows_.y = to;
    CT_CUDA(kernels::copy_rows(weight_rows_, stream_));
  }

  std::shared_ptr<Convolution> padded_;
  ConvolutionPass pass_;
  bool planar_;
  cudaStream_t stream_;
  size_t image_bytes_, weights_bytes_;  // of the workspace, before that of the padded convolution
  kernels::PixelsArgs pixels_;
  kernels::CopyRowsArgs image_rows_, weight_rows_;
};

}  // namespace

std::optional<ConvolutionShape> padded_shape(ConvolutionPass pass, const ConvolutionShape& shape) {
  const bool fills = shape.in_channels % kChannels == 0 && !shape.planar;
  if (shape.dtype == DType::f32 || fills || pass == ConvolutionPass::grad_input) return {};
  ConvolutionShape padded = shape;
  padded.in_channels = round_up(shape.in_channels, kChannels);
  padded.planar = false;
  return padded;
}

std::shared_ptr<Convolution> by_padding(std::shared_ptr<Convolution> padded, ConvolutionPass pass,
                                        const ConvolutionShape& shape, cudaStream_t stream) {
  return std::make_shared<PaddedConvolution>(std::move(padded), pass, shape, stream);
}

}  // namespace ct::cuda
