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

/// Sums elements [i * kCount, (i + 1) * kCount) of `out`.
template <int kCount>
__device__ __forceinline__ void sum_at(const Terms& terms, int64_t i, float* out) {
  using Floats = Pack<float, kCount>;
  Floats sum = reinterpret_cast<const Floats*>(terms.at[0])[i];
#pragma unroll 4
  for (int t = 1; t < terms.count; ++t) {
    const Floats term = reinterpret_cast<const Floats*>(terms.at[t])[i];
#pragma unroll
    for (int k = 0; k < kCount; ++k) sum.at[k] += term.at[k];
  }
  reinterpret_cast<Floats*>(out)[i] = sum;
}

/// One pack per thread, then one element per thread of the n - packs * kSize that are left.
__global__ void __launch_bounds__(kThreads) sum_kernel(Terms terms, float* out, int64_t n, int64_t packs) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < packs) sum_at<Pack<float>::kSize>(terms, i, out);
  const int64_t rest = packs * Pack<float>::kSize + i;
  if (rest < n) sum_at<1>(terms, rest, out);
}

struct Work {
  int64_t packs;
  unsigned blocks;
};
Work work_of(int64_t n, bool aligned) {
  constexpr int kWide = Pack<float>::kSize;
  return {aligned ? n / kWide : 0,
          static_cast<unsigned>(divide_up<int64_t>(aligned ? divide_up<int64_t>(n, kWide) : n, kThreads))};
}

constexpr int kInFlight = 4;  // levels that are read before the first is added

struct Push {
  const float* values;
  const int32_t* counter;
  float* levels[kMaxLevels];
  int level_count;
  float* out;  // null: not the last leaf
};

/// The merge of one leaf, the same for all elements.
struct Merge {
  unsigned levels;  // a bit each, merged from the lowest
  float* out;
};
__device__ __forceinline__ Merge merge_of(const Push& push) {
  const auto leaf = static_cast<unsigned>(*push.counter);
  const bool running = push.level_count == 1 && leaf > 0;
  if (push.out != nullptr) return {running ? 1 : leaf, push.out};
  int ones = 0;
  while (!running && (leaf >> ones & 1) != 0) ++ones;
  return {running ? 1 : (1u << ones) - 1, push.levels[ones]};
}

template <int kCount>
__device__ __forceinline__ void push_at(const Push& push, int64_t i) {
  using Floats = Pack<float, kCount>;
  Floats sum = reinterpret_cast<const Floats*>(push.values)[i];
  const Merge merge = merge_of(push);
  for (int first = 0; first < push.level_count; first += kInFlight) {
    Floats terms[kInFlight] = {};
#pragma unroll
    for (int u = 0; u < kInFlight; ++u)
      if (merge.levels >> (first + u) & 1) terms[u] = reinterpret_cast<const Floats*>(push.levels[first + u])[i];
#pragma unroll
    for (int u = 0; u < kInFlight; ++u)
      if (merge.levels >> (first + u) & 1)
        for (int k = 0; k < kCount; ++k) sum.at[k] += terms[u].at[k];
  }
  reinterpret_cast<Floats*>(merge.out)[i] = sum;
}

/// Threads as in sum_kernel: a pack each, then an element each of those that are left.
__global__ void __launch_bounds__(kThreads) push_kernel(Push push, int64_t n, int64_t packs) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < packs) push_at<Pack<float>::kSize>(push, i);
  const int64_t rest = packs * Pack<float>::kSize + i;
  if (rest < n) push_at<1>(push, rest);
}

__global__ void count_kernel(int32_t* counter, bool last) { *counter = last ? 0 : *counter + 1; }

}  // namespace

cudaError_t sum_in_order(const SumInOrderArgs& args, cudaStream_t stream) {
  if (args.count < 1 || args.count > kMaxTerms) return cudaErrorInvalidValue;
  Terms terms = {};
  std::copy_n(args.terms, args.count, terms.at);
  terms.count = args.count;
  const bool aligned = aligned_16(args.out) &&
                       std::all_of(terms.at, terms.at + terms.count, [](const float* t) { return aligned_16(t); });
  const Work work = work_of(args.n, aligned);
  return launch(sum_kernel, {.blocks = work.blocks, .threads = kThreads}, stream, terms, args.out, args.n, work.packs);
}

cudaError_t tree_push(const TreePushArgs& args, cudaStream_t stream) {
  if (args.level_count < (args.last ? 0 : 1) || args.level_count > kMaxLevels) return cudaErrorInvalidValue;
  if (args.last && args.out == nullptr) return cudaErrorInvalidValue;
  if (args.level_count == 0 && args.out == args.values) return cudaSuccess;
  Push push = {.values = args.values,
               .counter = args.counter,
               .levels = {},
               .level_count = args.level_count,
               .out = args.last ? args.out : nullptr};
  std::copy_n(args.levels, args.level_count, push.levels);
  bool aligned = aligned_16(push.values, push.out);
  for (const float* level : push.levels) aligned &= aligned_16(level);
  const Work work = work_of(args.n, aligned);
  return launch(push_kernel, {.blocks = work.blocks, .threads = kThreads}, stream, push, args.n, work.packs);
}

cudaError_t count_leaf(int32_t* counter, bool last, cudaStream_t stream) {
  return launch(count_kernel, {.blocks = 1, .threads = 1}, stream, counter, last);
}

}  // namespace ct::kernels
