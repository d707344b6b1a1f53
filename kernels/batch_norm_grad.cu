#include "batch_norm_parts.h"

namespace ct::kernels {
namespace {

/// Where dy passes: everywhere, as there was no ReLU; where y says so; where bits, kept of y, say so; where y, computed
/// again from x, says so.
enum class Mask : uint8_t { none, from_y, bits, again };

/// What masks of rows are read from: y or bits.
template <class T>
struct MaskSource {
  const T* y;
  const uint8_t* bits;
};

/// Of a row and a thread's channels, what g is made of; y only with Mask::from_y, bits only with Mask::bits. Sum: dy is
/// dy + more_dy, rounded to T.
template <class T, int N, bool Aligned, Mask M, bool Sum = false>
struct GradientRow {
  Elements<T, N> x, y, dy, more_dy;
  unsigned bits;

  static __device__ __forceinline__ GradientRow at(const T* x, const MaskSource<T>& mask, const T* dy, const T* more_dy,
                                                   int64_t at) {
    GradientRow row;
    row.x = load<N, Aligned>(x + at);
    if constexpr (M == Mask::from_y) row.y = load<N, Aligned>(mask.y + at);
    if constexpr (M == Mask::bits) row.bits = mask.bits[at / N];
    row.dy = load<N, Aligned>(dy + at);
    if constexpr (Sum) row.more_dy = load<N, Aligned>(more_dy + at);
    return row;
  }
  /// g: dy as ReLU lets it through. Small numbers are zeros once they are rounded to T, as they were in y.
  __device__ __forceinline__ Floats<N> gradient(const Floats<N>& means, const Floats<N>& scales,
                                                const Floats<N>& shifts) const {
    Floats<N> g = floats(dy), more = {}, of_mask = {};
    if constexpr (Sum) more = floats(more_dy);
    if constexpr (M == Mask::from_y) of_mask = floats(y);
    if constexpr (M == Mask::again) of_mask = floats(x);
    for (int i = 0; i < N; ++i) {
      if constexpr (Sum) g.at[i] = to_float(from_float<T>(g.at[i] + more.at[i]));
      if constexpr (M == Mask::from_y)
        if (of_mask.at[i] <= 0) g.at[i] = 0;
      if constexpr (M == Mask::bits)
        if ((bits >> i & 1) == 0) g.at[i] = 0;
      if constexpr (M == Mask::again)
        if (to_float(from_float<T>(normalised(of_mask.at[i], means.at[i], scales.at[i], shifts.at[i]))) <= 0)
          g.at[i] = 0;
    }
    return g;
  }
};

/// Makes everything of a channel, and the factors of dx, from the parts' sums.
struct GradientMerge {
  double eps;
  const float *w, *mean, *var;
  float *dw, *db, *batch_mean, *batch_var;
  Scratch scratch;

