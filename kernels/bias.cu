#include "bias.h"

namespace ct::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kInFlight = 4;  // accesses that a thread starts before it waits for the first

/// Thread by thread kInFlight groups of N, a block's width apart.
template <class T, int N, bool Relu>
__global__ void __launch_bounds__(kThreads) add_bias(BiasArgs a) {
  const int64_t groups = a.stride / N, n = a.rows * groups;
  const int64_t first = int64_t{blockIdx.x} * kThreads * kInFlight + threadIdx.x;
  const auto* x = static_cast<const Pack<T, N>*>(a.x);
  Pack<T, N> at[kInFlight];
  for (int u = 0; u < kInFlight; ++u)
    if (const int64_t i = first + u * kThreads; i < n) at[u] = x[i];
  for (int u = 0; u < kInFlight; ++u) {
    const int64_t i = first + u * kThreads;
    if (i >= n) continue;
    const int64_t channel = i % groups * N;
    float b[N];
    if (channel + N <= a.channels)
      load_floats(a.b + channel, b);
    else
      for (int k = 0; k < N; ++k) b[k] = channel + k < a.channels ? a.b[channel + k] : 0;
    for (int k = 0; k < N; ++k) {
      float y = to_float(at[u].at[k]) + b[k];
      if (Relu && y <= 0) y = 0;
      at[u].at[k] = from_float<T>(channel + k < a.channels ? y : 0);
    }
    static_cast<Pack<T, N>*>(a.y)[i] = at[u];
  }
}

constexpr int kColumns = 8;  // groups side by side: 128 bytes of a row if they are wide
constexpr int kLanes = 32;   // rows at a time
constexpr int64_t kMinPart = 64, kMaxParts = 1024;

struct Parts {
  int64_t rows, count;
};
Parts parts_of(int64_t rows) {
  const int64_t part = divide_up(rows, kMaxParts) < kMinPart ? kMinPart : divide_up(rows, kMaxParts);
  return {part, rows == 0 ? 1 : divide_up(rows, part)};
}

/// Sums of the part blockIdx.x of the rows, of the channels that lie in strip blockIdx.y, into sums [parts][channels].
template <class T, int N, bool Masked>
__global__ void __launch_bounds__(kColumns* kLanes) sum_part(BiasGradArgs a, int64_t part, float* sums) {
  constexpr int kStrip = kColumns * N;
  const int64_t strip = int64_t{blockIdx.y} * kStrip, channel = strip + int64_t{threadIdx.x} * N;
  const int64_t begin = int64_t{blockIdx.x} * part, end = begin + part < a.rows ? begin + part : a.rows;
  float sum[N] = {};
  if (channel < a.channels) {
    // A group may reach into the row's pads: their sums are not used.
    for (int64_t row = begin + threadIdx.y; row < end; row += kLanes) {
      const auto dy = *reinterpret_cast<const Pack<T, N>*>(static_cast<const T*>(a.dy) + row * a.stride + channel);
      Pack<T, N> y;
      if constexpr (Masked)
        y = *reinterpret_cast<const Pack<T, N>*>(static_cast<const T*>(a.y) + row * a.stride + channel);
      for (int k = 0; k < N; ++k) sum[k] += Masked && to_float(y.at[k]) <= 0 ? 0 : to_float(dy.at[k]);
    }
  }
  float* lanes = shared_memory<float>();  // [kLanes][kStrip]
  for (int k = 0; k < N; ++k) lanes[threadIdx.y * kStrip + threadIdx.x * N + k] = sum[k];
  __syncthreads();
  const int own = static_cast<int>(threadIdx.y * kColumns + threadIdx.x);
  if (own < kStrip && strip + own < a.channels) {
    float total = lanes[own];
    for (int lane = 1; lane < kLanes; ++lane) total += lanes[lane * kStrip + own];
    sums[int64_t{blockIdx.x} * a.channels + strip + own] = total;
  }
}

