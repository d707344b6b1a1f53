#include <algorithm>

#include "element.h"
#include "tree_sum.h"

namespace ct::kernels {
namespace {

constexpr int kThreads = 256;

struct Terms {
  const float* at[kMaxTerms];
  int count;
};

/// [i * kCount, (i + 1) * kCount) of `out`.
template <int kCount>
__device__ __forceinline__ void sum_at(const Terms& terms, int64_t i, float* out) {
  struct alignas(kCount * sizeof(float)) Floats {
    float at[kCount];
  };
  Floats sum = reinterpret_cast<const Floats*>(terms.at[0])[i];
#pragma unroll 4
  for (int t = 1; t < terms.count; ++t) {
    const Floats term = reinterpret_cast<const Floats*>(terms.at[t])[i];
#pragma unroll
    for (int k = 0; k < kCount; ++k) sum.at[k] += term.at[k];
  }
  reinterpret_cast<Floats*>(out)[i] = sum;
}

/// A pack a thread, then an element a thread of the n - packs * kSize that are left.
__global__ void __launch_bounds__(kThreads) sum_kernel(Terms terms, float* out, int64_t n, int64_t packs) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < packs) sum_at<Pack<float>::kSize>(terms, i, out);
  const int64_t rest = packs * Pack<float>::kSize + i;
  if (rest < n) sum_at<1>(terms, rest, out);
}

cudaError_t sum(const Terms& terms, float* out, int64_t n, cudaStream_t stream) {
  const bool aligned =
      aligned_16(out) && std::all_of(terms.at, terms.at + terms.count, [](const float* t) { return aligned_16(t); });
  const int64_t packs = aligned ? n / Pack<float>::kSize : 0;
  const int64_t work = aligned ? divide_up<int64_t>(n, Pack<float>::kSize) : n;
  const auto blocks = static_cast<unsigned>(divide_up<int64_t>(work, kThreads));
  return launch(sum_kernel, {.blocks = blocks, .threads = kThreads}, stream, terms, out, n, packs);
}

}  // namespace

cudaError_t sum_in_order(const SumInOrderArgs& args, cudaStream_t stream) {
  if (args.count < 1 || args.count > kMaxTerms) return cudaErrorInvalidValue;
  Terms terms = {};
  std::copy_n(args.terms, args.count, terms.at);
  terms.count = args.count;
  return sum(terms, args.out, args.n, stream);
}

cudaError_t tree_push(const TreePushArgs& args, cudaStream_t stream) {
  if (args.leaf < 0 || args.level_count < 0 || args.level_count > 62) return cudaErrorInvalidValue;
  const bool running = args.level_count == 1 && args.leaf > 0;
  const bool last = args.out != nullptr;
  if (!running && args.leaf >> args.level_count != 0) return cudaErrorInvalidValue;
  Terms terms = {.at = {args.values}, .count = 1};
  int level = 0;
  if (running) {
    terms.at[terms.count++] = args.levels[0];
  } else {
    for (; args.leaf >> level & 1; ++level) terms.at[terms.count++] = args.levels[level];
    for (int above = level; last && above < args.level_count; ++above)
      if (args.leaf >> above & 1) terms.at[terms.count++] = args.levels[above];
    if (!last && level >= args.level_count) return cudaErrorInvalidValue;
  }
  return sum(terms, last ? args.out : args.levels[level], args.n, stream);
}

}  // namespace ct::kernels
