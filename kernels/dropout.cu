#include "dropout.h"

namespace ct::kernels {
namespace {

constexpr int kThreads = 256;
// Sixteen blocks of eight numbers make a group of elements.
constexpr int64_t kGroup = kDropoutGroup;
constexpr int kLanes = kDropoutLanes, kNumbers = kGroup / kLanes;

/// One thread per block of numbers: of its group's elements every sixteenth.
template <class T>
__global__ void __launch_bounds__(kThreads) drop(DropoutArgs a) {
  const int64_t block = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const int64_t first = block / kLanes * kGroup + block % kLanes;
  if (first >= a.n) return;
  const std::array<uint32_t, 4> words = dropout_words(*a.key, a.number, block);
  const T* x = static_cast<const T*>(a.x) + first;
  T* y = static_cast<T*>(a.y) + first;
  T at[kNumbers];
#pragma unroll
  for (int i = 0; i < kNumbers; ++i) at[i] = first + i * kLanes < a.n ? x[i * kLanes] : from_float<T>(0);
#pragma unroll
  for (int i = 0; i < kNumbers; ++i) {
    const bool keep = dropout_number(words, i) < a.below;
    if (first + i * kLanes < a.n) y[i * kLanes] = from_float<T>(keep ? to_float(at[i]) * a.scale : 0);
  }
}

}  // namespace

cudaError_t dropout(const DropoutArgs& a, cudaStream_t stream) {
  if (a.n < 0 || a.n > int64_t{1} << 34) return cudaErrorInvalidValue;
  const int64_t blocks = divide_up(a.n, kGroup) * kLanes;
  const Grid grid{.blocks = static_cast<unsigned>(divide_up<int64_t>(blocks, kThreads)), .threads = kThreads};
  return with_type(a.type, [&]<class T>(T) { return launch(drop<T>, grid, stream, a); });
}

}  // namespace ct::kernels