/// db = the parts' sums, a warp's width of channels a block.
__global__ void __launch_bounds__(kWarp* kLanes)
    sum_parts(const float* sums, int64_t parts, int64_t channels, float* db) {
  const int64_t channel = int64_t{blockIdx.x} * kWarp + threadIdx.x;
  float sum = 0;
  if (channel < channels)
    for (int64_t part = threadIdx.y; part < parts; part += kLanes) sum += sums[part * channels + channel];
  float* lanes = shared_memory<float>();  // [kLanes][kWarp]
  lanes[threadIdx.y * kWarp + threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y == 0 && channel < channels) {
    for (int lane = 1; lane < kLanes; ++lane) sum += lanes[lane * kWarp + threadIdx.x];
    db[channel] = sum;
  }
}

template <class T, int N>
cudaError_t launch_sum_part(const BiasGradArgs& a, const Parts& parts, float* sums, cudaStream_t stream) {
  const Grid grid{.blocks = {static_cast<unsigned>(parts.count),
                             static_cast<unsigned>(divide_up<int64_t>(a.channels, kColumns * N))},
                  .threads = {kColumns, kLanes},
                  .shared_bytes = kLanes * kColumns * N * sizeof(float)};
  return a.y == nullptr ? launch(sum_part<T, N, /*Masked=*/false>, grid, stream, a, parts.rows, sums)
                        : launch(sum_part<T, N, /*Masked=*/true>, grid, stream, a, parts.rows, sums);
}

}  // namespace

cudaError_t bias(const BiasArgs& a, cudaStream_t stream) {
  if (a.rows < 0 || a.channels < 0 || a.stride < a.channels) return cudaErrorInvalidValue;
  return with_type(a.type, [&]<class T>(T) {
    constexpr int kWide = Pack<T>::kSize;
    const auto start = [&](auto kernel, int width) {
      const int64_t blocks = divide_up<int64_t>(a.rows * a.stride / width, kThreads * kInFlight);
      return launch(kernel, Grid{.blocks = static_cast<unsigned>(blocks), .threads = kThreads}, stream, a);
    };
    if (aligned_16(a.x, a.b, a.y) && a.stride % kWide == 0)
      return a.relu ? start(add_bias<T, kWide, /*Relu=*/true>, kWide)
                    : start(add_bias<T, kWide, /*Relu=*/false>, kWide);
    return a.relu ? start(add_bias<T, 1, /*Relu=*/true>, 1) : start(add_bias<T, 1, /*Relu=*/false>, 1);
  });
}

size_t bias_grad_workspace_bytes(int64_t rows, int64_t channels) {
  const int64_t parts = parts_of(rows).count;
  return parts == 1 ? 0 : static_cast<size_t>(parts * channels) * sizeof(float);
}

cudaError_t bias_grad(const BiasGradArgs& a, cudaStream_t stream) {
  if (a.rows < 0 || a.channels < 0 || a.stride < a.channels) return cudaErrorInvalidValue;
  const Parts parts = parts_of(a.rows);
  float* sums = parts.count == 1 ? a.db : a.workspace;
  const cudaError_t error = with_type(a.type, [&]<class T>(T) {
    constexpr int kWide = Pack<T>::kSize;
    return aligned_16(a.dy, a.y) && a.stride % kWide == 0 ? launch_sum_part<T, kWide>(a, parts, sums, stream)
                                                          : launch_sum_part<T, 1>(a, parts, sums, stream);
  });
  if (error != cudaSuccess || parts.count == 1) return error;
  const Grid grid{.blocks = static_cast<unsigned>(divide_up<int64_t>(a.channels, kWarp)),
                  .threads = {kWarp, kLanes},
                  .shared_bytes = kLanes * kWarp * sizeof(float)};
  return launch(sum_parts, grid, stream, sums, parts.count, a.channels, a.db);
}

}  // namespace ct::kernels
