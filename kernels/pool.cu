#include <limits>

#include "pool.h"

namespace ct::kernels {
namespace {

constexpr int kThreads = 256;

/// Groups of channels, [n][rows][columns][groups] of them, a thread each. In 32 bits, which are cheap to divide.
struct Groups {
  uint32_t rows, columns, groups, count;
};
struct Group {
  int64_t image, row, column, channel;  // the first of N channels
};
template <int N>
__device__ __forceinline__ Group group_at(const Groups& all, uint32_t i) {
  const uint32_t window = i / all.groups, line = window / all.columns, image = line / all.rows;
  return {image, line - image * all.rows, window - line * all.columns, int64_t{i - window * all.groups} * N};
}

/// Windows of a line of `size` pixels.
__host__ __device__ constexpr int64_t windows_of(int64_t size, int64_t kernel, int64_t stride, int64_t pad) {
  return size + 2 * pad < kernel ? 0 : (size + 2 * pad - kernel) / stride + 1;
}

/// A thread N channels of a window. Kernel 0: as the arguments say. Inside: there is no pad, so that windows lie in the
/// image.
template <class T, int N, int Kernel, bool Inside>
__global__ void __launch_bounds__(kThreads) pool_windows(MaxPoolArgs a, Groups all) {
  const int kernel = Kernel == 0 ? a.kernel : Kernel;
  const uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= all.count) return;
  const Group at = group_at<N>(all, i);
  const int64_t top = at.row * a.stride - a.pad, left = at.column * a.stride - a.pad;
  const T* image = static_cast<const T*>(a.x) + at.image * a.height * a.width * a.channels + at.channel;
  float best[N] = {};
  int first[N] = {};
  bool any = false;
  for (int row = 0; row < kernel; ++row)
    for (int column = 0; column < kernel; ++column) {
      const int64_t y = top + row, x = left + column;
      if (!Inside && (y < 0 || y >= a.height || x < 0 || x >= a.width)) continue;
      const auto here = *reinterpret_cast<const Pack<T, N>*>(image + (y * a.width + x) * a.channels);
      const int place = row * kernel + column;
      for (int k = 0; k < N; ++k) {
        const float value = to_float(here.at[k]);
        const bool better = !any || value > best[k];
        best[k] = better ? value : best[k];
        first[k] = better ? place : first[k];
      }
      any = true;
    }
  Pack<T, N> y;
  Pack<uint8_t, N> argmax;
  for (int k = 0; k < N; ++k) {
    y.at[k] = from_float<T>(best[k]);
    argmax.at[k] = static_cast<uint8_t>(first[k]);
  }
  static_cast<Pack<T, N>*>(a.y)[i] = y;
  reinterpret_cast<Pack<uint8_t, N>*>(a.argmax)[i] = argmax;
}

/// A thread N channels of a window, those that the edge cuts included; windows lie side by side. Size 0: as the
/// arguments say.
template <class T, int N, int Size>
__global__ void __launch_bounds__(kThreads) spread_windows(MaxPoolGradArgs a, Groups all) {
  const int size = Size == 0 ? a.kernel : Size;
  const uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= all.count) return;
  const Group at = group_at<N>(all, i);
  const int64_t rows = all.rows - (int64_t{all.rows} * size > a.height ? 1 : 0);  // of whole windows
  const int64_t columns = all.columns - (int64_t{all.columns} * size > a.width ? 1 : 0);
  float dy[N] = {};
  int argmax[N] = {};
  if (at.row < rows && at.column < columns) {
    const int64_t from = ((at.image * rows + at.row) * columns + at.column) * a.channels + at.channel;
    const auto values = *reinterpret_cast<const Pack<T, N>*>(static_cast<const T*>(a.dy) + from);
    const auto places = *reinterpret_cast<const Pack<uint8_t, N>*>(a.argmax + from);
    for (int k = 0; k < N; ++k) {
      dy[k] = to_float(values.at[k]);
      argmax[k] = places.at[k];
    }
  }
  for (int row = 0; row < size; ++row)
    for (int column = 0; column < size; ++column) {
      const int64_t y = at.row * size + row, x = at.column * size + column;
      if (y >= a.height || x >= a.width) continue;
      Pack<T, N> dx;
      for (int k = 0; k < N; ++k) dx.at[k] = from_float<T>(argmax[k] == row * size + column ? dy[k] : 0);
      const int64_t pixel = (at.image * a.height + y) * a.width + x;
      static_cast<Pack<T, N>*>(a.dx)[(pixel * a.channels + at.channel) / N] = dx;
    }
}

