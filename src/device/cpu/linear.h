// Linear layers on the CPU: small ones by own kernels (kernels/linear.h), large ones by the library's matrix product
// (onednn_linear.cpp).
#pragma once

#include <memory>
#include <vector>

#include "device/backend.h"

namespace ct::cpu {

/// What is computed from what: y from x, w and b; dx from dy and w; dw and db from x and dy.
enum class LinearPass : uint8_t { forward, grad_x, grad_w };

/// One pass of a linear layer over operands in their places. Rows of x, w and y (and of their gradients) are padded as
/// tensor/tensor.h says.
struct LinearTask {
  LinearPass pass;
  int64_t rows, in, out;
  DType type;              // of all but b, db and dw, which are f32
  ValueId x, w, b, y;      // or their gradients; b kNone: none
  Activation activation;   // of the forward pass
  ValueId before = kNone;  // what the activation is given, where it is wanted
};
LinearTask linear_task(const Linear& op, const std::vector<Value>& values);
LinearTask linear_task(const LinearGradX& op, const std::vector<Value>& values);
LinearTask linear_task(const LinearGradW& op, const std::vector<Value>& values);

/// Does it take the library's product, which brings its operands in order first? By the shape alone, so that bits
/// depend on the kind of machine alone.
bool wants_library(const LinearTask& task);

/// Null without a library.
std::unique_ptr<Kernel> prepare_linear_by_library(const LinearTask& task);

}  // namespace ct::cpu
