#include "activation_rules.h"
#include "dropout.h"

namespace ct::kernels {
namespace {

constexpr int kThreads = 256;
// Sixteen blocks of eight numbers make a group of elements.
constexpr int64_t kGroup = kDropoutGroup;
constexpr int kLanes = kDropoutLanes, kNumbers = kGroup / kLanes;

// What becomes of an element before it is dropped and after, of which the second reads `at`.
struct Plain {
  static constexpr bool kReadsAt = false;
  template <class T>
  static __device__ float before(float x) {
    return x;
  }
  template <class T>
  static __device__ float after(float y, float) {
    return y;
  }
};
template <class Rule>
struct OfActivation : Plain {
  template <class T>
  static __device__ float before(float x) {
    return to_float(from_float<T>(Rule::template value<T>(x)));
  }
};
template <class Rule>
struct ThenGradient : Plain {
  static constexpr bool kReadsAt = true;
  template <class T>
  static __device__ float after(float y, float at) {
    return Rule::template gradient<T>(at, to_float(from_float<T>(y)));
  }
};

/// One thread per block of numbers: of its group's elements every sixteenth.
template <class T, class Op>
__global__ void __launch_bounds__(kThreads) drop(DropoutArgs a) {
  const int64_t block = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const int64_t first = block / kLanes * kGroup + block % kLanes;
  if (first >= a.n) return;
  const std::array<uint32_t, 4> words = dropout_words(*a.key, a.number, block);
  const T* x = static_cast<const T*>(a.x) + first;
  T* y = static_cast<T*>(a.y) + first;
  const T* at = Op::kReadsAt ? static_cast<const T*>(a.at) + first : x;
  T xs[kNumbers], ats[kNumbers];
#pragma unroll
  for (int i = 0; i < kNumbers; ++i) {
    const bool inside = first + i * kLanes < a.n;
    xs[i] = inside ? x[i * kLanes] : from_float<T>(0);
    if constexpr (Op::kReadsAt) ats[i] = inside ? at[i * kLanes] : from_float<T>(0);
  }
#pragma unroll
  for (int i = 0; i < kNumbers; ++i) {
    const bool keep = dropout_number(words, i) < a.below;
    const float dropped = keep ? Op::template before<T>(to_float(xs[i])) * a.scale : 0;
    if (first + i * kLanes < a.n)
      y[i * kLanes] = from_float<T>(Op::template after<T>(dropped, Op::kReadsAt ? to_float(ats[i]) : 0));
  }
}

}  // namespace

cudaError_t dropout(const DropoutArgs& a, cudaStream_t stream) {
  if (a.n < 0 || a.n > int64_t{1} << 34) return cudaErrorInvalidValue;
  const int64_t blocks = divide_up(a.n, kGroup) * kLanes;
  const Grid grid{.blocks = static_cast<unsigned>(divide_up<int64_t>(blocks, kThreads)), .threads = kThreads};
  return with_type(a.type, [&]<class T>(T) {
    if (a.activation == Activation::none) return launch(drop<T, Plain>, grid, stream, a);
    return by_rule(a.activation, [&]<class Rule>(Rule) {
      return a.at == nullptr ? launch(drop<T, OfActivation<Rule>>, grid, stream, a)
                             : launch(drop<T, ThenGradient<Rule>>, grid, stream, a);
    });
  });
}

}  // namespace ct::kernels
