#include "device/cuda/widened_convolution.h"

#include <utility>

#include "base/error.h"
#include "device/cuda/check.h"
#include "device/cuda/cuda_kernel.h"
#include "kernels/patches.h"

namespace ct::cuda {
namespace {

constexpr int64_t kChannels = 8;  // a multiple fills accesses of 16 bytes

/// Squares of block x block pixels that become one pixel.
struct Squares {
  int64_t block, before_image, before_kernel;  // rows and columns of the first square in front of the image or kernel
  int64_t kernel, channels;                    // of the convolution over squares
  int64_t products() const { return kernel * kernel * channels; }
};

Squares squares(const ConvolutionShape& s) {
  const auto channels = [&](int64_t block) { return round_up(s.in_channels * block * block, kChannels); };
  const Squares pixels{.block = 1, .before_image = 0, .before_kernel = 0, .kernel = s.kernel, .channels = channels(1)};
  // Windows begin where squares do, as a stride is a square's side: `before` rows in front of the image.
  const int64_t before = round_up(s.pad, s.stride), unused = before - s.pad;
  const Squares of_stride{.block = s.stride,
                          .before_image = before,
                          .before_kernel = unused,
                          .kernel = round_up(unused + s.kernel, s.stride) / s.stride,
                          .channels = channels(s.stride)};
  return of_stride.products() < pixels.products() ? of_stride : pixels;
}

ConvolutionShape over(const Squares& squares, ConvolutionShape shape) {
  shape.in_channels = squares.channels;
  shape.planar = false;
  if (squares.block == 1) return shape;
  shape.kernel = static_cast<int>(squares.kernel);
  shape.stride = 1;
  shape.pad = 0;
  shape.in_h = shape.out_h - 1 + squares.kernel;
  shape.in_w = shape.out_w - 1 + squares.kernel;
  return shape;
}

class WidenedConvolution final : public Convolution {
 public:
  WidenedConvolution(std::shared_ptr<Convolution> widened, ConvolutionPass pass, const ConvolutionShape& s,
                     cudaStream_t stream)
      : widened_(std::move(widened)), pass_(pass), stream_(stream) {
    const Squares by = squares(s);
    const ConvolutionShape wide = over(by, s);
    const DType weights = pass == ConvolutionPass::grad_weights ? DType::f32 : s.dtype;
    image_ = {.shape = {.type = type_of(s.dtype),
                        .n = s.n,
                        .channels = s.in_channels,
                        .height = s.in_h,
                        .width = s.in_w,
                        .patch = by.block,
                        .down = wide.in_h,
                        .across = wide.in_w,
                        .before = by.before_image,
                        .y_stride = by.channels},
              .planar = s.planar};
    weights_ = {.type = type_of(weights),
                .n = s.out_channels,
                .channels = s.in_channels,
                .height = s.kernel,
                .width = s.kernel,
                .patch = by.block,
                .down = by.kernel,
                .across = by.kernel,
                .before = by.before_kernel,
                .y_stride = by.channels};
    image_bytes_ = room(s.n * wide.in_h * wide.in_w * by.channels, s.dtype);
    weights_bytes_ = room(s.out_channels * by.products(), weights);
  }

  size_t workspace_bytes() const override { return image_bytes_ + weights_bytes_ + widened_->workspace_bytes(); }

  void launch(void* image, void* weights, void* result, void* workspace) override {
    auto* wide_image = static_cast<std::byte*>(workspace);
    std::byte *wide_weights = wide_image + image_bytes_, *rest = wide_weights + weights_bytes_;
    image_.images = image, image_.y = wide_image;
    CT_CUDA(kernels::patches(image_, stream_));
    if (pass_ == ConvolutionPass::forward)
      CT_CUDA(kernels::patches({.shape = weights_, .planar = false, .images = weights, .y = wide_weights}, stream_));
    widened_->launch(wide_image, wide_weights, result, rest);
    if (pass_ == ConvolutionPass::grad_weights)
      CT_CUDA(kernels::pixels_of_patches({.shape = weights_, .y = wide_weights, .images = weights}, stream_));
  }

  std::string plan() const override { return widened_->plan(); }
  Traits traits() const override { return widened_->traits(); }

 private:
  static size_t room(int64_t elements, DType dtype) {
    return static_cast<size_t>(round_up(elements * static_cast<int64_t>(size_of(dtype)), 256));
  }

  std::shared_ptr<Convolution> widened_;
  ConvolutionPass pass_;
  cudaStream_t stream_;
  kernels::PatchesArgs image_;
  kernels::PatchShape weights_;
  size_t image_bytes_, weights_bytes_;  // of the workspace, before that of the widened convolution
};

}  // namespace

std::optional<ConvolutionShape> widened_shape(ConvolutionPass pass, const ConvolutionShape& shape) {
  const bool fills = shape.in_channels % kChannels == 0 && !shape.planar;
  if (shape.dtype == DType::f32 || fills || pass == ConvolutionPass::grad_input) return {};
  return over(squares(shape), shape);
}

std::shared_ptr<Convolution> by_widening(std::shared_ptr<Convolution> widened, ConvolutionPass pass,
                                         const ConvolutionShape& shape, cudaStream_t stream) {
  return std::make_shared<WidenedConvolution>(std::move(widened), pass, shape, stream);
}

}  // namespace ct::cuda
