#include "device/cpu/kernels/fff.h"

#include <algorithm>
#include <iterator>
#include <type_traits>

#include "device/cpu/kernels/linear.h"
#include "device/cpu/kernels/targets.h"
#include "device/cpu/kernels/typed.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/kernels/fff.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After foreach_target.h:
#include "device/cpu/kernels/simd-inl.h"
// After simd-inl.h:
#include "device/cpu/kernels/gelu-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ct::cpu::HWY_NAMESPACE {

constexpr hn::CappedTag<float, 1> d1;

/// The units that a row visits, with their sums.
struct Visit {
  int64_t count = 0;
  alignas(64) float sums[kMostFffVisited];
  int32_t units[kMostFffVisited];
};

/// Goes from each root to a leaf with several rows: one's way waits for its sums, others' meanwhile need not.
/// sum_of(row, unit) is asked once for each unit on the way.
template <int Rows, class SumOf>
HWY_INLINE void follow(const FffTrees& trees, Visit (&visits)[Rows], SumOf&& sum_of) {
  const int64_t group = trees.group(), units = trees.units();
  for (Visit& visit : visits) visit.count = 0;
  for (int tree = 0; tree < trees.count; ++tree) {
    int64_t nodes[Rows] = {};
    for (int level = 0; level <= trees.depth; ++level)
      for (int row = 0; row < Rows; ++row) {
        Visit& visit = visits[row];
        const auto take = [&](int64_t unit) CT_UNROLLED {
          visit.units[visit.count] = static_cast<int32_t>(unit);
          return visit.sums[visit.count++] = sum_of(row, unit);
        };
        const int64_t first = tree * units + nodes[row] * group;
        float most = take(first);
        int64_t child = most > 0;
        if (group > 1) {
          child = 0;
          for (int64_t i = 1; i < group; ++i)
            if (const float sum = take(first + i); sum > most) {
              most = sum;
              child = i;
            }
        }
        nodes[row] = nodes[row] * trees.fanout + 1 + child;  // behind the root and all children of nodes before
      }
  }
}

/// body(visits, first row) for some rows at a time, for what is left one by one.
template <class Body>
HWY_INLINE void for_rows(int64_t rows, Body&& body) {
  int64_t row = 0;
  Visit some[kFffRowsTogether] = {};
  for (; row + kFffRowsTogether <= rows; row += kFffRowsTogether) body(some, row);
  Visit one[1] = {};
  for (; row < rows; ++row) body(one, row);
}

/// value(sum) of all units on the way, in place; what lies behind the last one is of no account.
template <class Value>
HWY_INLINE void for_visited(Visit& visit, Value&& value) {
  for (int64_t i = 0; i < visit.count; i += kLanes) hn::Store(value(i, hn::Load(d, visit.sums + i)), d, visit.sums + i);
}

template <class T>
HWY_INLINE float read(const T* x) {
  return hn::GetLane(load(d1, x));
}
template <class T>
HWY_INLINE void write_visited(const Visit& visit, T* row, int64_t width) {
  std::fill_n(row, width, T(0));
  for (int64_t i = 0; i < visit.count; ++i) store(d1, hn::Set(d1, visit.sums[i]), row + visit.units[i]);
}

template <class T>
HWY_INLINE void gelu_rows(const FffTrees& trees, int64_t rows, const T* x, T* y) {
  const int64_t width = padded(trees.width());
  for_rows(rows, [&](auto& visits, int64_t first) CT_UNROLLED {
    follow(trees, visits, [&](int row, int64_t unit) CT_UNROLLED { return read(x + (first + row) * width + unit); });
    for (int64_t row = first; Visit & visit : visits) {
      for_visited(visit, [&](int64_t, V sum) CT_UNROLLED { return hn::Mul(sum, normal_cdf(d, sum)); });
      write_visited(visit, y + row++ * width, width);
    }
  });
}

template <class T>
HWY_INLINE void gelu_grad_rows(const FffTrees& trees, int64_t rows, const T* x, const T* dy, T* dx) {
  const int64_t width = padded(trees.width());
  alignas(64) float grads[kMostFffVisited] = {};
  for_rows(rows, [&](auto& visits, int64_t first) CT_UNROLLED {
    follow(trees, visits, [&](int row, int64_t unit) CT_UNROLLED { return read(x + (first + row) * width + unit); });
    for (int64_t row = first; Visit & visit : visits) {
      for (int64_t i = 0; i < visit.count; ++i) grads[i] = read(dy + row * width + visit.units[i]);
      for_visited(visit, [&](int64_t i, V sum)
                             CT_UNROLLED { return hn::Mul(hn::Load(d, grads + i), gelu_derivative(d, sum)); });
      write_visited(visit, dx + row++ * width, width);
    }
  });
}

/// to[column][row] = from[row][column], rows padded, block by block of what a few cache lines hold.
template <class T>
HWY_INLINE void transpose(const T* from, int64_t rows, int64_t columns, T* to) {
  constexpr int64_t kBlock = 16;
  const int64_t from_row = padded(columns), to_row = padded(rows);
  for (int64_t c = 0; c < columns; c += kBlock)
    for (int64_t r = 0; r < to_row; r += kBlock)
      for (int64_t i = c; i < std::min(c + kBlock, columns); ++i)
        for (int64_t k = r; k < r + kBlock; ++k) to[i * to_row + k] = k < rows ? from[k * from_row + i] : T(0);
}

