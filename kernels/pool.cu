#include <limits>

#include "divisor.h"
#include "pool.h"

namespace ct::kernels {
namespace {

constexpr int kThreads = 256;

/// Groups of channels, [n][rows][columns][groups] of them, a thread each.
struct Groups {
  Divisor rows, columns, groups;
  uint32_t count;
};
struct Group {
  int64_t image, row, column, channel;  // the first of N channels
};
template <int N>
__device__ __forceinline__ Group group_at(const Groups& all, uint32_t i) {
  const uint32_t window = all.groups.divide(i), line = all.columns.divide(window), image = all.rows.divide(line);
  return {image, line - image * all.rows.by, window - line * all.columns.by, int64_t{i - window * all.groups.by} * N};
}

/// Windows of a line of `size` pixels.
__host__ __device__ constexpr int64_t windows_of(int64_t size, int64_t kernel, int64_t stride, int64_t pad) {
  return size + 2 * pad < kernel ? 0 : (size + 2 * pad - kernel) / stride + 1;
}

/// The first maximum of N channels: the first pixel, then each that is greater than what was the greatest before.
template <class T, int N>
struct Maxima {
  float best[N] = {};
  int place[N] = {};
  bool any = false;
  __device__ __forceinline__ void take(const Pack<T, N>& here, int at) {
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const float value = to_float(here.at[k]);
      const bool better = !any || value > best[k];
      best[k] = better ? value : best[k];
      place[k] = better ? at : place[k];
    }
    any = true;
  }
};

/// A thread N channels of a window. Kernel 0: as the arguments say.
template <class T, int N, int Kernel>
__global__ void __launch_bounds__(kThreads) pool_windows(MaxPoolArgs a, Groups all) {
  const uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= all.count) return;
  const Group at = group_at<N>(all, i);
  const int64_t top = at.row * a.stride - a.pad, left = at.column * a.stride - a.pad;
  const T* image = static_cast<const T*>(a.x) + at.image * a.height * a.width * a.channels + at.channel;
  const auto load = [&](int64_t y, int64_t x) {
    return *reinterpret_cast<const Pack<T, N>*>(image + (y * a.width + x) * a.channels);
  };
  Maxima<T, N> maxima;
  if constexpr (Kernel == 0) {
    for (int row = 0; row < a.kernel; ++row)
      for (int column = 0; column < a.kernel; ++column)
        if (const int64_t y = top + row, x = left + column; y >= 0 && y < a.height && x >= 0 && x < a.width)
          maxima.take(load(y, x), row * a.kernel + column);
  } else {
    // All loads at once, without a branch: a pixel outside the image is replaced by the nearest inside, which lies in
    // the window too. A pixel that is taken twice, at its own place, changes neither the first nor the first maximum.
    const int first_y = static_cast<int>(top), first_x = static_cast<int>(left);
    int rows[Kernel], columns[Kernel];
    for (int k = 0; k < Kernel; ++k) {
      rows[k] = min(max(first_y + k, 0), static_cast<int>(a.height) - 1);
      columns[k] = min(max(first_x + k, 0), static_cast<int>(a.width) - 1);
    }
    Pack<T, N> pixels[Kernel][Kernel];
#pragma unroll
    for (int row = 0; row < Kernel; ++row)
#pragma unroll
      for (int column = 0; column < Kernel; ++column) pixels[row][column] = load(rows[row], columns[column]);
#pragma unroll
    for (int row = 0; row < Kernel; ++row)
#pragma unroll
      for (int column = 0; column < Kernel; ++column)
        maxima.take(pixels[row][column], (rows[row] - first_y) * Kernel + columns[column] - first_x);
  }
  Pack<T, N> y;
  Pack<uint8_t, N> argmax;
  for (int k = 0; k < N; ++k) {
    y.at[k] = from_float<T>(maxima.best[k]);
    argmax.at[k] = static_cast<uint8_t>(maxima.place[k]);
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
  const int64_t rows = all.rows.by - (int64_t{all.rows.by} * size > a.height ? 1 : 0);  // of whole windows
  const int64_t columns = all.columns.by - (int64_t{all.columns.by} * size > a.width ? 1 : 0);
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

/// A thread N channels of a pixel: what the windows give it in which it lies.
template <class T, int N>
__global__ void __launch_bounds__(kThreads) gather_windows(MaxPoolGradArgs a, Groups all) {
  const int kernel = a.kernel, stride = a.stride;
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

/// The same for overlapping windows of known sizes: a thread N channels of a square of Stride x Stride pixels of the
/// padded image. Window b begins at the first pixel of square b, so only kReach x kReach windows reach into a square.
/// All are loaded at once; those that do not exist are replaced by the nearest, and their places match none.
template <class T, int N, int Kernel, int Stride>
__global__ void __launch_bounds__(kThreads) gather_squares(MaxPoolGradArgs a, Groups all, int rows, int columns) {
  constexpr int kReach = (Kernel + Stride - 1) / Stride, kNowhere = 256;
  const uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= all.count) return;
  const Group at = group_at<N>(all, i);
  const int first_row = static_cast<int>(at.row) - (kReach - 1),
            first_column = static_cast<int>(at.column) - (kReach - 1);
  float values[kReach][kReach][N];
  Pack<uint8_t, N> places[kReach][kReach];
#pragma unroll
  for (int r = 0; r < kReach; ++r)
#pragma unroll
    for (int c = 0; c < kReach; ++c) {
      const int row = min(max(first_row + r, 0), rows - 1), column = min(max(first_column + c, 0), columns - 1);
      const int64_t from = ((at.image * rows + row) * columns + column) * a.channels + at.channel;
      const auto dy = *reinterpret_cast<const Pack<T, N>*>(static_cast<const T*>(a.dy) + from);
      places[r][c] = *reinterpret_cast<const Pack<uint8_t, N>*>(a.argmax + from);
#pragma unroll
      for (int k = 0; k < N; ++k) values[r][c][k] = to_float(dy.at[k]);
    }
#pragma unroll
  for (int down = 0; down < Stride; ++down)
#pragma unroll
    for (int right = 0; right < Stride; ++right) {
      float dx[N] = {};
#pragma unroll
      for (int r = 0; r < kReach; ++r)
#pragma unroll
        for (int c = 0; c < kReach; ++c) {
          const int place_y = down + (kReach - 1 - r) * Stride, place_x = right + (kReach - 1 - c) * Stride;
          if (place_y >= Kernel || place_x >= Kernel) continue;
          const int row = first_row + r, column = first_column + c;
          const bool exists = row >= 0 && row < rows && column >= 0 && column < columns;
          const int place = exists ? place_y * Kernel + place_x : kNowhere;
#pragma unroll
          for (int k = 0; k < N; ++k)
            if (places[r][c].at[k] == place) dx[k] += values[r][c][k];
        }
      const int y = static_cast<int>(at.row) * Stride + down - a.pad;
      const int x = static_cast<int>(at.column) * Stride + right - a.pad;
      if (y < 0 || y >= a.height || x < 0 || x >= a.width) continue;
      Pack<T, N> result;
#pragma unroll
      for (int k = 0; k < N; ++k) result.at[k] = from_float<T>(dx[k]);
      T* to = static_cast<T*>(a.dx) + ((at.image * a.height + y) * a.width + x) * a.channels + at.channel;
      *reinterpret_cast<Pack<T, N>*>(to) = result;
    }
}

constexpr int kColumns = 8;   // groups side by side
constexpr int kLanes = 16;    // pixels at a time
constexpr int kInFlight = 4;  // loads that a thread starts before it waits for the first
constexpr int kSpread = 8;    // pixels that a thread of the gradient writes

/// A block the image blockIdx.x, of the row of y the strip blockIdx.y.
template <class T, int N>
__global__ void __launch_bounds__(kColumns* kLanes) average_image(AveragePoolArgs a) {
  constexpr int kStrip = kColumns * N;
  const int64_t strip = int64_t{blockIdx.y} * kStrip, channel = strip + int64_t{threadIdx.x} * N;
  float sum[N] = {};
  if (channel < a.channels) {
    const T* x = static_cast<const T*>(a.x) + int64_t{blockIdx.x} * a.pixels * a.channels + channel;
#pragma unroll 1
    for (int64_t first = threadIdx.y; first < a.pixels; first += kInFlight * kLanes) {
      Pack<T, N> at[kInFlight] = {};
#pragma unroll
      for (int u = 0; u < kInFlight; ++u)
        if (const int64_t pixel = first + u * kLanes; pixel < a.pixels)
          at[u] = *reinterpret_cast<const Pack<T, N>*>(x + pixel * a.channels);
#pragma unroll
      for (int u = 0; u < kInFlight; ++u)
        for (int k = 0; k < N; ++k)
          sum[k] += to_float(at[u].at[k]);  // a sum from 0 on is never -0, which 0 would change
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

/// A thread N channels of kSpread pixels.
template <class T, int N>
__global__ void __launch_bounds__(kThreads) spread_average(AveragePoolGradArgs a, Groups all) {
  const uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= all.count) return;
  const Group to = group_at<N>(all, i);
  auto at = *reinterpret_cast<const Pack<T, N>*>(static_cast<const T*>(a.dy) + to.image * a.dy_stride + to.channel);
  const float scale = 1 / static_cast<float>(a.pixels);
  for (int k = 0; k < N; ++k) at.at[k] = from_float<T>(to_float(at.at[k]) * scale);
  T* dx = static_cast<T*>(a.dx) + to.image * a.pixels * a.channels + to.channel;
#pragma unroll
  for (int p = 0; p < kSpread; ++p)
    if (const int64_t pixel = to.column * kSpread + p; pixel < a.pixels)
      *reinterpret_cast<Pack<T, N>*>(dx + pixel * a.channels) = at;
}

bool is_small(int64_t count) { return count <= std::numeric_limits<int32_t>::max(); }

/// A thread each of [n][rows][columns][groups].
template <class Args, class... More>
cudaError_t launch_groups(void (*kernel)(Args, Groups, More...), int64_t rows, int64_t columns, int64_t groups,
                          const Args& args, cudaStream_t stream, More... more) {
  const int64_t count = args.n * rows * columns * groups;
  if (!is_small(count)) return cudaErrorInvalidValue;
  if (count == 0) return cudaSuccess;
  const Groups all{Divisor(static_cast<uint32_t>(rows)), Divisor(static_cast<uint32_t>(columns)),
                   Divisor(static_cast<uint32_t>(groups)), static_cast<uint32_t>(count)};
  const auto blocks = static_cast<unsigned>(divide_up<int64_t>(count, kThreads));
  return launch(kernel, Grid{.blocks = blocks, .threads = kThreads}, stream, args, all, more...);
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
      return launch_groups(pool_windows<T, 1, 0>, rows, columns, a.channels, a, stream);
    const bool has_pixels = is_small(2 * a.height) && is_small(2 * a.width) && 2 * a.pad < a.kernel;  // every window
    const auto kernel = has_pixels && a.kernel == 2   ? pool_windows<T, kWide, 2>
                        : has_pixels && a.kernel == 3 ? pool_windows<T, kWide, 3>
                                                      : pool_windows<T, kWide, 0>;
    return launch_groups(kernel, rows, columns, a.channels / kWide, a, stream);
  });
}

cudaError_t max_pool_grad(const MaxPoolGradArgs& a, cudaStream_t stream) {
  if (!is_image(a) || !is_window(a)) return cudaErrorInvalidValue;
  const bool side_by_side = a.stride == a.kernel && a.pad == 0;
  // Threads: one per window, or one per pixel where windows overlap or leave pixels out.
  const auto rows = divide_up<int64_t>(a.height, side_by_side ? a.kernel : 1);
  const auto columns = divide_up<int64_t>(a.width, side_by_side ? a.kernel : 1);
  return with_type(a.type, [&]<class T>(T) {
    constexpr int kWide = Pack<T>::kSize;
    if (a.channels % kWide != 0 || !aligned_16(a.dy, a.argmax, a.dx))
      return launch_groups(side_by_side ? spread_windows<T, 1, 0> : gather_windows<T, 1>, rows, columns, a.channels, a,
                           stream);
    const int64_t groups = a.channels / kWide;
    const int64_t window_rows = windows_of(a.height, a.kernel, a.stride, a.pad);
    const int64_t window_columns = windows_of(a.width, a.kernel, a.stride, a.pad);
    if (a.kernel == 3 && a.stride == 2 && window_rows > 0 && window_columns > 0 && is_small(2 * a.height) &&
        is_small(2 * a.width)) {
      if (!is_small(a.n * a.height * a.width * groups)) return cudaErrorInvalidValue;
      return launch_groups(gather_squares<T, kWide, 3, 2>, divide_up<int64_t>(a.height + a.pad, 2),
                           divide_up<int64_t>(a.width + a.pad, 2), groups, a, stream, static_cast<int>(window_rows),
                           static_cast<int>(window_columns));
    }
    const auto kernel = !side_by_side   ? gather_windows<T, kWide>
                        : a.kernel == 2 ? spread_windows<T, kWide, 2>
                                        : spread_windows<T, kWide, 0>;
    return launch_groups(kernel, rows, columns, groups, a, stream);
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
    const bool wide = a.channels % kWide == 0 && a.dy_stride % kWide == 0 && aligned_16(a.dy, a.dx);
    const int64_t groups = wide ? a.channels / kWide : a.channels;
    if (!is_small(a.n * a.pixels * groups)) return cudaErrorInvalidValue;
    return launch_groups(wide ? spread_average<T, kWide> : spread_average<T, 1>, 1,
                         divide_up<int64_t>(a.pixels, kSpread), groups, a, stream);
  });
}

}  // namespace ct::kernels
