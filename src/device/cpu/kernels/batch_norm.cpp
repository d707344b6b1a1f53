#include "device/cpu/kernels/batch_norm.h"

#include <algorithm>
#include <cmath>

#include "device/cpu/kernels/targets.h"
#include "device/cpu/kernels/typed.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/kernels/batch_norm.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After foreach_target.h:
#include "device/cpu/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ct::cpu::HWY_NAMESPACE {

constexpr int64_t kRun = 64;              // rows that are summed in f32
constexpr int kSumBlock = kWide ? 8 : 4;  // vectors of channels whose two sums stay in registers
constexpr int kBlock = kWide ? 4 : 2;     // vectors of channels whose factors do
constexpr int64_t kRowBlock = 32 * 1024;  // elements of the rows that a pass which writes goes through at a time

/// body(tag, std::integral_constant<int, vectors>, channel) until all channels are covered.
template <int Most, class Body>
HWY_INLINE void for_channels(int64_t channels, Body&& body) {
  int64_t c = 0;
  for (; c + Most * kLanes <= channels; c += Most * kLanes) body(d, std::integral_constant<int, Most>(), c);
  for (; c + Most / 2 * kLanes <= channels; c += Most / 2 * kLanes) body(d, std::integral_constant<int, Most / 2>(), c);
  for (; c + kLanes <= channels; c += kLanes) body(d, std::integral_constant<int, 1>(), c);
  for (; c < channels; ++c) body(hn::CappedTag<float, 1>(), std::integral_constant<int, 1>(), c);
}

/// What a channel's numbers are scratch for: two sums, and the factors of forward and backward passes.
struct Scratch {
  double *sum_a, *sum_b;
  float *scale, *slope, *offset, *grad_scale;
  Scratch(void* workspace, int64_t channels) {
    sum_a = static_cast<double*>(workspace);
    sum_b = sum_a + channels;
    scale = reinterpret_cast<float*>(sum_b + channels);
    slope = scale + channels;
    offset = slope + channels;
    grad_scale = offset + channels;
  }
};

/// The sums over rows of two numbers of every channel; element(tag, at, channel, a, b) adds those at `at` to a and b.
/// Memory is read from one end to the other: of kRun rows all channels, then of the next.
template <class Element>
HWY_INLINE void sums_over_rows(const BatchNormShape& s, const Scratch& out, Element&& element) {
  std::fill_n(out.sum_a, s.channels, 0.0);
  std::fill_n(out.sum_b, s.channels, 0.0);
  for (int64_t first = 0; first < s.rows; first += kRun) {
    const int64_t end = std::min(s.rows, first + kRun);
    for_channels<kSumBlock>(s.channels, [&](auto dv, auto vectors, int64_t c) CT_UNROLLED {
      using VV = hn::Vec<decltype(dv)>;
      constexpr int kVectors = decltype(vectors)::value, kStep = static_cast<int>(hn::MaxLanes(dv));
      alignas(64) float a_run[kSumBlock * 16], b_run[kSumBlock * 16];
      VV a[kVectors], b[kVectors];
      unroll<kVectors>([&](auto v) CT_UNROLLED { a[v] = b[v] = hn::Zero(dv); });
      for (int64_t at = first * s.channels + c; at < end * s.channels; at += s.channels)
        unroll<kVectors>([&](auto v) CT_UNROLLED { element(dv, at + v * kStep, c + v * kStep, a[v], b[v]); });
      unroll<kVectors>([&](auto v) CT_UNROLLED {
        hn::StoreU(a[v], dv, a_run + v * kStep);
        hn::StoreU(b[v], dv, b_run + v * kStep);
      });
      for (int i = 0; i < kVectors * kStep; ++i) {
        out.sum_a[c + i] += static_cast<double>(a_run[i]);
        out.sum_b[c + i] += static_cast<double>(b_run[i]);
      }
    });
  }
}

/// body(tag, vectors, channel, begin, end) over blocks of rows that stay in the cache while channels go by.
template <class Body>
HWY_INLINE void for_row_blocks(const BatchNormShape& s, Body&& body) {
  const int64_t block = std::max<int64_t>(1, kRowBlock / s.channels);
  for (int64_t first = 0; first < s.rows; first += block) {
    const int64_t end = std::min(s.rows, first + block);
    for_channels<kBlock>(s.channels, [&](auto dv, auto vectors, int64_t c) CT_UNROLLED {
      body(dv, vectors, c, first * s.channels + c, end * s.channels);
    });
  }
}

HWY_INLINE float scale_of(float w, float var, double eps) { return static_cast<float>(w / std::sqrt(var + eps)); }

