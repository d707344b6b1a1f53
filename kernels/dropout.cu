#include "dropout.h"
#include "random.h"

namespace ct::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kLanes = 16, kNumbers = 8;  // sixteen blocks of eight numbers make a group of elements
constexpr int64_t kGroup = kLanes * kNumbers;
constexpr uint32_t kPurpose = 6;  // ct::Purpose::dropout

/// A thread a block of numbers: of its group's elements every sixteenth.
template <class T>
__global__ void __launch_bounds__(kThreads) drop(DropoutArgs a) {
  const int64_t block = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const int64_t first = block / kLanes * kGroup + block % kLanes;
  if (first >= a.n) return;
  const DropoutKey key = *a.key;
  const Philox words =
      philox({{static_cast<uint32_t>(block), static_cast<uint32_t>(key.step),
               (static_cast<uint32_t>(key.step >> 32) & 0xFF) | static_cast<uint32_t>(key.micro_batch) << 8,
               kPurpose | static_cast<uint32_t>(a.number) << 8}},
             key.seed);
  const T* x = static_cast<const T*>(a.x) + first;
  T* y = static_cast<T*>(a.y) + first;
  T at[kNumbers];
#pragma unroll
  for (int i = 0; i < kNumbers; ++i) at[i] = first + i * kLanes < a.n ? x[i * kLanes] : from_float<T>(0);
#pragma unroll
  for (int i = 0; i < kNumbers; ++i) {
    const bool keep = (words.word[i / 2] >> (i % 2 * 16) & 0xFFFF) < a.below;
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
