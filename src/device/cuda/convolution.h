// Convolutions on a GPU, by a library: cudnn_convolution.cpp. What is asked of it, one pass at a time.
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

/// What is computed from what: y from x and w, dx from dy and w, dw (f32, whatever the dtype, but sums may have been
/// rounded to the dtype once) from x and dy.
enum class ConvolutionPass : uint8_t { forward, grad_input, grad_weights };

/// One pass, planned. Gives the same bits every time, and works in the stream of its Convolutions. Outlives the CUDA
/// graphs that launch() is recorded in: kernels that the library compiled for it go with it.
class Convolution {
 public:
  virtual ~Convolution() = default;
  virtual size_t workspace_bytes() const = 0;
  /// `image`: x or dx; `weights`: w or dw; `result`: y or dy. 16-byte aligned, workspace 256-byte. May be captured.
  virtual void launch(void* image, void* weights, void* result, void* workspace) = 0;
  /// The engine and its knobs, as a line that plan() gives to another rank or a later run.
  virtual std::string plan() const = 0;
};

class Convolutions {
 public:
  virtual ~Convolutions() = default;
  /// `plan`: of an earlier Convolution for the same shape and pass; empty: chosen here, by the library's heuristics or,
  /// with autotuning, by time (which works on memory of its own). Throws ExitCode::usage naming the shape, if the
  /// library has nothing for it.
  virtual std::unique_ptr<Convolution> prepare(ConvolutionPass pass, const ConvolutionShape& shape,
                                               const std::string& plan = {}) = 0;
  /// "cuDNN 9.19.0"
  virtual std::string description() const = 0;
};

/// Opens the library; throws ExitCode::usage naming it and the places where it was looked for.
std::unique_ptr<Convolutions> make_convolutions(const LibraryOptions& options);

}  // namespace ct::cuda
