// Linear layers on the CPU: small ones with own kernels (kernels/linear.h), large ones with the library's matrix
// product (onednn_linear.cpp).
#pragma once

#include <memory>
#include <vector>

#include "device/backend.h"

namespace ct::cpu {

/// The pass: y from x, w and b; dx from dy and w; dw and db from x and dy.
enum class LinearPass : uint8_t { forward, grad_x, grad_w };

/// One pass of a linear layer with its operands. Rows of x, w and y (and of their gradients) are padded as in
/// tensor/tensor.h.
struct LinearTask {
  LinearPass pass;
  int64_t rows, in, out;
  DType type;              // of all operands except b, db and dw, which are f32
  ValueId x, w, b, y;      // or their gradients; b kNone: none
  Activation activation;   // of the forward pass
  ValueId before = kNone;  // the activation's input; kNone: not written
};
LinearTask linear_task(const Linear& op, const std::vector<Value>& values);
LinearTask linear_task(const LinearGradX& op, const std::vector<Value>& values);
LinearTask linear_task(const LinearGradW& op, const std::vector<Value>& values);

/// Does the pass use the library's product, which reorders its operands first? Depends on the shape alone, so that bits
/// depend only on the kind of machine.
bool wants_library(const LinearTask& task);

/// Null without a library.
std::unique_ptr<Kernel> prepare_linear_by_library(const LinearTask& task);

/// The product of f32 operands that are rounded to bf16 first, into f32, without bias and activation; null without a
/// library or a unit that multiplies in bf16.
std::unique_ptr<Kernel> prepare_rounded_by_library(const LinearTask& task);

}  // namespace ct::cpu
