#include <initializer_list>
#include <limits>

#include "patches.h"

namespace ct::kernels {
namespace {

constexpr int kThreads = 256;

/// Sizes in 32 bits, which are cheap to divide.
struct Job {
  uint32_t channels, height, width, patch, columns;  // columns: of patches
  uint32_t tokens, pixel, length, groups;            // of an image; elements of a pixel, of a token; stores of a token
  uint32_t count;                                    // stores of all
  int shift;
};

/// A thread N elements of a token.
template <class T, int N>
__global__ void __launch_bounds__(kThreads) move_pixels(Job job, const T* images, T* y) {
  const uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= job.count) return;
  const uint32_t row = i / job.groups, image = row / job.tokens, t = row - image * job.tokens;
  const uint32_t first = (i - row * job.groups) * N, ty = t / job.columns, tx = t - ty * job.columns;
  const int height = static_cast<int>(job.height), width = static_cast<int>(job.width);
  Pack<T, N> made;
  for (int k = 0; k < N; ++k) {
    const uint32_t element = first + k, place = element / job.pixel, plane = element - place * job.pixel;
    const uint32_t copy = plane / job.channels, channel = plane - copy * job.channels, down = place / job.patch;
    const int right_by = copy == 1 ? job.shift : copy == 2 ? -job.shift : 0;
    const int down_by = copy == 3 ? job.shift : copy == 4 ? -job.shift : 0;
    const int from_y = static_cast<int>(ty * job.patch + down) - down_by;
    const int from_x = static_cast<int>(tx * job.patch + (place - down * job.patch)) - right_by;
    const bool inside = element < job.length && from_y >= 0 && from_y < height && from_x >= 0 && from_x < width;
    made.at[k] = from_float<T>(0);
    if (inside) made.at[k] = images[((int64_t{image} * job.channels + channel) * height + from_y) * width + from_x];
  }
  reinterpret_cast<Pack<T, N>*>(y)[i] = made;
}

template <class T, int N>
cudaError_t start(const PatchesArgs& a, cudaStream_t stream) {
  const int64_t tokens = a.height / a.patch * (a.width / a.patch), pixel = (a.shift > 0 ? 5 : 1) * a.channels;
  const int64_t length = a.patch * a.patch * pixel;
  if (a.y_stride < length || a.y_stride > std::numeric_limits<int32_t>::max()) return cudaErrorInvalidValue;
  const int64_t groups = a.y_stride / N;
  if (a.n * tokens > std::numeric_limits<int32_t>::max() / (groups > 0 ? groups : 1)) return cudaErrorInvalidValue;
  const Job job{.channels = static_cast<uint32_t>(a.channels),
                .height = static_cast<uint32_t>(a.height),
                .width = static_cast<uint32_t>(a.width),
                .patch = static_cast<uint32_t>(a.patch),
                .columns = static_cast<uint32_t>(a.width / a.patch),
                .tokens = static_cast<uint32_t>(tokens),
                .pixel = static_cast<uint32_t>(pixel),
                .length = static_cast<uint32_t>(length),
                .groups = static_cast<uint32_t>(groups),
                .count = static_cast<uint32_t>(a.n * tokens * groups),
                .shift = static_cast<int>(a.shift)};
  return launch(move_pixels<T, N>, {.blocks = divide_up<uint32_t>(job.count, kThreads), .threads = kThreads}, stream,
                job, static_cast<const T*>(a.images), static_cast<T*>(a.y));
}

}  // namespace

cudaError_t patches(const PatchesArgs& a, cudaStream_t stream) {
  constexpr int64_t kMost = 1 << 15;
  for (const int64_t size : {a.channels, a.height, a.width, a.patch})
    if (size < 1 || size > kMost) return cudaErrorInvalidValue;
  if (a.n < 0 || a.n > std::numeric_limits<int32_t>::max() || a.shift < 0 || a.shift > kMost ||
      a.height % a.patch != 0 || a.width % a.patch != 0)
    return cudaErrorInvalidValue;
  return with_type(a.type, [&]<class T>(T) {
    constexpr int kWide = Pack<T>::kSize;
    return a.y_stride % kWide == 0 && aligned_16(a.y) ? start<T, kWide>(a, stream) : start<T, 1>(a, stream);
  });
}

}  // namespace ct::kernels
