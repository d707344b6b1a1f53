#include <initializer_list>
#include <limits>

#include "divisor.h"
#include "patches.h"

namespace ct::kernels {
namespace {

constexpr int kThreads = 256;

struct Job {
  uint32_t channels, copies, patch;
  int height, width, before, shift;
  int64_t of_image;                         // elements
  uint32_t channel, row, column;            // elements from one to the next
  uint32_t length, count;                   // elements of a token; stores of all tokens
  Divisor across, tokens, groups;           // patches of a row, tokens of an image, stores of a token
  Divisor of_pixel, of_channels, of_patch;  // elements of a pixel, channels, pixels of a patch's row
};

/// A thread N elements of a token. Only the place of the first is divided out; the others follow by counting. All loads
/// at once: what lies outside loads the image's first pixel, where a branch would make them wait for each other.
template <class T, int N>
__global__ void __launch_bounds__(kThreads) move_pixels(Job job, const T* images, T* y) {
  const uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= job.count) return;
  const uint32_t row = job.groups.divide(i), image = job.tokens.divide(row), t = row - image * job.tokens.by;
  const uint32_t first = (i - row * job.groups.by) * N, ty = job.across.divide(t), tx = t - ty * job.across.by;
  const uint32_t place = job.of_pixel.divide(first), element = first - place * job.of_pixel.by;
  uint32_t copy = job.of_channels.divide(element), channel = element - copy * job.channels;
  uint32_t down = job.of_patch.divide(place), right = place - down * job.patch;
  const T* from = images + image * job.of_image;
  const int top = static_cast<int>(ty * job.patch) - job.before, left = static_cast<int>(tx * job.patch) - job.before;
  Pack<T, N> made;
  bool inside[N];
#pragma unroll
  for (int k = 0; k < N; ++k) {
    const int right_by = copy == 1 ? job.shift : copy == 2 ? -job.shift : 0;
    const int down_by = copy == 3 ? job.shift : copy == 4 ? -job.shift : 0;
    const int from_y = top + static_cast<int>(down) - down_by, from_x = left + static_cast<int>(right) - right_by;
    inside[k] = first + k < job.length && from_y >= 0 && from_y < job.height && from_x >= 0 && from_x < job.width;
    const uint32_t offset =
        channel * job.channel + static_cast<uint32_t>(from_y) * job.row + static_cast<uint32_t>(from_x) * job.column;
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

template <class T>
__global__ void __launch_bounds__(kThreads) move_back(PatchShape s, const T* y, T* images) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= s.n * s.height * s.width * s.channels) return;
  const int64_t pixel = i / s.channels, channel = i - pixel * s.channels;
  const int64_t row = pixel / s.width, image = row / s.height;
  const int64_t from_top = row - image * s.height + s.before, from_left = pixel - row * s.width + s.before;
  const int64_t ty = from_top / s.patch, tx = from_left / s.patch;
  const int64_t place = (from_top - ty * s.patch) * s.patch + from_left - tx * s.patch;
  images[i] = y[((image * s.down + ty) * s.across + tx) * s.y_stride + place * s.channels + channel];
}

int64_t copies_of(const PatchesArgs& a) { return a.shift > 0 ? 5 : 1; }

template <class T, int N>
cudaError_t start(const PatchesArgs& a, cudaStream_t stream) {
  const PatchShape& s = a.shape;
  const int64_t tokens = s.down * s.across, groups = s.y_stride / N;
  if (s.n * tokens > std::numeric_limits<int32_t>::max() / groups) return cudaErrorInvalidValue;
  const int64_t copies = copies_of(a), pixels = s.height * s.width;
  const auto divisor = [](int64_t by) { return Divisor(static_cast<uint32_t>(by)); };
  const Job job{.channels = static_cast<uint32_t>(s.channels),
                .copies = static_cast<uint32_t>(copies),
                .patch = static_cast<uint32_t>(s.patch),
                .height = static_cast<int>(s.height),
                .width = static_cast<int>(s.width),
                .before = static_cast<int>(s.before),
                .shift = static_cast<int>(a.shift),
                .of_image = s.channels * pixels,
                .channel = static_cast<uint32_t>(a.planar ? pixels : 1),
                .row = static_cast<uint32_t>(a.planar ? s.width : s.width * s.channels),
                .column = static_cast<uint32_t>(a.planar ? 1 : s.channels),
                .length = static_cast<uint32_t>(s.patch * s.patch * copies * s.channels),
                .count = static_cast<uint32_t>(s.n * tokens * groups),
                .across = divisor(s.across),
                .tokens = divisor(tokens),
                .groups = divisor(groups),
                .of_pixel = divisor(copies * s.channels),
                .of_channels = divisor(s.channels),
                .of_patch = divisor(s.patch)};
  return launch(move_pixels<T, N>, {.blocks = divide_up<uint32_t>(job.count, kThreads), .threads = kThreads}, stream,
                job, static_cast<const T*>(a.images), static_cast<T*>(a.y));
}

bool is_valid(const PatchShape& s, int64_t copies) {
  constexpr int64_t kMost = 1 << 15, kMostElements = std::numeric_limits<int32_t>::max();
  for (const int64_t size : {s.channels, s.height, s.width, s.patch, s.down, s.across})
    if (size < 1 || size > kMost) return false;
  return s.n >= 0 && s.n <= kMostElements && s.before >= 0 && s.before <= kMost &&
         s.y_stride >= s.patch * s.patch * copies * s.channels && s.y_stride <= kMostElements &&
         s.channels * s.height <= kMostElements / s.width;
}

}  // namespace

cudaError_t patches(const PatchesArgs& a, cudaStream_t stream) {
  if (!is_valid(a.shape, copies_of(a)) || a.shift < 0 || a.shift > 1 << 15) return cudaErrorInvalidValue;
  return with_type(a.shape.type, [&]<class T>(T) {
    constexpr int kWide = Pack<T>::kSize;
    return a.shape.y_stride % kWide == 0 && aligned_16(a.y) ? start<T, kWide>(a, stream) : start<T, 1>(a, stream);
  });
}

cudaError_t pixels_of_patches(const PixelsOfPatchesArgs& a, cudaStream_t stream) {
  const PatchShape& s = a.shape;
  if (!is_valid(s, /*copies=*/1) || s.before + s.height > s.down * s.patch || s.before + s.width > s.across * s.patch)
    return cudaErrorInvalidValue;
  const int64_t blocks = divide_up<int64_t>(s.n * s.height * s.width * s.channels, kThreads);
  if (blocks > std::numeric_limits<int32_t>::max()) return cudaErrorInvalidValue;
  return with_type(s.type, [&]<class T>(T) {
    return launch(move_back<T>, {.blocks = static_cast<unsigned>(blocks), .threads = kThreads}, stream, s,
                  static_cast<const T*>(a.y), static_cast<T*>(a.images));
  });
}

}  // namespace ct::kernels
