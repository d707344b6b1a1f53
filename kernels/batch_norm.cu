#include "batch_norm.h"
#include "batch_norm_parts.h"

namespace ct::kernels {
namespace {

/// Merges the parts' statistics to those of all rows.
struct StatisticsMerge {
  double eps;
  const float* w;
  Scratch scratch;
  float *mean, *var;

  /// The first mean, from which the means' differences are summed.
  __device__ __forceinline__ double origin(const Partition& p, const Range& range, int channel) const {
    return number(p, scratch.parts, range.first, 0, channel);
  }
  /// Adds the difference of the mean `a` of that many rows and the squared differences, of which `b` are from `a`.
  __device__ __forceinline__ void add(double origin, double rows, double a, double b, double (&sums)[2]) const {
    const double from_origin = a - origin;
    sums[0] += rows * from_origin;
    sums[1] += b + rows * from_origin * from_origin;
  }
  /// The two numbers of the rows that `sums` are of.
  __device__ __forceinline__ void combine(double origin, double rows, double (&sums)[2]) const {
    const double shift = sums[0] / rows;
    sums[1] -= shift * sums[0];
    sums[0] = origin + shift;
  }
  __device__ __forceinline__ void finish(const Partition& p, int channel, const double (&of_all)[2]) const {
    const double variance = of_all[1] / static_cast<double>(p.rows);
    const auto rounded = static_cast<float>(variance < 0 ? 0 : variance);  // NaN stays NaN
    mean[channel] = static_cast<float>(of_all[0]);
    var[channel] = rounded;
    scratch.scale[channel] = scale_of(w[channel], rounded, eps);
  }
};

/// A part's mean and sum of squared differences from it, of every channel; the last blocks also merge them.
template <class T, int N, bool Aligned>
__global__ void __launch_bounds__(kThreads, kResidentStatistics<Aligned>)
    statistics_of_parts(Partition p, const T* __restrict__ x, StatisticsMerge merge, unsigned* tickets) {
  Work w = work(p);
  if (!w.any) w.end = w.begin;  // no row: without a branch around the loop
  float sums[2 * N] = {};
  const Floats<N> first = floats(load<N, Aligned>(x + w.begin * p.channels + (w.any ? w.channel : 0)));
  const auto of_row = [&](int64_t at) { return load<N, Aligned>(x + at); };
  for_rows<4>(p, w, of_row, [&](int64_t, const Elements<T, N>& row) {
    const Floats<N> v = floats(row);
    for (int i = 0; i < N; ++i) {
      const float from_first = v.at[i] - first.at[i];
      sums[i] += from_first;
      sums[N + i] = __fmaf_rn(from_first, from_first, sums[N + i]);
    }
  });
  sum_over_lanes(sums);
  if (threadIdx.y == 0 && w.any) {
    const auto rows = static_cast<double>(w.end - w.begin);
    double* out = merge.scratch.parts + int64_t{w.part} * 2 * p.channels + w.channel;
    for (int i = 0; i < N; ++i) {
      const double mean = sums[i] / rows;
      out[i] = first.at[i] + mean;
      out[p.channels + i] = sums[N + i] - mean * sums[i];
    }
  }
  merge_by_last_blocks(p, merge, tickets);
}

/// What StatisticsMerge leaves for the result, of statistics that are given.
__global__ void __launch_bounds__(kThreads)
    given_statistics(int64_t channels, double eps, const float* w, const float* var, float* scale) {
  const int64_t channel = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (channel < channels) scale[channel] = scale_of(w[channel], var[channel], eps);
}

/// Keeps: also the mask.
template <class T, int N, bool Aligned, bool Residual, bool Keeps>
__global__ void __launch_bounds__(kThreads, kResident<Aligned>)
    result(Partition p, bool relu, const T* __restrict__ x, const T* __restrict__ residual,
           const float* __restrict__ mean, const float* __restrict__ scale, const float* __restrict__ b,
           T* __restrict__ y, uint8_t* __restrict__ mask) {
  const Work w = work_backwards(p);
  if (!w.any) return;
  struct Row {
    Elements<T, N> x, residual;
  };
  const auto of_row = [&](int64_t at) {
    Row row;
    row.x = load<N, Aligned>(x + at);
    if constexpr (Residual) row.residual = load<N, Aligned>(residual + at);
    return row;
  };
  const auto means = factors<N, Aligned>(mean + w.channel), scales = factors<N, Aligned>(scale + w.channel),
             shifts = factors<N, Aligned>(b + w.channel);
  for_rows<Residual ? 2 : 4>(p, w, of_row, [&](int64_t at, const Row& row) {
    Floats<N> v = floats(row.x), r = {};
    if constexpr (Residual) r = floats(row.residual);
    for (int i = 0; i < N; ++i) {
      v.at[i] = normalised(v.at[i], means.at[i], scales.at[i], shifts.at[i]);
      if constexpr (Residual) v.at[i] += r.at[i];
      if (relu && v.at[i] <= 0) v.at[i] = 0;  // NaN stays NaN
    }
    store<N, Aligned>(v, y + at);
    if constexpr (Keeps) {
      unsigned bits = 0;
      for (int i = 0; i < N; ++i) bits |= to_float(from_float<T>(v.at[i])) <= 0 ? 0u : 1u << i;
      mask[at / N] = static_cast<uint8_t>(bits);
    }
  });
}

cudaError_t launch_result(const BatchNormArgs& a, const Partition& parts, const float* scale, cudaStream_t stream) {
  const Partition p = partition_of_result(parts);
  return with_access(
      a.shape,
      [&]<class T, int N, bool Aligned>(T, std::integral_constant<int, N>, std::bool_constant<Aligned>) {
        auto kernel = a.residual != nullptr ? result<T, N, Aligned, true, false> : result<T, N, Aligned, false, false>;
        if constexpr (N == 8)
          if (a.mask != nullptr) kernel = result<T, N, Aligned, true, true>;
        return launch(kernel, grid_of_result(p), stream, p, a.relu, static_cast<const T*>(a.x),
                      static_cast<const T*>(a.residual), a.mean, scale, a.b, static_cast<T*>(a.y), a.mask);
      },
      a.x, a.residual, a.y, a.mean, scale, a.b);
}

}  // namespace

cudaError_t launch_given_statistics(const BatchNormShape& shape, double eps, const float* w, const float* var,
                                    float* scale, cudaStream_t stream) {
  const Grid grid{dim3(static_cast<unsigned>(divide_up<int64_t>(shape.channels, kThreads))), dim3(kThreads)};
  return launch(given_statistics, grid, stream, shape.channels, eps, w, var, scale);
}

cudaError_t batch_norm(const BatchNormArgs& a, cudaStream_t stream) {
  if (!valid(a.shape) || a.tickets == nullptr) return cudaErrorInvalidValue;
  if (a.mask != nullptr && !(a.relu && a.residual != nullptr && may_have_mask(a.shape))) return cudaErrorInvalidValue;
  const Partition p = partition(a.shape, kStatisticsBlocks);
  const Scratch s = scratch(p, a.workspace);
  const cudaError_t error = with_access(
      a.shape,
      [&]<class T, int N, bool Aligned>(T, std::integral_constant<int, N>, std::bool_constant<Aligned>) {
        const StatisticsMerge merge{a.eps, a.w, s, a.mean, a.var};
        return launch_parts(statistics_of_parts<T, N, Aligned>, p, sums_bytes(p, N), stream, merge, a.tickets,
                            static_cast<const T*>(a.x));
      },
      a.x);
  return error == cudaSuccess ? launch_result(a, p, s.scale, stream) : error;
}

cudaError_t batch_norm_result(const BatchNormArgs& a, cudaStream_t stream) {
  if (!valid(a.shape)) return cudaErrorInvalidValue;
  const Partition p = partition(a.shape, kStatisticsBlocks);
  const Scratch s = scratch(p, a.workspace);
  const cudaError_t error = launch_given_statistics(a.shape, a.eps, a.w, a.var, s.scale, stream);
  return error == cudaSuccess ? launch_result(a, p, s.scale, stream) : error;
}

size_t batch_norm_workspace(const BatchNormShape& shape) {
  if (!valid(shape)) return 0;
  const int64_t parts = std::max(partition(shape, kStatisticsBlocks).parts, partition(shape, kGradientBlocks).parts);
  return static_cast<size_t>(shape.channels) *
         (static_cast<size_t>(parts) * 2 * sizeof(double) + kFactors * sizeof(float));
}

}  // namespace ct::kernels
