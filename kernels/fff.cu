#include <climits>

#include "fff.h"
#include "gelu.h"

namespace ct::kernels {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / kWarp;

/// Which child of a node whose units have the sums x a row goes to.
template <class T>
__device__ __forceinline__ int child_of(const FffTrees& trees, const T* x) {
  if (trees.fanout == 2) return to_float(x[0]) > 0 ? 1 : 0;
  int child = 0;
  float most = to_float(x[0]);
  for (int i = 1; i < trees.fanout; ++i)
    if (const float sum = to_float(x[i]); sum > most) {
      most = sum;
      child = i;
    }
  return child;
}

/// result = value(unit) at the units that the row of sums x visits, else 0. All lanes go the way together; the zeros
/// are written before.
template <class T, class Value>
__device__ __forceinline__ void write_visited(const FffTrees& trees, int64_t stride, const T* x, T* result,
                                              Value value) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  for (int64_t c = lane; c < stride; c += kWarp) result[c] = from_float<T>(0);
  __syncwarp();
  const int64_t units = trees.units(), group = trees.group();
  for (int tree = 0; tree < trees.count; ++tree) {
    int64_t node = 0;
    for (int level = 0; level <= trees.depth; ++level) {
      const int64_t first = tree * units + node * group;
      for (int64_t i = lane; i < group; i += kWarp) result[first + i] = from_float<T>(value(first + i));
      node = node * trees.fanout + 1 + child_of(trees, x + first);
    }
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) visit(TreeGeluArgs a) {
  const int64_t row = int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarp;
  if (row >= a.rows) return;  // a whole warp
  const T* x = static_cast<const T*>(a.x) + row * a.stride;
  write_visited(a.trees, a.stride, x, static_cast<T*>(a.y) + row * a.stride,
                [x](int64_t unit) { return gelu_of(to_float(x[unit])); });
}

template <class T>
__global__ void __launch_bounds__(kThreads) visit_grad(TreeGeluGradArgs a) {
  const int64_t row = int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarp;
  if (row >= a.rows) return;  // a whole warp
  const T* x = static_cast<const T*>(a.x) + row * a.stride;
  const T* dy = static_cast<const T*>(a.dy) + row * a.stride;
  write_visited(a.trees, a.stride, x, static_cast<T*>(a.dx) + row * a.stride,
                [x, dy](int64_t unit) { return to_float(dy[unit]) * gelu_derivative(to_float(x[unit])); });
}

/// Are these trees, and is a row wide enough for them?
bool sensible(int64_t rows, int64_t stride, const FffTrees& t) {
  constexpr int kMostDepth = 30;
  if (rows < 0 || rows > INT_MAX || t.count < 1 || t.depth < 0 || t.depth > kMostDepth || t.fanout < 2) return false;
  int64_t nodes = 1, level = 1;
  for (int d = 0; d < t.depth && nodes <= stride; ++d) nodes += level *= t.fanout;
  return nodes <= stride && t.width() <= stride;
}
Grid grid_of(int64_t rows) {
  return {.blocks = static_cast<unsigned>(divide_up<int64_t>(rows, kWarps)), .threads = kThreads};
}

}  // namespace

cudaError_t tree_gelu(const TreeGeluArgs& a, cudaStream_t stream) {
  if (!sensible(a.rows, a.stride, a.trees)) return cudaErrorInvalidValue;
  return with_type(a.type, [&]<class T>(T) { return launch(visit<T>, grid_of(a.rows), stream, a); });
}

cudaError_t tree_gelu_grad(const TreeGeluGradArgs& a, cudaStream_t stream) {
  if (!sensible(a.rows, a.stride, a.trees)) return cudaErrorInvalidValue;
  return with_type(a.type, [&]<class T>(T) { return launch(visit_grad<T>, grid_of(a.rows), stream, a); });
}

}  // namespace ct::kernels
