// The matrix products of linear layers on a GPU, by a library: cublaslt_matmul.cpp. (Small ones are
// kernels/linear.h's.)
#pragma once

#include <memory>
#include <string>

#include "device/cuda/library_options.h"
#include "tensor/tensor.h"

namespace ct::cuda {

/// y [rows][out] = x [rows][in] w [out][in]^T + b, then ReLU if asked. Rows of x, w and y (and of their gradients)
/// begin round_up(length, kRowPad) elements apart, and pads of what is read are zero; **pads of results are left as
/// they are**, or become zero. x, w and dx are of type `dtype`, y and dy of `y_dtype`, which is `dtype` or f32; b, dw
/// and db f32; sums f32. Where `y_dtype` is the wider one, dy is rounded to `dtype` first;
/// where y is not f32, b may be rounded to y's type. NaN comes through the ReLU.
struct LinearShape {
  int64_t rows, in, out;
  DType dtype, y_dtype;
  bool relu = false;  // of the forward pass
  bool bias = true;   // else b is null, or db
};

/// y from x, w and b; dx from dy and w; dw and db from x and dy.
enum class LinearPass : uint8_t { forward, grad_input, grad_weights };

/// What a pass does not use is null.
struct LinearOperands {
  void *x, *w, *y;  // or their gradients
  float* b;         // or db
};

/// One pass, planned. Gives the same bits every time, and works in the stream of its Matmuls.
class Matmul {
 public:
  virtual ~Matmul() = default;
  virtual size_t workspace_bytes() const = 0;
  /// 16-byte aligned, workspace 256-byte. May be captured.
  virtual void launch(const LinearOperands& operands, void* workspace) = 0;
  /// The algorithm, as a line for another rank or a later run.
  virtual std::string plan() const = 0;
};

class Matmuls {
 public:
  virtual ~Matmuls() = default;
  /// `plan`: of an earlier Matmul for the same shape and pass, by the same version of the library; empty: chosen here,
  /// by the library's heuristics or, with autotuning, by time. Choosing may launch on memory of its own, so not while
  /// the stream is captured. Throws ExitCode::usage naming the shape, if the library has nothing for it, or the plan,
  /// if it is none.
  virtual std::unique_ptr<Matmul> prepare(LinearPass pass, const LinearShape& shape, const std::string& plan = {}) = 0;
  /// "cuBLASLt 13.0.2"
  virtual std::string description() const = 0;
};

/// Opens the library; throws ExitCode::usage naming it and the places where it was looked for.
std::unique_ptr<Matmuls> make_matmuls(const LibraryOptions& options);

}  // namespace ct::cuda