/// A thread N channels of a pixel: what the windows give it in which it lies. Kernel and Stride 0: as the arguments
/// say.
template <class T, int N, int Kernel, int Stride>
__global__ void __launch_bounds__(kThreads) gather_windows(MaxPoolGradArgs a, Groups all) {
  const int kernel = Kernel == 0 ? a.kernel : Kernel, stride = Stride == 0 ? a.stride : Stride;
  const uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= all.count) return;
  const Group at = group_at<N>(all, i);
  const int64_t rows = windows_of(a.height, kernel, stride, a.pad),
                columns = windows_of(a.width, kernel, stride, a.pad);
  const int y = static_cast<int>(at.row) + a.pad, x = static_cast<int>(at.column) + a.pad;  // in the padded image
  const int first_row = y < kernel ? 0 : (y - kernel) / stride + 1;
  const int first_column = x < kernel ? 0 : (x - kernel) / stride + 1;
  float dx[N] = {};
  for (int row = first_row; row < rows && row * stride <= y; ++row)
    for (int column = first_column; column < columns && column * stride <= x; ++column) {
      const int64_t from = ((at.image * rows + row) * columns + column) * a.channels + at.channel;
      const auto values = *reinterpret_cast<const Pack<T, N>*>(static_cast<const T*>(a.dy) + from);
      const auto places = *reinterpret_cast<const Pack<uint8_t, N>*>(a.argmax + from);
      const int place = (y - row * stride) * kernel + (x - column * stride);
      for (int k = 0; k < N; ++k) dx[k] += places.at[k] == place ? to_float(values.at[k]) : 0;
    }
  Pack<T, N> result;
  for (int k = 0; k < N; ++k) result.at[k] = from_float<T>(dx[k]);
  static_cast<Pack<T, N>*>(a.dx)[i] = result;
}

constexpr int kColumns = 8;  // groups side by side
constexpr int kLanes = 16;   // pixels at a time

/// A block the image blockIdx.x, of the row of y the strip blockIdx.y.
template <class T, int N>
__global__ void __launch_bounds__(kColumns* kLanes) average_image(AveragePoolArgs a) {
  constexpr int kStrip = kColumns * N;
  const int64_t strip = int64_t{blockIdx.y} * kStrip, channel = strip + int64_t{threadIdx.x} * N;
  float sum[N] = {};
  if (channel < a.channels) {
    const T* x = static_cast<const T*>(a.x) + int64_t{blockIdx.x} * a.pixels * a.channels + channel;
    for (int64_t pixel = threadIdx.y; pixel < a.pixels; pixel += kLanes) {
      const auto at = *reinterpret_cast<const Pack<T, N>*>(x + pixel * a.channels);
      for (int k = 0; k < N; ++k) sum[k] += to_float(at.at[k]);
    }
  }
  float* lanes = shared_memory<float>();  // [kLanes][kStrip], zeros beyond the channels
  for (int k = 0; k < N; ++k) lanes[threadIdx.y * kStrip + threadIdx.x * N + k] = sum[k];
  __syncthreads();
  const int own = static_cast<int>(threadIdx.y * kColumns + threadIdx.x);
  if (own < kStrip && strip + own < a.y_stride) {
    float total = lanes[own];
    for (int lane = 1; lane < kLanes; ++lane) total += lanes[lane * kStrip + own];
    const float scale = 1 / static_cast<float>(a.pixels);
    static_cast<T*>(a.y)[int64_t{blockIdx.x} * a.y_stride + strip + own] = from_float<T>(total * scale);
  }
}

/// A thread N channels of a pixel.
template <class T, int N>
__global__ void __launch_bounds__(kThreads) spread_average(AveragePoolGradArgs a, Groups all) {
  const uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= all.count) return;
  const Group to = group_at<N>(all, i);
  auto at = *reinterpret_cast<const Pack<T, N>*>(static_cast<const T*>(a.dy) + to.image * a.dy_stride + to.channel);
  const float scale = 1 / static_cast<float>(a.pixels);
  for (int k = 0; k < N; ++k) at.at[k] = from_float<T>(to_float(at.at[k]) * scale);
  static_cast<Pack<T, N>*>(a.dx)[i] = at;
}

/// A thread each of [n][rows][columns][groups].
template <class Args>
cudaError_t launch_groups(void (*kernel)(Args, Groups), int64_t rows, int64_t columns, int64_t groups, const Args& args,
                          cudaStream_t stream) {
  const int64_t count = args.n * rows * columns * groups;
  if (count > std::numeric_limits<int32_t>::max()) return cudaErrorInvalidValue;
  const Groups all{static_cast<uint32_t>(rows), static_cast<uint32_t>(columns), static_cast<uint32_t>(groups),
                   static_cast<uint32_t>(count)};
  const auto blocks = static_cast<unsigned>(divide_up<int64_t>(count, kThreads));
  return launch(kernel, Grid{.blocks = blocks, .threads = kThreads}, stream, args, all);
}

