// Convolutions on a GPU by a library (cudnn_convolution.cpp): the interface for one pass.
#pragma once

#include <memory>
#include <string>

#include "device/cuda/library_options.h"
#include "tensor/tensor.h"

namespace ct::cuda {

/// y [n][out_h][out_w][out_channels] = conv(x, w), x [n][in_h][in_w][in_channels] or, planar,
/// [n][in_channels][in_h][in_w]; w [out_channels][kernel][kernel][in_channels]; all dense, of type `dtype`.
struct ConvolutionShape {
  int64_t n, in_channels, in_h, in_w, out_channels, out_h, out_w;
  int kernel, stride, pad;
  bool planar;
  DType dtype;  // f32, bf16 or f16; sums are f32
};

/// That of a layer from the shapes of its x and y.
inline ConvolutionShape convolution_shape(const Shape& x, const Shape& y, int kernel, int stride, int pad, bool planar,
                                          DType dtype) {
  return {.n = x[0],
          .in_channels = planar ? x[1] : x[3],
          .in_h = planar ? x[2] : x[1],
          .in_w = planar ? x[3] : x[2],
          .out_channels = y[3],
          .out_h = y[1],
          .out_w = y[2],
          .kernel = kernel,
          .stride = stride,
          .pad = pad,
          .planar = planar,
          .dtype = dtype};
}

/// The pass: y from x and w; dx from dy and w; dw from x and dy (f32 for any dtype, but sums may have been rounded to
/// the dtype once).
enum class ConvolutionPass : uint8_t { forward, grad_input, grad_weights };

/// One planned pass. Every launch gives the same bits, and runs in the stream of its Convolutions. Must outlive CUDA
/// graphs that contain its launches, because it owns the library's plan.
class Convolution {
 public:
  virtual ~Convolution() = default;
  virtual size_t workspace_bytes() const = 0;
  /// `image`: x or dx; `weights`: w or dw; `result`: y or dy. 16-byte aligned, workspace 256-byte. May be captured.
  virtual void launch(void* image, void* weights, void* result, void* workspace) = 0;
  /// The engine and its settings, as a line for another rank or a later run.
  virtual std::string plan() const = 0;
  /// What the library says of its kernels.
  struct Traits {
    bool tensor_cores, compiled_here;  // compiled for this plan, not with the library
  };
  virtual Traits traits() const = 0;
};

class Convolutions {
 public:
  virtual ~Convolutions() = default;
  /// `plan`: of an earlier Convolution for the same shape and pass; empty: selected here, by the library's heuristics
  /// or, with autotuning, by time (in separate memory). Throws ExitCode::usage with the shape if the library does not
  /// support it.
  virtual std::unique_ptr<Convolution> prepare(ConvolutionPass pass, const ConvolutionShape& shape,
                                               const std::string& plan = {}) = 0;
  /// "cuDNN 9.19.0"
  virtual std::string description() const = 0;
};

/// Opens the library; throws ExitCode::usage with its name and the searched places.
std::unique_ptr<Convolutions> make_convolutions(const LibraryOptions& options);

}  // namespace ct::cuda