template <bool Residual, bool Rectify, class T>
HWY_INLINE void result_pass(const BatchNormArgs<T>& a, const Scratch& factors) {
  for_row_blocks(a.shape, [&](auto dv, auto vectors, int64_t c, int64_t begin, int64_t end) CT_UNROLLED {
    using VV = hn::Vec<decltype(dv)>;
    constexpr int kVectors = decltype(vectors)::value, kStep = static_cast<int>(hn::MaxLanes(dv));
    VV mean[kVectors], scale[kVectors], b[kVectors];
    unroll<kVectors>([&](auto v) CT_UNROLLED {
      mean[v] = hn::LoadU(dv, a.mean + c + v * kStep);
      scale[v] = hn::LoadU(dv, factors.scale + c + v * kStep);
      b[v] = hn::LoadU(dv, a.b + c + v * kStep);
    });
    for (int64_t at = begin; at < end; at += a.shape.channels)
      unroll<kVectors>([&](auto v) CT_UNROLLED {
        const int64_t i = at + v * kStep;
        VV y = hn::MulAdd(hn::Sub(load(dv, a.x + i), mean[v]), scale[v], b[v]);
        if constexpr (Residual) y = hn::Add(y, load(dv, a.residual + i));
        if constexpr (Rectify) y = relu(dv, y);
        store(dv, y, a.y + i);
      });
  });
}

template <class T>
HWY_INLINE void result(const BatchNormArgs<T>& a) {
  const Scratch factors(a.workspace, a.shape.channels);
  for (int64_t c = 0; c < a.shape.channels; ++c) factors.scale[c] = scale_of(a.w[c], a.var[c], a.shape.eps);
  if (a.residual != nullptr) return a.relu ? result_pass<true, true>(a, factors) : result_pass<true, false>(a, factors);
  return a.relu ? result_pass<false, true>(a, factors) : result_pass<false, false>(a, factors);
}

template <class T>
HWY_INLINE void forward(const BatchNormArgs<T>& a) {
  const BatchNormShape& s = a.shape;
  const Scratch sums(a.workspace, s.channels);
  const auto rows = static_cast<double>(s.rows);
  for_elements(s.channels, [&](auto dv, int64_t c) CT_UNROLLED { store(dv, load(dv, a.x + c), a.mean + c); });
  sums_over_rows(s, sums, [&](auto dv, int64_t at, int64_t c, auto& sum, auto& squares) CT_UNROLLED {
    const auto x = hn::Sub(load(dv, a.x + at), hn::LoadU(dv, a.mean + c));  // the channel's first element
    sum = hn::Add(sum, x);
    squares = hn::MulAdd(x, x, squares);
  });
  for (int64_t c = 0; c < s.channels; ++c) {
    const double mean = sums.sum_a[c] / rows, var = sums.sum_b[c] / rows - mean * mean;
    a.mean[c] = static_cast<float>(a.mean[c] + mean);
    a.var[c] = static_cast<float>(var < 0 ? 0 : var);  // NaN stays NaN
  }
  result(a);
}

/// Where gradients pass the ReLU: everywhere, as there was none; where y > 0; where what y was computed from says so.
enum class Mask : uint8_t { none, from_y, recomputed };

