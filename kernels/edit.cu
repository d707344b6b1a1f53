#include <algorithm>

#include "edit.h"

namespace ct::kernels {
namespace {

constexpr int kThreads = 256;  // as many as there are levels
constexpr int kLevels = 256;
constexpr int kShareBits = 22;  // behind the point of a pixel's share in a resized crop

/// One image and what becomes of it.
struct Image {
  int channels, height, width, plane;
  const uint8_t* in;
  uint8_t* out;
};

__device__ __forceinline__ int level(int v) { return min(max(v, 0), 255); }
__device__ __forceinline__ int between(int a, int b, int factor) {
  return min(max(a * kEditOne + factor * (b - a), 0), 255 * kEditOne) / kEditOne;
}
/// The grey of pixel i.
__device__ __forceinline__ int grey(const Image& m, int i) {
  if (m.channels != 3) return m.in[i];
  return (19595 * m.in[i] + 38470 * m.in[m.plane + i] + 7471 * m.in[2 * m.plane + i] + (1 << 15)) >> 16;
}

/// out = of(index, level) of every element; all threads call it.
template <class Of>
__device__ __forceinline__ void for_levels(const Image& m, Of of) {
  for (int i = threadIdx.x; i < m.channels * m.plane; i += kThreads) m.out[i] = static_cast<uint8_t>(of(i, m.in[i]));
}
/// out = of(channel, y, x) of every element.
template <class Of>
__device__ __forceinline__ void for_places(const Image& m, Of of) {
  for (int i = threadIdx.x; i < m.channels * m.plane; i += kThreads) {
    const int c = i / m.plane, at = i - c * m.plane, y = at / m.width;
    m.out[i] = static_cast<uint8_t>(of(c, y, at - y * m.width));
  }
}

/// What a pixel is made of: pixel `at` of the box, and `share` of the one after it.
struct Tap {
  int at, share;
};
__device__ __forceinline__ Tap tap(int i, int length, int size) {
  const int from = (2 * i + 1) * length - size;  // its middle, in halves of 1 / size of a pixel
  const int at = from / (2 * size), rest = from % (2 * size);
  if (from < 0) return {0, 0};
  if (at >= length - 1) return {length - 1, 0};
  return {at, static_cast<int>(((int64_t{rest} << kShareBits) + size) / (2 * size))};
}
__device__ __forceinline__ int mixed(int a, int b, int share) {
  return (a * ((1 << kShareBits) - share) + b * share + (1 << (kShareBits - 1))) >> kShareBits;
}

__device__ void resized_crop(const Image& m, const int32_t* box) {
  Tap* const columns = shared_memory<Tap>();
  Tap* const rows = columns + m.width;
  for (int x = threadIdx.x; x < m.width; x += kThreads) columns[x] = tap(x, box[2], m.width);
  for (int y = threadIdx.x; y < m.height; y += kThreads) rows[y] = tap(y, box[3], m.height);
  __syncthreads();
  for_places(m, [&](int c, int y, int x) {
    const Tap row = rows[y], column = columns[x];
    const uint8_t* const at = m.in + c * m.plane + (box[1] + row.at) * m.width + box[0] + column.at;
    const int right = column.share != 0, below = row.share != 0 ? m.width : 0;
    return mixed(mixed(at[0], at[right], column.share), mixed(at[below], at[below + right], column.share), row.share);
  });
}

__device__ void contrast(const Image& m, int factor) {
  int* const sum = shared_memory<int>();  // of fewer than 2^22 greys
  if (threadIdx.x == 0) *sum = 0;
  __syncthreads();
  int mine = 0;
  for (int i = threadIdx.x; i < m.plane; i += kThreads) mine += grey(m, i);
  atomicAdd(sum, mine);
  __syncthreads();
  const auto mean = static_cast<int>((2 * int64_t{*sum} + m.plane) / (2 * m.plane));
  for_levels(m, [&](int, int v) { return between(mean, v, factor); });
}

__device__ void sharpness(const Image& m, int factor) {
  for_places(m, [&](int c, int y, int x) {
    const uint8_t* const at = m.in + c * m.plane + y * m.width + x;
    if (y == 0 || x == 0 || y == m.height - 1 || x == m.width - 1) return static_cast<int>(*at);
    int sum = 4 * *at;
    for (int row = -m.width; row <= m.width; row += m.width) sum += at[row - 1] + at[row] + at[row + 1];
    return between((2 * sum + 13) / 26, *at, factor);
  });
}

__device__ void hue(const Image& m, int shift) {
  for (int i = threadIdx.x; i < m.plane; i += kThreads) {
    const int r = m.in[i], g = m.in[m.plane + i], b = m.in[2 * m.plane + i];
    const int value = max(max(r, g), b), range = value - min(min(r, g), b);
    int red = r, green = g, blue = b;
    if (range > 0) {
      // Sixths of the circle, in units of 1 / range.
      const int sixths = value == r   ? g - b + (g < b ? 6 * range : 0)
                         : value == g ? b - r + 2 * range
                                      : r - g + 4 * range;
      const int turned = (255 * sixths / (6 * range) + shift) & 255, saturation = 255 * range / value;
      const int sector = 6 * turned / 255, part = 6 * turned % 255;
      const auto less = [&](int share) {
        return (2 * value * (255 * 255 - saturation * share) + 255 * 255) / (2 * 255 * 255);
      };
      const int low = less(255), falling = less(part), rising = less(255 - part);
      red = sector == 1 ? falling : sector == 2 || sector == 3 ? low : sector == 4 ? rising : value;
      green = sector == 1 || sector == 2 ? value : sector == 3 ? falling : sector == 4 || sector == 5 ? low : rising;
      blue = sector == 2 ? rising : sector == 3 || sector == 4 ? value : sector == 5 ? falling : low;
    }
    m.out[i] = static_cast<uint8_t>(red);
    m.out[m.plane + i] = static_cast<uint8_t>(green);
    m.out[2 * m.plane + i] = static_cast<uint8_t>(blue);
  }
}

/// Each channel by a table that make(counts, level) fills: counts of its levels, one thread per level.
template <class Make>
__device__ void by_counts(const Image& m, Make make) {
  int* const counts = shared_memory<int>();
  int* const table = counts + kLevels;
  for (int c = 0; c < m.channels; ++c) {
    counts[threadIdx.x] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < m.plane; i += kThreads) atomicAdd(counts + m.in[c * m.plane + i], 1);
    __syncthreads();
    table[threadIdx.x] = make(counts, static_cast<int>(threadIdx.x));
    __syncthreads();
    for (int i = threadIdx.x; i < m.plane; i += kThreads)
      m.out[c * m.plane + i] = static_cast<uint8_t>(table[m.in[c * m.plane + i]]);
  }
}

__device__ int stretched(const int* counts, int v) {
  int low = 0, high = kLevels - 1;
  while (low < kLevels - 1 && counts[low] == 0) ++low;
  while (high > 0 && counts[high] == 0) --high;
  return high > low ? level(255 * (v - low) / (high - low)) : v;
}

__device__ int equalized(const int* counts, int pixels, int v) {
  int high = kLevels - 1;
  while (high > 0 && counts[high] == 0) --high;
  const int step = (pixels - counts[high]) / 255;
  if (step == 0) return v;
  int below = step / 2;
  for (int i = 0; i < v; ++i) below += counts[i];
  return level(below / step);
}

/// Image i of the batch; null: there is none.
__device__ __forceinline__ const uint8_t* image(const EditArgs& a, int64_t i) {
  if (i < 0 || i >= a.n) return nullptr;
  const int64_t number = a.index ? int64_t{a.index[i]} : i;
  return number < 0 || number >= a.count ? nullptr : a.images + number * a.channels * a.height * a.width;
}

__global__ void __launch_bounds__(kThreads) edit_images(EditArgs a) {
  const int64_t n = blockIdx.x;
  const Image m{.channels = static_cast<int>(a.channels),
                .height = static_cast<int>(a.height),
                .width = static_cast<int>(a.width),
                .plane = static_cast<int>(a.height * a.width),
                .in = image(a, n),
                .out = a.out + n * a.channels * a.height * a.width};
  if (m.in == nullptr) return for_places(m, [](int, int, int) { return 0; });
  const EditDraw draw = a.draws[n * a.stride];
  const int32_t* const at = draw.at.data();
  switch (draw.kind) {
    case EditKind::move: {
      const bool flip = at[2] != 0;
      return for_places(m, [&](int c, int y, int x) {
        const int from_y = y + at[0], from_x = (flip ? m.width - 1 - x : x) + at[1];
        const bool inside = from_y >= 0 && from_y < m.height && from_x >= 0 && from_x < m.width;
        return inside ? static_cast<int>(m.in[c * m.plane + from_y * m.width + from_x]) : 0;
      });
    }
    case EditKind::resized_crop:
      return resized_crop(m, at);
    case EditKind::blend: {
      const uint8_t* const other = image(a, at[4]);
      return for_places(m, [&](int c, int y, int x) {
        const int i = c * m.plane + y * m.width + x, own = m.in[i];
        if (x < at[0] || x >= at[0] + at[2] || y < at[1] || y >= at[1] + at[3]) return own;
        const int its = other != nullptr ? other[i] : a.fill[c];
        return (own * (kEditOne - at[5]) + its * at[5] + kEditOne / 2) / kEditOne;
      });
    }
    case EditKind::brightness:
      return for_levels(m, [&](int, int v) { return between(0, v, at[0]); });
    case EditKind::contrast:
      return contrast(m, at[0]);
    case EditKind::saturation:
      return for_levels(m, [&](int i, int v) { return between(grey(m, i % m.plane), v, at[0]); });
    case EditKind::sharpness:
      return sharpness(m, at[0]);
    case EditKind::hue:
      if (m.channels == 3) return hue(m, at[0]);
      break;
    case EditKind::posterize:
      return for_levels(m, [&](int, int v) { return v & (0xff00 >> at[0]); });
    case EditKind::solarize:
      return for_levels(m, [&](int, int v) { return v < at[0] ? v : 255 - v; });
    case EditKind::auto_contrast:
      return by_counts(m, stretched);
    case EditKind::equalize:
      return by_counts(m, [&](const int* counts, int v) { return equalized(counts, m.plane, v); });
    case EditKind::affine:
      return for_places(m, [&](int c, int y, int x) {
        const int from_x = (at[0] * x + at[1] * y + at[2]) >> 16, from_y = (at[3] * x + at[4] * y + at[5]) >> 16;
        const bool inside = from_x >= 0 && from_x < m.width && from_y >= 0 && from_y < m.height;
        return inside ? static_cast<int>(m.in[c * m.plane + from_y * m.width + from_x]) : 0;
      });
    case EditKind::none:
      break;
  }
  for_levels(m, [](int, int v) { return v; });
}

}  // namespace

cudaError_t edit(const EditArgs& a, cudaStream_t stream) {
  if (std::min({a.n, a.channels, a.height, a.width, a.stride, a.count}) < 0) return cudaErrorInvalidValue;
  if (std::max(a.height, a.width) > kMaxEditSide || a.n > 0x7fffffff) return cudaErrorInvalidValue;
  if (a.n == 0 || a.channels == 0 || a.height == 0 || a.width == 0) return cudaSuccess;
  if (a.channels > ((1 << 29) - 1) / (a.height * a.width)) return cudaErrorInvalidValue;
  const size_t taps = static_cast<size_t>(a.height + a.width) * sizeof(Tap);
  return launch(edit_images,
                {.blocks = static_cast<unsigned>(a.n),
                 .threads = kThreads,
                 .shared_bytes = std::max(taps, 2 * kLevels * sizeof(int))},
                stream, a);
}

}  // namespace ct::kernels
