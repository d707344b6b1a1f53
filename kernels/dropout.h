// Dropout. The kernel draws the mask from counters and does not store it. The operation is its own gradient.
//
// The key is in device memory with the images of the micro-batch, so each replay draws a new mask.
#pragma once

#include "element.h"
#include "graph/activation.h"
#include "graph/dropout_key.h"

namespace ct::kernels {

/// Of another kernel that drops elements too (dropout_mask.h): x becomes x * scale where the mask keeps it, else 0.
struct DropoutMask {
  const DropoutKey* key;  // null: no dropout
  int number;             // of the operation, among the model's dropouts
  uint32_t below;         // of 65536 numbers, those that keep an element
  float scale;
};

/// y = x * scale where the mask keeps an element, else 0. With an activation and no `at`: the same of activation(x),
/// the result of activate() (elementwise.h). With `at`: y times the activation's derivative at `at`, that is
/// activation_grad() of y. Each is rounded as the kernels for each would round, in 2 * n * e bytes less, for e bytes
/// per element: the launch moves 2 * n * e bytes, and with `at` 3 * n * e. y may be x or `at`. Operands may have any
/// alignment. cudaErrorInvalidValue: n below 0 or beyond 2^34.
struct DropoutArgs {
  Type type;
  int64_t n;
  const DropoutKey* key;
  int number;      // of the operation, among the model's dropouts
  uint32_t below;  // of 65536 numbers, those that keep an element
  float scale;
  const void* x;
  void* y;
  Activation activation = Activation::none;
  const void* at = nullptr;
};
cudaError_t dropout(const DropoutArgs& args, cudaStream_t stream);

}  // namespace ct::kernels
