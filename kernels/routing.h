// The gate of a mixture of experts: the experts and weights of each row, and the gradient of the gate's logits.
// src/graph/ops.h has the formulas: Route and RouteGrad.
//
// Rows of logits and dlogits have `stride` floats, the first `experts` of them used; pads of dlogits are written as
// zeros; all other operands are dense. Arithmetic is f32. Routing takes three launches: one thread per row selects
// experts, one block adds the loads, and one thread per row computes the row's slot by comparison with all other rows
// (rows^2 * top_k^2 reads, from the caches). Sums have a fixed order. Routing moves about 4 * rows * (3 * experts + 4 *
// top_k) + 4 * experts * capacity bytes, the gradient 4 * rows * (3 * experts + 2 * top_k). Operands may have any
// alignment. cudaErrorInvalidValue: invalid sizes.
#pragma once

#include "graph/routing_draws.h"
#include "launch.h"

namespace ct::kernels {

constexpr int64_t kMostRoutedRows = int64_t{1} << 20;

struct RouteShape {
  int64_t rows, experts, stride, capacity;
  int top_k;
};

/// Bytes of the workspace, which must be aligned to 4 bytes.
size_t route_workspace_bytes(const RouteShape& shape);

struct RouteArgs {
  RouteShape shape;
  bool sampled;
  int number;
  const float* logits;
  const DropoutKey* key;  // null: no random draws
  int32_t *slots, *sources;
  float *weights, *load, *balance;  // balance null: not written
  void* workspace;
};
cudaError_t route(const RouteArgs& args, cudaStream_t stream);

struct RouteGradArgs {
  RouteShape shape;
  const float* logits;
  const int32_t* slots;
  const float *load, *dweights;
  double balance_coefficient;
  const double* loss_scale;  // in device memory; null: 1
  float* dlogits;
};
cudaError_t route_grad(const RouteGradArgs& args, cudaStream_t stream);

}  // namespace ct::kernels
