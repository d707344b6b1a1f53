#include "device/cpu/kernels/linear.h"

#include <algorithm>

#include "device/cpu/kernels/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/kernels/linear.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After foreach_target.h:
#include "device/cpu/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ct::cpu::HWY_NAMESPACE {

constexpr int kImages = kWide ? 4 : 2;      // rows of x in registers, so that each weight is read once for all of them
constexpr int kColumnVecs = kWide ? 6 : 4;  // vectors of `in` in registers
constexpr int64_t kRowsInCache = 16;        // rows of x reused from the first-level cache while w streams by
constexpr int64_t kChunk = 64;              // rows of x and dy per pass over dw

// ---- forward: lanes along `in`, 4 outputs x kImages images of partial sums

#if HWY_TARGET != HWY_SCALAR
/// The sum of a vector's 128-bit blocks.
template <class DV>
HWY_INLINE hn::Vec<D4> add_blocks(DV /*tag*/, hn::Vec<DV> v) {
  if constexpr (hn::MaxLanes(DV()) > 4) {
    const hn::Half<DV> half;
    return add_blocks(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  } else {
    return v;
  }
}
#endif

/// {sum(v0), sum(v1), sum(v2), sum(v3)} + bias, through ReLU if wanted, to out; `outputs` of the four exist, 0 follows.
HWY_INLINE void store_outputs(V v0, V v1, V v2, V v3, const float* HWY_RESTRICT bias, bool relu, int outputs,
                              float* HWY_RESTRICT out) {
#if HWY_TARGET == HWY_SCALAR
  const float sums[4] = {hn::GetLane(v0), hn::GetLane(v1), hn::GetLane(v2), hn::GetLane(v3)};
  for (int j = 0; j < 4; ++j) {
    const float value = j < outputs ? sums[j] + bias[j] : 0.0f;
    out[j] = relu && value <= 0 ? 0.0f : value;
  }
#else
  const hn::Repartition<uint64_t, D> d64;
  const V s01 = hn::Add(hn::InterleaveLower(d, v0, v1), hn::InterleaveUpper(d, v0, v1));
  const V s23 = hn::Add(hn::InterleaveLower(d, v2, v3), hn::InterleaveUpper(d, v2, v3));
  const auto a = hn::BitCast(d64, s01), b = hn::BitCast(d64, s23);
  const V s = hn::Add(hn::BitCast(d, hn::InterleaveLower(d64, a, b)), hn::BitCast(d, hn::InterleaveUpper(d64, a, b)));
  auto y = add_blocks(d, s);
  if (outputs == 4) {
    y = hn::Add(y, hn::LoadU(d4, bias));
  } else {
    alignas(16) float padded_bias[4] = {};
    for (int j = 0; j < outputs; ++j) padded_bias[j] = bias[j];
    y = hn::IfThenElseZero(hn::FirstN(d4, outputs), hn::Add(y, hn::Load(d4, padded_bias)));
  }
  if (relu) y = hn::IfThenZeroElse(hn::Le(y, hn::Zero(d4)), y);
  hn::Store(y, d4, out);
#endif
}

/// y[0..Images)[o..o+4): `outputs` of the four rows of w exist.
template <int Images>
HWY_INLINE void forward_block(const LinearArgs& a, int64_t n, int64_t o, int outputs) {
  const int64_t in = padded(a.shape.in), stride = padded(a.shape.out);
  const float* x = a.x + n * in;
  const float* w[4];
  for (int j = 0; j < 4; ++j) w[j] = a.w + (o + std::min(j, outputs - 1)) * in;
  V acc[Images][4];
  unroll<Images * 4>([&](auto i) CT_UNROLLED { acc[i / 4][i % 4] = hn::Zero(d); });
  for (int64_t i = 0; i < in; i += kLanes) {
    V weight[4];
    unroll<4>([&](auto j) CT_UNROLLED { weight[j] = hn::Load(d, w[j] + i); });
    unroll<Images>([&](auto k) CT_UNROLLED {
      const V value = hn::Load(d, x + k * in + i);
      unroll<4>([&](auto j) CT_UNROLLED { acc[k][j] = hn::MulAdd(value, weight[j], acc[k][j]); });
    });
  }
  unroll<Images>([&](auto k) CT_UNROLLED {
    store_outputs(acc[k][0], acc[k][1], acc[k][2], acc[k][3], a.b + o, a.relu, outputs, a.y + (n + k) * stride + o);
  });
}

void Forward(const LinearArgs& a) {
  const LinearShape& s = a.shape;
  for (int64_t first = 0; first < s.n; first += kRowsInCache) {
    const int64_t end = std::min(s.n, first + kRowsInCache);
    for (int64_t o = 0; o < s.out; o += 4) {
      const int outputs = static_cast<int>(std::min<int64_t>(4, s.out - o));
      int64_t n = first;
      for (; n + kImages <= end; n += kImages) forward_block<kImages>(a, n, o, outputs);
      for (; n < end; ++n) forward_block<1>(a, n, o, outputs);
    }
    for (int64_t n = first; n < end; ++n)
      std::fill(a.y + n * padded(s.out) + (s.out + 3) / 4 * 4, a.y + (n + 1) * padded(s.out), 0.0f);
  }
}

// ---- input gradient: lanes along `in`, kImages images x up to kColumnVecs vectors

template <int Images, int Vectors>
HWY_INLINE void grad_input_block(const LinearGradXArgs& a, int64_t n, int64_t i) {
  const int64_t in = padded(a.shape.in), stride = padded(a.shape.out);
  const float *w = a.w + i, *dy = a.dy + n * stride;
  V acc[Images][Vectors];
  unroll<Images * Vectors>([&](auto j) CT_UNROLLED { acc[j / Vectors][j % Vectors] = hn::Zero(d); });
  for (int64_t o = 0; o < a.shape.out; ++o, w += in) {
    V weight[Vectors];
    unroll<Vectors>([&](auto v) CT_UNROLLED { weight[v] = hn::Load(d, w + v * kLanes); });
    unroll<Images>([&](auto k) CT_UNROLLED {
      const V g = hn::Set(d, dy[k * stride + o]);
      unroll<Vectors>([&](auto v) CT_UNROLLED { acc[k][v] = hn::MulAdd(g, weight[v], acc[k][v]); });
    });
  }
  unroll<Images * Vectors>([&](auto j) CT_UNROLLED {
    hn::Store(acc[j / Vectors][j % Vectors], d, a.dx + (n + j / Vectors) * in + i + j % Vectors * kLanes);
  });
}

/// Calls body(std::integral_constant<int, Vectors>, offset) for blocks of nearly equal size that cover `columns`.
template <class Body>
HWY_INLINE void for_column_blocks(int64_t columns, Body&& body) {
  int64_t left = columns / kLanes, blocks = (left + kColumnVecs - 1) / kColumnVecs;
  for (int64_t offset = 0; blocks > 0; --blocks) {
    const int64_t vectors = (left + blocks - 1) / blocks;
    unroll<kColumnVecs>([&](auto v) CT_UNROLLED {
      if (vectors == v + 1) body(std::integral_constant<int, v + 1>(), offset);
    });
    left -= vectors;
    offset += vectors * kLanes;
  }
}

void GradInput(const LinearGradXArgs& a) {
  const LinearShape& s = a.shape;
  const int64_t in = padded(s.in);
  for_column_blocks(in, [&](auto vectors, int64_t i) HWY_ATTR {
    int64_t n = 0;
    for (; n + kImages <= s.n; n += kImages) grad_input_block<kImages, decltype(vectors)::value>(a, n, i);
    for (; n < s.n; ++n) grad_input_block<1, decltype(vectors)::value>(a, n, i);
  });
  for (int64_t n = 0; n < s.n; ++n) std::fill(a.dx + n * in + s.in, a.dx + (n + 1) * in, 0.0f);
}

// ---- weight gradient: lanes along `in`, 4 (2) outputs x up to kColumnVecs vectors, the batch in chunks

template <int Outputs, int Vectors>
HWY_INLINE void grad_weights_block(const LinearGradWArgs& a, int64_t first, int64_t end, int64_t o, int64_t i) {
  const int64_t in = padded(a.shape.in), stride = padded(a.shape.out);
  float* dw = a.dw + o * in + i;
  V acc[Outputs][Vectors];
  unroll<Outputs * Vectors>([&](auto j) CT_UNROLLED {
    acc[j / Vectors][j % Vectors] =
        first == 0 ? hn::Zero(d) : hn::Load(d, dw + j / Vectors * in + j % Vectors * kLanes);
  });
  const float *x = a.x + first * in + i, *dy = a.dy + first * stride + o;
  for (int64_t n = first; n < end; ++n, x += in, dy += stride) {
    V value[Vectors];
    unroll<Vectors>([&](auto v) CT_UNROLLED { value[v] = hn::Load(d, x + v * kLanes); });
    unroll<Outputs>([&](auto j) CT_UNROLLED {
      const V g = hn::Set(d, dy[j]);
      unroll<Vectors>([&](auto v) CT_UNROLLED { acc[j][v] = hn::MulAdd(g, value[v], acc[j][v]); });
    });
  }
  unroll<Outputs * Vectors>([&](auto j) CT_UNROLLED {
    hn::Store(acc[j / Vectors][j % Vectors], d, dw + j / Vectors * in + j % Vectors * kLanes);
  });
}

void GradWeights(const LinearGradWArgs& a) {
  const LinearShape& s = a.shape;
  constexpr int kOutputs = kWide ? 4 : 2;
  std::fill_n(a.db, s.out, 0.0f);
  for (int64_t n = 0; n < s.n; ++n) axpy(1.0f, a.dy + n * padded(s.out), a.db, s.out);
  for_column_blocks(padded(s.in), [&](auto vectors, int64_t i) HWY_ATTR {
    constexpr int kVectors = decltype(vectors)::value;
    for (int64_t first = 0; first < s.n; first += kChunk) {
      const int64_t end = std::min(s.n, first + kChunk);
      int64_t o = 0;
      for (; o + kOutputs <= s.out; o += kOutputs) grad_weights_block<kOutputs, kVectors>(a, first, end, o, i);
      for (; o < s.out; ++o) grad_weights_block<1, kVectors>(a, first, end, o, i);
    }
  });
}

}  // namespace ct::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ct::cpu {
HWY_EXPORT(Forward);
HWY_EXPORT(GradInput);
HWY_EXPORT(GradWeights);

void linear(const LinearArgs& args) { HWY_DYNAMIC_DISPATCH(Forward)(args); }
void linear_grad_input(const LinearGradXArgs& args) { HWY_DYNAMIC_DISPATCH(GradInput)(args); }
void linear_grad_weights(const LinearGradWArgs& args) { HWY_DYNAMIC_DISPATCH(GradWeights)(args); }
}  // namespace ct::cpu
#endif
