#include <climits>

#include "fff.h"
#include "gelu.h"

namespace ct::kernels {
namespace {

constexpr int kThreads = 128;

/// result = value(unit, its sum) at the units that the row of sums x visits, else 0; one thread per row. A warp writes
/// the zeros of its 32 adjacent rows first, N elements at a time. Thus every lane computes at every level, and the
/// loads of 32 paths, each of which depends on the one before, are under way at once.
template <class T, int N, class Value>
__device__ __forceinline__ void write_visited(const FffTrees& trees, int64_t rows, int64_t stride, const T* x,
                                              T* result, Value value) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t row = int64_t{blockIdx.x} * kThreads + threadIdx.x, first_row = row - lane;
  const int64_t elements = (rows - first_row < kWarp ? rows - first_row : kWarp) * stride;  // not positive: no rows
  T* const zeros = result + first_row * stride;
  for (int64_t i = int64_t{lane} * N; i < elements; i += kWarp * N) {
    if (i + N <= elements)
      *reinterpret_cast<Pack<T, N>*>(zeros + i) = Pack<T, N>{};
    else
      for (int64_t k = i; k < elements; ++k) zeros[k] = from_float<T>(0);
  }
  __syncwarp();
  if (row >= rows) return;
  const int64_t units = trees.units();
  const int group = static_cast<int>(trees.group());
  for (int tree = 0; tree < trees.count; ++tree) {
    int64_t node = 0;
    for (int level = 0; level <= trees.depth; ++level) {
      const int64_t first = row * stride + tree * units + node * group;
      int child = 0;
      float most = 0;
      for (int i = 0; i < group; ++i) {
        const float sum = to_float(x[first + i]);
        result[first + i] = from_float<T>(value(first + i, sum));
        if (i == 0 || sum > most) {
          child = i;
          most = sum;
        }
      }
      if (trees.fanout == 2) child = most > 0 ? 1 : 0;
      node = node * trees.fanout + 1 + child;
    }
  }
}

template <class T, int N>
__global__ void __launch_bounds__(kThreads) visit(TreeGeluArgs a) {
  write_visited<T, N>(a.trees, a.rows, a.stride, static_cast<const T*>(a.x), static_cast<T*>(a.y),
                      [](int64_t, float sum) { return gelu_of<T>(sum); });
}

template <class T, int N>
__global__ void __launch_bounds__(kThreads) visit_grad(TreeGeluGradArgs a) {
  const T* dy = static_cast<const T*>(a.dy);
  write_visited<T, N>(a.trees, a.rows, a.stride, static_cast<const T*>(a.x), static_cast<T*>(a.dx),
                      [dy](int64_t unit, float sum) { return to_float(dy[unit]) * gelu_derivative<T>(sum); });
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
  return {.blocks = static_cast<unsigned>(divide_up<int64_t>(rows, kThreads)), .threads = kThreads};
}

}  // namespace

cudaError_t tree_gelu(const TreeGeluArgs& a, cudaStream_t stream) {
  if (!sensible(a.rows, a.stride, a.trees)) return cudaErrorInvalidValue;
  return with_type(a.type, [&]<class T>(T) {
    return launch(aligned_16(a.y) ? visit<T, Pack<T>::kSize> : visit<T, 1>, grid_of(a.rows), stream, a);
  });
}

cudaError_t tree_gelu_grad(const TreeGeluGradArgs& a, cudaStream_t stream) {
  if (!sensible(a.rows, a.stride, a.trees)) return cudaErrorInvalidValue;
  return with_type(a.type, [&]<class T>(T) {
    return launch(aligned_16(a.dx) ? visit_grad<T, Pack<T>::kSize> : visit_grad<T, 1>, grid_of(a.rows), stream, a);
  });
}

}  // namespace ct::kernels
