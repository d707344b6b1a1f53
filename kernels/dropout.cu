#include "dropout.h"

namespace ct::kernels {
namespace {

constexpr int kThreads = 256;
// Sixteen blocks of eight numbers make a group of elements.
constexpr int64_t kGroup = kDropoutGroup;
constexpr int kLanes = kDropoutLanes, kNumbers = kGroup / kLanes;
constexpr int kBlocks = 2;  // of numbers, for each thread, which share the schedule of the key

/// A thread kBlocks blocks of numbers. The elements of a block are every sixteenth of its group; but the thread moves N
/// adjacent elements at a time, again every sixteenth such pack. Which of these are kept, the lanes tell each other by
/// votes.
template <class T, int N>
__global__ void __launch_bounds__(kThreads) drop(DropoutArgs a) {
  constexpr int kPacks = kNumbers / N;
  const int lane = static_cast<int>(threadIdx.x) % kLanes, half = static_cast<int>(threadIdx.x) % kWarp - lane;
  Pack<T, N> at[kBlocks][kPacks] = {};
  const auto block_at = [](int b) {
    return (int64_t{blockIdx.x} * kBlocks + b) * kThreads + static_cast<int64_t>(threadIdx.x);
  };
  const auto first_at = [&](int b) { return block_at(b) / kLanes * kGroup + lane * N; };
  const auto rest_at = [&](int b) {  // elements from the first on, as far as they matter
    const int64_t rest = a.n - first_at(b);
    return static_cast<int>(rest < kGroup ? rest : kGroup);
  };
#pragma unroll
  for (int b = 0; b < kBlocks; ++b) {
    const T* x = static_cast<const T*>(a.x) + first_at(b);
    const int rest = rest_at(b);
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      const int place = p * kLanes * N;
      if (place + N <= rest) {
        at[b][p] = *reinterpret_cast<const Pack<T, N>*>(x + place);
      } else {
#pragma unroll
        for (int k = 0; k < N - 1; ++k)
          if (place + k < rest) at[b][p].at[k] = x[place + k];
      }
    }
  }
  const DropoutKey key = *a.key;
#pragma unroll
  for (int b = 0; b < kBlocks; ++b) {
    const std::array<uint32_t, 4> words = dropout_words(key, a.number, block_at(b));
    // Of a number, the lanes that keep their element. Pack p has the number p * N + lane * N / 16 for its elements.
    unsigned kept[kPacks] = {};
#pragma unroll
    for (int i = 0; i < kNumbers; ++i) {
      const unsigned lanes = __ballot_sync(kAllLanes, dropout_number(words, i) < a.below);
      if (i % N == lane * N / kLanes) kept[i / N] = lanes;
    }
    T* y = static_cast<T*>(a.y) + first_at(b);
    const int rest = rest_at(b);
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      const int place = p * kLanes * N;
      const unsigned keep = kept[p] >> (half + lane * N % kLanes);
#pragma unroll
      for (int k = 0; k < N; ++k)
        at[b][p].at[k] = from_float<T>((keep >> k & 1) != 0 ? to_float(at[b][p].at[k]) * a.scale : 0);
      if (place + N <= rest) {
        *reinterpret_cast<Pack<T, N>*>(y + place) = at[b][p];
      } else {
#pragma unroll
        for (int k = 0; k < N - 1; ++k)
          if (place + k < rest) y[place + k] = at[b][p].at[k];
      }
    }
  }
}

}  // namespace

cudaError_t dropout(const DropoutArgs& a, cudaStream_t stream) {
  if (a.n < 0 || a.n > int64_t{1} << 34) return cudaErrorInvalidValue;
  const int64_t blocks = divide_up(a.n, kGroup) * kLanes;
  const Grid grid{.blocks = static_cast<unsigned>(divide_up<int64_t>(blocks, kBlocks * kThreads)), .threads = kThreads};
  return with_type(a.type, [&]<class T>(T) {
    return launch(aligned_16(a.x, a.y) ? drop<T, Pack<T>::kSize> : drop<T, 1>, grid, stream, a);
  });
}

}  // namespace ct::kernels
