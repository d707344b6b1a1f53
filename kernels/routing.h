// A mixture of experts' gate: which expert takes which rows, by what weight, and the gradient of its logits. The
// formulas are those of Route and RouteGrad in src/graph/ops.h.
//
// Rows of logits and dlogits are `stride` floats apart, of which the first `experts` count; pads of dlogits are written
// as zeros; everything else is dense. Arithmetic in f32. Three launches for a routing: a thread a row chooses, one
// block adds the loads, and a thread a row finds its place by looking at all the others, rows^2 top_k^2 numbers in all,
// which lie in the caches. Sums have one order. Moves some 4 rows (3 experts + 4 top_k) + 4 experts capacity bytes; the
// gradient 4 rows (3 experts + 2 top_k). Any alignment of operands. cudaErrorInvalidValue: sizes that make no sense.
#pragma once

#include "graph/routing_draws.h"
#include "launch.h"

namespace ct::kernels {

constexpr int64_t kMostRoutedRows = int64_t{1} << 20;

struct RouteShape {
  int64_t rows, experts, stride, capacity;
  int top_k;
};

/// Of the workspace, whose address is a multiple of 4.
size_t route_workspace_bytes(const RouteShape& shape);

struct RouteArgs {
  RouteShape shape;
  bool sampled;
  int number;
  const float* logits;
  const DropoutKey* key;  // nullptr: nothing is drawn
  int32_t *slots, *sources;
  float *weights, *load, *balance;  // balance nullptr: not wanted
  void* workspace;
};
cudaError_t route(const RouteArgs& args, cudaStream_t stream);

struct RouteGradArgs {
  RouteShape shape;
  const float* logits;
  const int32_t* slots;
  const float *load, *dweights;
  double balance_coefficient;
  const double* loss_scale;  // in device memory; nullptr: 1
  float* dlogits;
};
cudaError_t route_grad(const RouteGradArgs& args, cudaStream_t stream);

}  // namespace ct::kernels
