// The gate of a mixture of experts: it assigns rows to experts (graph/ops.h, Route). The code is not vectorised,
// because this is little work compared with the experts' products.
//
// Layouts: rows of logits and dlogits [rows][experts] are padded to 16 floats, and pads of dlogits are written as
// zeros; all other operands are dense. All are 64-byte aligned.
#pragma once

#include <cstddef>
#include <cstdint>

#include "graph/dropout_key.h"

namespace ct::cpu {

struct RouteShape {
  int64_t rows, experts, capacity;
  int top_k;
  int64_t choices() const { return rows * top_k; }
};

/// Bytes of workspace: the choices of all rows, and the sort keys of one expert's choices.
size_t route_workspace_bytes(const RouteShape& shape);

struct RouteArgs {
  RouteShape shape;
  bool sampled;
  int number;
  const float* logits;
  const DropoutKey* key;  // null: no random choice
  int32_t *slots, *sources;
  float *weights, *load, *balance;  // balance null: not computed
  std::byte* workspace;
};
void route(const RouteArgs& args);

struct RouteGradArgs {
  RouteShape shape;
  const float* logits;
  const int32_t* slots;
  const float *load, *dweights;
  double balance_coefficient;  // times the loss scale
  float* dlogits;
};
void route_grad(const RouteGradArgs& args);

}  // namespace ct::cpu
