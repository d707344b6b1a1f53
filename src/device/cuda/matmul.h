// The matrix products of linear layers on a GPU by a library (cublaslt_matmul.cpp). kernels/linear.h computes small
// ones.
#pragma once

#include <memory>
#include <string>

#include "device/cuda/library_options.h"
#include "tensor/tensor.h"

namespace ct::cuda {

/// y [rows][out] = x [rows][in] w [out][in]^T + b, then ReLU with `relu`. Rows of x, w and y (and of their gradients)
/// have a stride of round_up(length, kRowPad) elements. Pads of operands must be zero; **pads of results are not
/// changed**, or become zero. x, w and dx are of type `dtype`, y and dy of `y_dtype`, which is `dtype` or f32; b, dw
/// and db f32; sums f32. If `y_dtype` is wider, dy is rounded to `dtype` first; if y is not f32, b may be rounded to
/// y's type. ReLU passes NaN.
struct LinearShape {
  int64_t rows, in, out;
  DType dtype, y_dtype;
  bool relu = false;  // of the forward pass
  bool bias = true;   // false: b and db are null
};

/// y from x, w and b; dx from dy and w; dw and db from x and dy.
enum class LinearPass : uint8_t { forward, grad_input, grad_weights };

/// Unused operands of a pass are null.
struct LinearOperands {
  void *x, *w, *y;  // or their gradients
  float* b;         // or db
};

/// One planned pass. Every launch gives the same bits, and runs in the stream of its Matmuls.
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
  /// `plan`: of an earlier Matmul for the same shape and pass, by the same version of the library; empty: selected
  /// here, by the library's heuristics or, with autotuning, by time. The selection may launch in separate memory, so
  /// the stream must not be captured. Throws ExitCode::usage with the shape if the library does not support it, or with
  /// the plan if it is invalid.
  virtual std::unique_ptr<Matmul> prepare(LinearPass pass, const LinearShape& shape, const std::string& plan = {}) = 0;
  /// "cuBLASLt 13.0.2"
  virtual std::string description() const = 0;
};

/// Opens the library; throws ExitCode::usage with its name and the searched places.
std::unique_ptr<Matmuls> make_matmuls(const LibraryOptions& options);

}  // namespace ct::cuda