/// Of rows padded to 16 elements, in four sums.
template <class T>
HWY_INLINE float dot_of_rows(const float* HWY_RESTRICT x, const T* HWY_RESTRICT w, int64_t n) {
  V sums[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes)
    unroll<4>([&](auto k) CT_UNROLLED {
      sums[k] = hn::MulAdd(hn::LoadU(d, x + i + k * kLanes), load(d, w + i + k * kLanes), sums[k]);
    });
  for (; i < n; i += kLanes) sums[0] = hn::MulAdd(hn::LoadU(d, x + i), load(d, w + i), sums[0]);
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(sums[0], sums[1]), hn::Add(sums[2], sums[3]))));
}

/// y = sum over the units of their values times their rows, `Vectors` vectors of columns at a time.
template <int Vectors, class T>
HWY_INLINE void add_columns(const Visit& visit, const T* rows, int64_t stride, T* y) {
  V sums[Vectors];
  unroll<Vectors>([&](auto v) CT_UNROLLED { sums[v] = hn::Zero(d); });
  for (int64_t i = 0; i < visit.count; ++i) {
    const V value = hn::Set(d, visit.sums[i]);
    const T* row = rows + visit.units[i] * stride;
    unroll<Vectors>([&](auto v) CT_UNROLLED { sums[v] = hn::MulAdd(value, load(d, row + v * kLanes), sums[v]); });
  }
  unroll<Vectors>([&](auto v) CT_UNROLLED { store(d, sums[v], y + v * kLanes); });
}

template <class T>
HWY_INLINE void layer(const FffArgs<T>& a) {
  const int64_t in = padded(a.in), out = padded(a.out), units = a.trees.width();
  T* by_unit = reinterpret_cast<T*>(a.workspace);
  float* wide = reinterpret_cast<float*>(by_unit + padded(units) * out);  // rows of x
  transpose(a.w_out, a.out, units, by_unit);
  for_rows(a.rows, [&](auto& visits, int64_t first) CT_UNROLLED {
    const float* x = wide;
    if constexpr (std::is_same_v<T, float>)
      x = a.x + first * in;
    else
      for (int64_t i = 0; i < std::ssize(visits) * in; i += kLanes)
        hn::Store(load(d, a.x + first * in + i), d, wide + i);
    follow(a.trees, visits, [&](int row, int64_t unit) CT_UNROLLED {
      return dot_of_rows(x + row * in, a.w_in + unit * in, in) + a.b_in[unit];
    });
    for (int64_t row = first; Visit & visit : visits) {
      for_visited(visit, [&](int64_t, V sum) CT_UNROLLED { return hn::Mul(sum, normal_cdf(d, sum)); });
      T* y = a.y + row++ * out;
      constexpr int kVectors = 8;
      int64_t c = 0;
      for (; c + kVectors * kLanes <= out; c += kVectors * kLanes)
        add_columns<kVectors>(visit, by_unit + c, out, y + c);
      for (; c < out; c += kLanes) add_columns<1>(visit, by_unit + c, out, y + c);
    }
  });
}

void TreeGelu(const FffTrees& t, int64_t rows, const float* x, float* y) { gelu_rows(t, rows, x, y); }
void TreeGeluBf16(const FffTrees& t, int64_t rows, const uint16_t* x, uint16_t* y) { gelu_rows(t, rows, x, y); }
void TreeGeluGrad(const FffTrees& t, int64_t rows, const float* x, const float* dy, float* dx) {
  gelu_grad_rows(t, rows, x, dy, dx);
}
void TreeGeluGradBf16(const FffTrees& t, int64_t rows, const uint16_t* x, const uint16_t* dy, uint16_t* dx) {
  gelu_grad_rows(t, rows, x, dy, dx);
}
CT_TYPED_TARGET(Layer, layer, FffArgs)

}  // namespace ct::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ct::cpu {
HWY_EXPORT(TreeGelu);
HWY_EXPORT(TreeGeluBf16);
HWY_EXPORT(TreeGeluGrad);
HWY_EXPORT(TreeGeluGradBf16);

void tree_gelu(const FffTrees& trees, int64_t rows, const float* x, float* y) {
  HWY_DYNAMIC_DISPATCH(TreeGelu)(trees, rows, x, y);
}
void tree_gelu(const FffTrees& trees, int64_t rows, const uint16_t* x, uint16_t* y) {
  HWY_DYNAMIC_DISPATCH(TreeGeluBf16)(trees, rows, x, y);
}
void tree_gelu_grad(const FffTrees& trees, int64_t rows, const float* x, const float* dy, float* dx) {
  HWY_DYNAMIC_DISPATCH(TreeGeluGrad)(trees, rows, x, dy, dx);
}
void tree_gelu_grad(const FffTrees& trees, int64_t rows, const uint16_t* x, const uint16_t* dy, uint16_t* dx) {
  HWY_DYNAMIC_DISPATCH(TreeGeluGradBf16)(trees, rows, x, dy, dx);
}

size_t fff_workspace_bytes(const FffTrees& trees, int64_t in, int64_t out, size_t element_bytes) {
  return static_cast<size_t>(padded(trees.width()) * padded(out)) * element_bytes +
         static_cast<size_t>(kFffRowsTogether * padded(in)) * sizeof(float);
}
CT_TYPED_KERNEL(fff, Layer, FffArgs)
}  // namespace ct::cpu
#endif
