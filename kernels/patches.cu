#include <initializer_list>
#include <limits>

#include "divisor.h"
#include "patches.h"

namespace ct::kernels {
namespace {

constexpr int kThreads = 256;

struct Job {
  uint32_t channels, copies, patch;
  int height, width, shift;
  uint32_t length, count;                   // elements of a token; stores of all tokens
  Divisor columns, tokens, groups;          // patches of a row, tokens of an image, stores of a token
  Divisor of_pixel, of_channels, of_patch;  // elements of a pixel, channels, pixels of a patch's row
};

/// A thread N elements of a token. Only the place of the first is divided out; the others follow by counting. All loads
/// at once: what lies outside loads the image's first pixel, where a branch would make them wait for each other.
template <class T, int N>
__global__ void __launch_bounds__(kThreads) move_pixels(Job job, const T* images, T* y) {
  const uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= job.count) return;
  const uint32_t row = job.groups.divide(i), image = job.tokens.divide(row), t = row - image * job.tokens.by;
  const uint32_t first = (i - row * job.groups.by) * N, ty = job.columns.divide(t), tx = t - ty * job.columns.by;
  const uint32_t place = job.of_pixel.divide(first), element = first - place * job.of_pixel.by;
  uint32_t copy = job.of_channels.divide(element), channel = element - copy * job.channels;
  uint32_t down = job.of_patch.divide(place), right = place - down * job.patch;
  const T* from = images + int64_t{image} * job.channels * job.height * job.width;
  Pack<T, N> made;
  bool inside[N];
#pragma unroll
  for (int k = 0; k < N; ++k) {
    const int right_by = copy == 1 ? job.shift : copy == 2 ? -job.shift : 0;
    const int down_by = copy == 3 ? job.shift : copy == 4 ? -job.shift : 0;
    const int from_y = static_cast<int>(ty * job.patch + down) - down_by;
    const int from_x = static_cast<int>(tx * job.patch + right) - right_by;
    inside[k] = first + k < job.length && from_y >= 0 && from_y < job.height && from_x >= 0 && from_x < job.width;
    const int64_t offset = (int64_t{channel} * job.height + from_y) * job.width + from_x;
    made.at[k] = from[inside[k] ? offset : 0];
    if (++channel == job.channels) {
      channel = 0;
      if (++copy == job.copies) {
        copy = 0;
        if (++right == job.patch) {
          right = 0;
          ++down;
        }
      }
    }
  }
#pragma unroll
  for (int k = 0; k < N; ++k)
    if (!inside[k]) made.at[k] = from_float<T>(0);
  reinterpret_cast<Pack<T, N>*>(y)[i] = made;
}

template <class T, int N>
cudaError_t start(const PatchesArgs& a, cudaStream_t stream) {
  const int64_t tokens = a.height / a.patch * (a.width / a.patch), copies = a.shift > 0 ? 5 : 1;
  const int64_t length = a.patch * a.patch * copies * a.channels;
  if (a.y_stride < length || a.y_stride > std::numeric_limits<int32_t>::max()) return cudaErrorInvalidValue;
  const int64_t groups = a.y_stride / N;
  if (a.n * tokens > std::numeric_limits<int32_t>::max() / groups) return cudaErrorInvalidValue;
  const auto divisor = [](int64_t by) { return Divisor(static_cast<uint32_t>(by)); };
  const Job job{.channels = static_cast<uint32_t>(a.channels),
                .copies = static_cast<uint32_t>(copies),
                .patch = static_cast<uint32_t>(a.patch),
                .height = static_cast<int>(a.height),
                .width = static_cast<int>(a.width),
                .shift = static_cast<int>(a.shift),
                .length = static_cast<uint32_t>(length),
                .count = static_cast<uint32_t>(a.n * tokens * groups),
                .columns = divisor(a.width / a.patch),
                .tokens = divisor(tokens),
                .groups = divisor(groups),
                .of_pixel = divisor(copies * a.channels),
                .of_channels = divisor(a.channels),
                .of_patch = divisor(a.patch)};
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