template <Mask M, bool Residual, class T>
HWY_INLINE void grad_passes(const BatchNormGradArgs<T>& a) {
  const BatchNormShape& s = a.shape;
  const Scratch sums(a.workspace, s.channels);
  const auto gradient = [&](auto dv, int64_t at, int64_t c, auto centred) CT_UNROLLED {
    auto g = load(dv, a.dy + at);
    if constexpr (M == Mask::from_y) g = hn::IfThenZeroElse(hn::Le(load(dv, a.y + at), hn::Zero(dv)), g);
    if constexpr (M == Mask::recomputed) {  // y as result_pass() computes it, to the bit
      const auto y = hn::MulAdd(centred, hn::LoadU(dv, sums.scale + c), hn::LoadU(dv, a.b + c));
      g = hn::IfThenZeroElse(hn::Le(y, hn::Zero(dv)), g);
    }
    return g;
  };
  if constexpr (M == Mask::recomputed)
    for (int64_t c = 0; c < s.channels; ++c) sums.scale[c] = scale_of(a.w[c], a.var[c], s.eps);
  sums_over_rows(s, sums, [&](auto dv, int64_t at, int64_t c, auto& sum, auto& products) CT_UNROLLED {
    const auto x = hn::Sub(load(dv, a.x + at), hn::LoadU(dv, a.mean + c));
    const auto g = gradient(dv, at, c, x);
    if constexpr (Residual) store(dv, g, a.dresidual + at);
    sum = hn::Add(sum, g);
    products = hn::MulAdd(g, x, products);
  });
  const auto rows = static_cast<double>(s.rows);
  for (int64_t c = 0; c < s.channels; ++c) {
    const double per_sigma = 1 / std::sqrt(a.var[c] + s.eps);
    const double db = sums.sum_a[c], dw = sums.sum_b[c] * per_sigma, scale = a.w[c] * per_sigma;
    a.db[c] = static_cast<float>(db);
    a.dw[c] = static_cast<float>(dw);
    a.batch_mean[c] = a.mean[c];
    a.batch_var[c] = static_cast<float>(a.var[c] * (rows / std::max(1.0, rows - 1)));
    sums.grad_scale[c] = static_cast<float>(scale);
    sums.slope[c] = static_cast<float>(-scale * per_sigma * dw / rows);
    sums.offset[c] = static_cast<float>(-scale * db / rows);
  }
  for_row_blocks(s, [&](auto dv, auto vectors, int64_t c, int64_t begin, int64_t end) CT_UNROLLED {
    using VV = hn::Vec<decltype(dv)>;
    constexpr int kVectors = decltype(vectors)::value, kStep = static_cast<int>(hn::MaxLanes(dv));
    VV mean[kVectors], scale[kVectors], slope[kVectors], offset[kVectors];
    unroll<kVectors>([&](auto v) CT_UNROLLED {
      mean[v] = hn::LoadU(dv, a.mean + c + v * kStep);
      scale[v] = hn::LoadU(dv, sums.grad_scale + c + v * kStep);
      slope[v] = hn::LoadU(dv, sums.slope + c + v * kStep);
      offset[v] = hn::LoadU(dv, sums.offset + c + v * kStep);
    });
    for (int64_t at = begin; at < end; at += s.channels)
      unroll<kVectors>([&](auto v) CT_UNROLLED {
        const int64_t i = at + v * kStep;
        const VV x = hn::Sub(load(dv, a.x + i), mean[v]);
        auto g = hn::Zero(dv);
        if constexpr (Residual)
          g = load(dv, a.dresidual + i);
        else
          g = gradient(dv, i, c + v * kStep, x);
        store(dv, hn::MulAdd(g, scale[v], hn::MulAdd(x, slope[v], offset[v])), a.dx + i);
      });
  });
}

/// With given statistics.
template <bool Rectify, class T>
HWY_INLINE void given_grad_pass(const BatchNormGradArgs<T>& a) {
  const BatchNormShape& s = a.shape;
  const Scratch factors(a.workspace, s.channels);
  for (int64_t c = 0; c < s.channels; ++c) factors.scale[c] = scale_of(a.w[c], a.var[c], s.eps);
  for_row_blocks(s, [&](auto dv, auto vectors, int64_t c, int64_t begin, int64_t end) CT_UNROLLED {
    using VV = hn::Vec<decltype(dv)>;
    constexpr int kVectors = decltype(vectors)::value, kStep = static_cast<int>(hn::MaxLanes(dv));
    VV scale[kVectors];
    unroll<kVectors>([&](auto v) CT_UNROLLED { scale[v] = hn::LoadU(dv, factors.scale + c + v * kStep); });
    for (int64_t at = begin; at < end; at += s.channels)
      unroll<kVectors>([&](auto v) CT_UNROLLED {
        const int64_t i = at + v * kStep;
        auto g = load(dv, a.dy + i);
        if constexpr (Rectify) g = hn::IfThenZeroElse(hn::Le(load(dv, a.y + i), hn::Zero(dv)), g);
        if (a.dresidual != nullptr) store(dv, g, a.dresidual + i);
        store(dv, hn::Mul(g, scale[v]), a.dx + i);
      });
  });
}

template <class T>
HWY_INLINE void backward(const BatchNormGradArgs<T>& a) {
  if (a.dw == nullptr) return a.y != nullptr ? given_grad_pass<true>(a) : given_grad_pass<false>(a);
  if (a.dresidual != nullptr)
    return a.y != nullptr ? grad_passes<Mask::from_y, true>(a) : grad_passes<Mask::none, true>(a);
  if (a.y == nullptr) return grad_passes<Mask::none, false>(a);
  return a.b != nullptr ? grad_passes<Mask::recomputed, false>(a) : grad_passes<Mask::from_y, false>(a);
}

CT_TYPED_TARGET(Forward, forward, BatchNormArgs)
CT_TYPED_TARGET(Result, result, BatchNormArgs)
CT_TYPED_TARGET(Backward, backward, BatchNormGradArgs)

}  // namespace ct::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ct::cpu {
CT_TYPED_KERNEL(batch_norm, Forward, BatchNormArgs)
CT_TYPED_KERNEL(batch_norm_result, Result, BatchNormArgs)
CT_TYPED_KERNEL(batch_norm_grad, Backward, BatchNormGradArgs)

size_t batch_norm_workspace(const BatchNormShape& shape) {
  return static_cast<size_t>(shape.channels) * (2 * sizeof(double) + 4 * sizeof(float));
}
}  // namespace ct::cpu
#endif
