#include <algorithm>

#include "augment.h"
#include "divisor.h"

namespace ct::kernels {
namespace {

constexpr int kThreads = 128;
constexpr int kResident = 8;                     // blocks at a time, which leaves a thread 64 registers
constexpr int kPacks = 4;                        // of one image, for each thread
constexpr int64_t kMaxElements = (1 << 29) - 1;  // three widths fit an int

struct Job {
  int64_t count;
  uint32_t channels, height, width;
  uint32_t lines, packs;  // of out: channels with padding, and packs of an image
  Divisor parts;          // blocks of an image
  Divisor inner, outer;   // runs of a pixel, pixels of a row; planar: runs of a row, rows of a plane
  const uint8_t* images;
  const int32_t *index, *draws;
  const float *scale, *shift;
};

/// What lies outside an image.
__device__ const uint8_t black = 0;

/// A pack of kSize elements is made of runs of kRun, each of one pixel's channels; planar, of one row's pixels.
template <class T, int kSize, int kRun, bool kPlanar>
__global__ void __launch_bounds__(kThreads, kResident) augment_images(Job job, T* out) {
  wait_for_previous();
  struct alignas(sizeof(T) * kSize) Elements {
    T at[kSize];
  };
  const uint32_t n = job.parts.divide(blockIdx.x), part = blockIdx.x - n * job.parts.by;
  const int64_t source = job.index ? int64_t{job.index[n]} : int64_t{n};
  const bool known = source >= 0 && source < job.count;
  // {scale, shift}: such that black becomes 0 in the padding and NaN in an unknown image.
  float2* const factors = shared_memory<float2>();
  for (uint32_t c = threadIdx.x; c < job.lines; c += kThreads) {
    factors[c] = {0, 0};
    if (c < job.channels)
      factors[c] = known ? float2{job.scale[c], job.shift[c]} : float2{0, __int_as_float(0x7fc00000)};
  }
  __syncthreads();

  const int height = static_cast<int>(job.height), width = static_cast<int>(job.width);
  const uint32_t plane = job.height * job.width;
  const uint8_t* const image = job.images + (known ? source : 0) * job.channels * plane;
  int dy = 0, dx = 0;
  bool flip = false;
  if (job.draws) {
    const int32_t* const draw = job.draws + int64_t{4} * n;
    // Nothing is left of an image that is moved by its size, nor by more.
    dy = min(max(draw[0], -height), height);
    dx = min(max(draw[1], -width), width);
    flip = draw[2] != 0;
  }
  // The column that x comes from is first + x * step.
  const int first = dx + (flip ? width - 1 : 0), step = flip ? -1 : 1;

  for (int k = 0; k < kPacks; ++k) {
    const uint32_t pack = (part * kPacks + k) * kThreads + threadIdx.x;
    if (pack < job.packs) {
      // All loads at once: an address is chosen where a branch would make them wait for each other.
      float pixels[kSize];
      float2 factor[kSize];
      for (int r = 0; r < kSize; r += kRun) {
        const uint32_t run = (pack * kSize + r) / kRun;
        const uint32_t line = job.inner.divide(run);
        const uint32_t begin = (run - line * job.inner.by) * kRun;  // the run's first channel; planar: its first x
        const uint32_t block = job.outer.divide(line);              // y; planar: the channel
        const uint32_t place = line - block * job.outer.by;         // x; planar: y
        const int y = static_cast<int>(kPlanar ? place : block) + dy;
        const bool row_inside = known && y >= 0 && y < height;
        for (int i = 0; i < kRun; ++i) {
          const uint32_t c = kPlanar ? block : begin + i;
          const int x = first + static_cast<int>(kPlanar ? begin + i : place) * step;
          const bool inside = row_inside & (static_cast<uint32_t>(x) < job.width) & (c < job.channels);
          pixels[r + i] = __ldg(inside ? image + c * plane + y * width + x : &black);
          factor[r + i] = factors[c];
        }
      }
      Elements made;
      for (int i = 0; i < kSize; ++i) made.at[i] = from_float<T>(__fmaf_rn(pixels[i], factor[i].x, factor[i].y));
      reinterpret_cast<Elements*>(out)[int64_t{n} * job.packs + pack] = made;
    }
  }
}

template <class T, int kSize, int kRun, bool kPlanar>
cudaError_t start(const AugmentArgs& a, int64_t elements, cudaStream_t stream) {
  const int64_t inner = (kPlanar ? a.width : a.stride) / kRun, outer = kPlanar ? a.height : a.width;
  const int64_t packs = elements / kSize, parts = divide_up(packs, int64_t{kThreads} * kPacks);
  if (a.n > 0x7fffffff / parts) return cudaErrorInvalidValue;
  const Job job = {.count = a.count,
                   .channels = static_cast<uint32_t>(a.channels),
                   .height = static_cast<uint32_t>(a.height),
                   .width = static_cast<uint32_t>(a.width),
                   .lines = static_cast<uint32_t>(kPlanar ? a.channels : a.stride),
                   .packs = static_cast<uint32_t>(packs),
                   .parts = Divisor(static_cast<uint32_t>(parts)),
                   .inner = Divisor(static_cast<uint32_t>(inner)),
                   .outer = Divisor(static_cast<uint32_t>(outer)),
                   .images = a.images,
                   .index = a.index,
                   .draws = a.draws,
                   .scale = a.scale,
                   .shift = a.shift};
  return launch_early(
      augment_images<T, kSize, kRun, kPlanar>,
      {.blocks = static_cast<unsigned>(a.n * parts), .threads = kThreads, .shared_bytes = job.lines * sizeof(float2)},
      stream, job, static_cast<T*>(a.out));
}

/// Takes the longest run that divides a line of out.
template <class T, int kSize, int kRun, bool kPlanar>
cudaError_t start_with_run(const AugmentArgs& a, int64_t elements, cudaStream_t stream) {
  if constexpr (kRun > 1)
    if ((kPlanar ? a.width : a.stride) % kRun != 0)
      return start_with_run<T, kSize, kRun / 2, kPlanar>(a, elements, stream);
  return start<T, kSize, kRun, kPlanar>(a, elements, stream);
}

template <class T, bool kPlanar>
cudaError_t start_with_packs(const AugmentArgs& a, int64_t elements, cudaStream_t stream) {
  constexpr int kSize = Pack<T>::kSize;
  if (aligned_16(a.out) && elements % kSize == 0) return start_with_run<T, kSize, kSize, kPlanar>(a, elements, stream);
  return start<T, 1, 1, kPlanar>(a, elements, stream);
}

/// The product of sizes that are not negative, or kMaxElements + 1 where it is more than that.
int64_t product(int64_t a, int64_t b) { return b != 0 && a > kMaxElements / b ? kMaxElements + 1 : a * b; }

}  // namespace

cudaError_t augment(const AugmentArgs& a, cudaStream_t stream) {
  if (std::min({a.n, a.count, a.channels, a.height, a.width}) < 0) return cudaErrorInvalidValue;
  const int64_t lines = a.planar ? a.channels : a.stride;
  if (lines < a.channels || lines > kMaxAugmentChannels) return cudaErrorInvalidValue;
  if (a.n == 0 || lines == 0 || a.height == 0 || a.width == 0) return cudaSuccess;
  const int64_t elements = product(product(a.height, a.width), lines);
  if (elements > kMaxElements) return cudaErrorInvalidValue;
  return with_type(a.type, [&](auto zero) {
    using T = decltype(zero);
    return a.planar ? start_with_packs<T, true>(a, elements, stream) : start_with_packs<T, false>(a, elements, stream);
  });
}

}  // namespace ct::kernels