  __device__ __forceinline__ double origin(const Partition&, const Range&, int) const { return 0; }
  __device__ __forceinline__ void add(double, double, double a, double b, double (&sums)[2]) const {
    sums[0] += a;
    sums[1] += b;
  }
  __device__ __forceinline__ void combine(double, double, double (&)[2]) const {}
  __device__ __forceinline__ void finish(const Partition& p, int channel, const double (&sums)[2]) const {
    const auto rows = static_cast<double>(p.rows);
    const float of_w = w[channel], of_mean = mean[channel], of_var = var[channel];
    const double per_sigma = 1 / sqrt(of_var + eps);
    const double sum = sums[0], slope = sums[1] * per_sigma, scale = of_w * per_sigma;
    db[channel] = static_cast<float>(sum);
    dw[channel] = static_cast<float>(slope);
    batch_mean[channel] = of_mean;
    batch_var[channel] = static_cast<float>(of_var * (rows / max(1.0, rows - 1)));
    scratch.scale[channel] = static_cast<float>(scale);
    scratch.slope[channel] = static_cast<float>(-scale * per_sigma * slope / rows);
    scratch.offset[channel] = static_cast<float>(-scale * sum / rows);
    scratch.forward_scale[channel] = scale_of(of_w, of_var, eps);
  }
};

/// A part's sums of g and of g (x - mean). Shared memory: after that of the sums, with Mask::again, the result's scale
/// of each of the block's channels. The last blocks also merge the parts.
template <class T, int N, bool Aligned, Mask M, bool Sum>
__global__ void __launch_bounds__(kThreads, kResident<Aligned>)
    gradient_sums_of_parts(Partition p, const T* x, MaskSource<T> mask, const T* dy, const T* more_dy, const float* b,
                           T* dresidual, GradientMerge merge, unsigned* tickets) {
  const Work w = work(p);
  float sums[2 * N] = {};
  const int threads = blockDim.x * blockDim.y;
  float* shared_scales = shared_memory<float>(sizeof(sums) * threads);
  if constexpr (M == Mask::again) {
    const int first = w.channel - static_cast<int>(threadIdx.x) * N;
    for (int i = threadIdx.y * blockDim.x + threadIdx.x; i < p.columns * N; i += threads)
      if (first + i < p.channels) shared_scales[i] = scale_of(merge.w[first + i], merge.var[first + i], merge.eps);
    __syncthreads();
  }
  if (w.any) {
    using Row = GradientRow<T, N, Aligned, M, Sum>;
    const auto of_row = [&](int64_t at) { return Row::at(x, mask, dy, more_dy, at); };
    const auto means = factors<N, Aligned>(merge.mean + w.channel);
    Floats<N> scales = {}, shifts = {};
    if constexpr (M == Mask::again) {
      scales = factors<N, Aligned>(shared_scales + threadIdx.x * N);
      shifts = factors<N, Aligned>(b + w.channel);
    }
    constexpr int kPacks = 2 + (M == Mask::from_y) + Sum;  // of a row: more rows have no place in registers
    for_rows<kPacks == 2 ? 3 : 2>(p, w, of_row, [&](int64_t at, const Row& row) {
      const Floats<N> g = row.gradient(means, scales, shifts), v = floats(row.x);
      if (M != Mask::again && dresidual != nullptr) store<N, Aligned>(g, dresidual + at);
      for (int i = 0; i < N; ++i) {
        sums[i] += g.at[i];
        sums[N + i] = __fmaf_rn(g.at[i], v.at[i] - means.at[i], sums[N + i]);
      }
    });
  }
  sum_over_lanes(sums);
  if (threadIdx.y == 0 && w.any) {
    double* out = merge.scratch.parts + int64_t{w.part} * 2 * p.channels + w.channel;
    for (int i = 0; i < N; ++i) {
      out[i] = sums[i];
      out[p.channels + i] = sums[N + i];
    }
  }
  merge_by_last_blocks(p, merge, tickets);
}

template <class T, int N, bool Aligned, Mask M>
__global__ void __launch_bounds__(kThreads, kResident<Aligned>)
    gradient_of_x(Partition p, const T* __restrict__ x, MaskSource<T> mask, const T* __restrict__ dy,
                  const float* __restrict__ mean, const float* __restrict__ b, Scratch scratch, T* __restrict__ dx) {
  const Work w = work_backwards(p);
  if (!w.any) return;
  using Row = GradientRow<T, N, Aligned, M>;
  const auto of_row = [&](int64_t at) { return Row::at(x, mask, dy, nullptr, at); };
  const auto of_channels = [&](const float* from) { return factors<N, Aligned>(from + w.channel); };
  const auto means = of_channels(mean), scales = of_channels(scratch.scale), slopes = of_channels(scratch.slope),
             offsets = of_channels(scratch.offset);
  Floats<N> forward_scales = {}, shifts = {};
  if constexpr (M == Mask::again) forward_scales = of_channels(scratch.forward_scale), shifts = of_channels(b);
  for_rows<2>(p, w, of_row, [&](int64_t at, const Row& row) {
    const Floats<N> g = row.gradient(means, forward_scales, shifts);
    Floats<N> v = floats(row.x);
    for (int i = 0; i < N; ++i) {
      const float straight = __fmaf_rn(v.at[i] - means.at[i], slopes.at[i], offsets.at[i]);
      v.at[i] = __fmaf_rn(g.at[i], scales.at[i], straight);
    }
    store<N, Aligned>(v, dx + at);
  });
}

/// Both gradients, with statistics that are given.
template <class T, int N, bool Aligned, bool Rectify>
__global__ void __launch_bounds__(kThreads, kResident<Aligned>)
    gradient_by_given(Partition p, const T* __restrict__ y, const T* __restrict__ dy, const float* __restrict__ scale,
                      T* __restrict__ dresidual, T* __restrict__ dx) {
  const Work w = work_backwards(p);
  if (!w.any) return;
  struct Row {
    Elements<T, N> y, dy;
  };
  const auto of_row = [&](int64_t at) {
    Row row;
    if constexpr (Rectify) row.y = load<N, Aligned>(y + at);
    row.dy = load<N, Aligned>(dy + at);
    return row;
  };
  const auto scales = factors<N, Aligned>(scale + w.channel);
  for_rows<Rectify ? 2 : 4>(p, w, of_row, [&](int64_t at, const Row& row) {
    Floats<N> g = floats(row.dy), y = {};
    if constexpr (Rectify) y = floats(row.y);
    for (int i = 0; i < N; ++i)
      if constexpr (Rectify)
        if (y.at[i] <= 0) g.at[i] = 0;
    if (dresidual != nullptr) store<N, Aligned>(g, dresidual + at);
    for (int i = 0; i < N; ++i) g.at[i] *= scales.at[i];
    store<N, Aligned>(g, dx + at);
  });
}

/// What is read of the ReLU alone.
template <Mask M, class T>
MaskSource<T> mask_source(const void* y, const uint8_t* bits) {
  return {M == Mask::from_y ? static_cast<const T*>(y) : nullptr, M == Mask::bits ? bits : nullptr};
}

/// call(std::integral_constant of a mask); y null: no ReLU, b null: not without y. N elements are an access.
template <int N, class Call>
cudaError_t with_mask(const void* y, const uint8_t* bits, const float* b, Call call) {
  if (y == nullptr) return call(std::integral_constant<Mask, Mask::none>());
  if constexpr (N == 8)
    if (bits != nullptr) return call(std::integral_constant<Mask, Mask::bits>());
  if (b == nullptr) return call(std::integral_constant<Mask, Mask::from_y>());
  return call(std::integral_constant<Mask, Mask::again>());
}

cudaError_t gradient_by_given_statistics(const BatchNormGradArgs& a, const Partition& parts, const Scratch& s,
                                         cudaStream_t stream) {
  const cudaError_t error = launch_given_statistics(a.shape, a.eps, a.w, a.var, s.scale, stream);
  if (error != cudaSuccess) return error;
  const Partition p = partition_of_result(parts);
  return with_access(
      a.shape,
      [&]<class T, int N, bool Aligned>(T, std::integral_constant<int, N>, std::bool_constant<Aligned>) {
        const auto kernel =
            a.y != nullptr ? gradient_by_given<T, N, Aligned, true> : gradient_by_given<T, N, Aligned, false>;
        return launch(kernel, grid_of_result(p), stream, p, static_cast<const T*>(a.y), static_cast<const T*>(a.dy),
                      s.scale, static_cast<T*>(a.dresidual), static_cast<T*>(a.dx));
      },
      a.y, a.dy, a.dresidual, a.dx, s.scale);
}

}  // namespace

cudaError_t batch_norm_grad(const BatchNormGradArgs& a, cudaStream_t stream) {
  if (!valid(a.shape)) return cudaErrorInvalidValue;
  if (a.more_dy != nullptr && (a.y == nullptr || a.dresidual == nullptr || a.dw == nullptr))
    return cudaErrorInvalidValue;
  if (a.mask != nullptr && (a.y == nullptr || !may_have_mask(a.shape))) return cudaErrorInvalidValue;
  const Partition p = partition(a.shape, kGradientBlocks);
  const Scratch s = scratch(p, a.workspace);
  if (a.dw == nullptr) return gradient_by_given_statistics(a, p, s, stream);
  if (a.tickets == nullptr) return cudaErrorInvalidValue;
  const GradientMerge merge{a.eps, a.w, a.mean, a.var, a.dw, a.db, a.batch_mean, a.batch_var, s};
  const cudaError_t error = with_access(
      a.shape,
      [&]<class T, int N, bool Aligned>(T, std::integral_constant<int, N>, std::bool_constant<Aligned>) {
        const float* const b = a.dresidual == nullptr ? a.b : nullptr;
        return with_mask<N>(a.y, a.mask, b, [&]<Mask M>(std::integral_constant<Mask, M>) {
          const size_t scales = M == Mask::again ? N * p.columns * sizeof(float) : 0;
          const auto start = [&]<bool Sum>(std::bool_constant<Sum>) {
            return launch_parts(gradient_sums_of_parts<T, N, Aligned, M, Sum>, p, sums_bytes(p, N) + scales, stream,
                                merge, a.tickets, static_cast<const T*>(a.x), mask_source<M, T>(a.y, a.mask),
                                static_cast<const T*>(a.dy), static_cast<const T*>(a.more_dy), b,
                                static_cast<T*>(a.dresidual));
          };
          if constexpr (M == Mask::from_y || M == Mask::bits)
            if (a.more_dy != nullptr) return start(std::true_type());
          return start(std::false_type());
        });
      },
      a.x, a.y, a.dy, a.more_dy, a.dresidual, a.mean, a.b);
  if (error != cudaSuccess) return error;
  const void* y = a.dresidual == nullptr ? a.y : nullptr;  // dresidual is dy with the ReLU already in it
  const void* dy = a.dresidual == nullptr ? a.dy : a.dresidual;
  const Partition last = partition_of_result(p);
  return with_access(
      a.shape,
      [&]<class T, int N, bool Aligned>(T, std::integral_constant<int, N>, std::bool_constant<Aligned>) {
        return with_mask<N>(y, a.mask, a.b, [&]<Mask M>(std::integral_constant<Mask, M>) {
          return launch(gradient_of_x<T, N, Aligned, M>, grid_of_result(last), stream, last, static_cast<const T*>(a.x),
                        mask_source<M, T>(y, a.mask), static_cast<const T*>(dy), a.mean, a.b, s, static_cast<T*>(a.dx));
        });
      },
      a.x, y, dy, a.dx, a.mean, a.b, a.workspace);
}

}  // namespace ct::kernels