template <class Args>
bool is_image(const Args& a) {
  return a.n >= 0 && a.height >= 0 && a.width >= 0 && a.channels >= 0;
}
template <class Args>
bool is_window(const Args& a) {
  return a.kernel >= 1 && a.kernel <= 15 && a.stride >= 1 && a.pad >= 0 && 2 * a.pad <= a.kernel;
}

}  // namespace

cudaError_t max_pool(const MaxPoolArgs& a, cudaStream_t stream) {
  if (!is_image(a) || !is_window(a)) return cudaErrorInvalidValue;
  const int64_t rows = windows_of(a.height, a.kernel, a.stride, a.pad);
  const int64_t columns = windows_of(a.width, a.kernel, a.stride, a.pad);
  return with_type(a.type, [&]<class T>(T) {
    constexpr int kWide = Pack<T>::kSize;
    if (a.channels % kWide != 0 || !aligned_16(a.x, a.y, a.argmax))
      return launch_groups(pool_windows<T, 1, 0, false>, rows, columns, a.channels, a, stream);
    const auto kernel = a.kernel == 2 && a.pad == 0 ? pool_windows<T, kWide, 2, true>
                        : a.kernel == 3             ? pool_windows<T, kWide, 3, false>
                                                    : pool_windows<T, kWide, 0, false>;
    return launch_groups(kernel, rows, columns, a.channels / kWide, a, stream);
  });
}

cudaError_t max_pool_grad(const MaxPoolGradArgs& a, cudaStream_t stream) {
  if (!is_image(a) || !is_window(a)) return cudaErrorInvalidValue;
  const bool side_by_side = a.stride == a.kernel && a.pad == 0;
  // Threads: one a window, or one a pixel where windows overlap or leave pixels out.
  const auto rows = divide_up<int64_t>(a.height, side_by_side ? a.kernel : 1);
  const auto columns = divide_up<int64_t>(a.width, side_by_side ? a.kernel : 1);
  return with_type(a.type, [&]<class T>(T) {
    constexpr int kWide = Pack<T>::kSize;
    if (a.channels % kWide != 0 || !aligned_16(a.dy, a.argmax, a.dx))
      return launch_groups(side_by_side ? spread_windows<T, 1, 0> : gather_windows<T, 1, 0, 0>, rows, columns,
                           a.channels, a, stream);
    const auto kernel = side_by_side ? (a.kernel == 2 ? spread_windows<T, kWide, 2> : spread_windows<T, kWide, 0>)
                        : a.kernel == 3 && a.stride == 2 ? gather_windows<T, kWide, 3, 2>
                                                         : gather_windows<T, kWide, 0, 0>;
    return launch_groups(kernel, rows, columns, a.channels / kWide, a, stream);
  });
}

cudaError_t average_pool(const AveragePoolArgs& a, cudaStream_t stream) {
  if (a.n < 0 || a.pixels < 1 || a.channels < 0 || a.y_stride < a.channels) return cudaErrorInvalidValue;
  return with_type(a.type, [&]<class T>(T) {
    const auto start = [&](auto kernel, int width) {
      const auto strips = divide_up<int64_t>(a.y_stride, kColumns * width);
      const Grid grid{.blocks = {static_cast<unsigned>(a.n), static_cast<unsigned>(strips)},
                      .threads = {kColumns, kLanes},
                      .shared_bytes = kLanes * kColumns * width * sizeof(float)};
      return launch(kernel, grid, stream, a);
    };
    constexpr int kWide = Pack<T>::kSize;
    return a.channels % kWide == 0 && aligned_16(a.x) ? start(average_image<T, kWide>, kWide)
                                                      : start(average_image<T, 1>, 1);
  });
}

cudaError_t average_pool_grad(const AveragePoolGradArgs& a, cudaStream_t stream) {
  if (a.n < 0 || a.pixels < 1 || a.channels < 0 || a.dy_stride < a.channels) return cudaErrorInvalidValue;
  return with_type(a.type, [&]<class T>(T) {
    constexpr int kWide = Pack<T>::kSize;
    if (a.channels % kWide != 0 || a.dy_stride % kWide != 0 || !aligned_16(a.dy, a.dx))
      return launch_groups(spread_average<T, 1>, 1, a.pixels, a.channels, a, stream);
    return launch_groups(spread_average<T, kWide>, 1, a.pixels, a.channels / kWide, a, stream);
  });
}

}  // namespace ct::kernels
