#include "activation_rules.h"
#include "elementwise.h"

namespace ct::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kInFlight = 4;  // accesses that a thread starts before it waits for the first

// What is computed: of how many operands of which type (From), into which (To).
template <class T, class Rule>
struct Value {
  using From = T;
  using To = T;
  static constexpr int kOperands = 1;
  __device__ float operator()(float x, float) const { return Rule::template value<T>(x); }
};
template <class T, class Rule>
struct Gradient {
  using From = T;
  using To = T;
  static constexpr int kOperands = 2;
  __device__ float operator()(float x, float dy) const { return Rule::template gradient<T>(x, dy); }
};
template <class T>
struct Add {
  using From = T;
  using To = T;
  static constexpr int kOperands = 2;
  __device__ float operator()(float a, float b) const { return a + b; }
};
template <class X, class Y>
struct Cast {
  using From = X;
  using To = Y;
  static constexpr int kOperands = 1;
  __device__ float operator()(float x, float) const { return x; }
};

/// y[i] = op(a[i], b[i]); thread by thread kInFlight groups of N, a block's width apart; what is left of the last group
/// is the first block's. Every element is read and written by the same thread, all reads first: y may be an operand.
template <int N, class Op, class From = typename Op::From, class To = typename Op::To>
__global__ void __launch_bounds__(kThreads) map(Op op, const From* a, const From* b, To* y, int64_t n) {
  wait_for_previous();
  const int64_t groups = n / N, first = int64_t{blockIdx.x} * kThreads * kInFlight + threadIdx.x;
  const auto value = [&op](const From& a, const From& b) {
    return from_float<To>(op(to_float(a), Op::kOperands > 1 ? to_float(b) : 0));
  };
  Pack<From, N> at[kInFlight], bt[kInFlight];
#pragma unroll
  for (int u = 0; u < kInFlight; ++u) {
    const int64_t i = first + u * kThreads;
    if (i >= groups) continue;
    at[u] = reinterpret_cast<const Pack<From, N>*>(a)[i];
    if constexpr (Op::kOperands > 1) bt[u] = reinterpret_cast<const Pack<From, N>*>(b)[i];
  }
#pragma unroll  // also a long op: packs stay in registers only where every index is known
  for (int u = 0; u < kInFlight; ++u) {
    const int64_t i = first + u * kThreads;
    if (i >= groups) continue;
    Pack<To, N> result;
#pragma unroll
    for (int k = 0; k < N; ++k) result.at[k] = value(at[u].at[k], bt[u].at[k]);
    reinterpret_cast<Pack<To, N>*>(y)[i] = result;
  }
  if (const int64_t i = groups * N + first; blockIdx.x == 0 && i < n) {
    From right{};
    if constexpr (Op::kOperands > 1) right = b[i];
    y[i] = value(a[i], right);
  }
}

Grid blocks_for(int64_t items, int64_t a_block) {
  return {.blocks = static_cast<unsigned>(divide_up(items, a_block)), .threads = kThreads};
}

template <class Op>
cudaError_t launch_map(Op op, const void* a, const void* b, void* y, int64_t n, cudaStream_t stream) {
  using From = typename Op::From;
  using To = typename Op::To;
  if (n < 0) return cudaErrorInvalidValue;
  constexpr int kWide = 16 / (sizeof(From) > sizeof(To) ? sizeof(From) : sizeof(To));
  const auto start = [&](auto kernel, int64_t width) {
    return launch_early(kernel, blocks_for(n, width * kThreads * kInFlight), stream, op, static_cast<const From*>(a),
                        static_cast<const From*>(b), static_cast<To*>(y), n);
  };
  return aligned_16(a, b, y) ? start(map<kWide, Op>, kWide) : start(map<1, Op>, 1);
}

/// A thread a group of y.
template <class T, int N>
__global__ void __launch_bounds__(kThreads) copy_groups(CopyRowsArgs a) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x, groups = a.y_stride / N;
  if (i >= a.rows * groups) return;
  const int64_t row = i / groups, column = (i - row * groups) * N;
  const T* x = static_cast<const T*>(a.x) + row * a.x_stride + column;
  T* y = static_cast<T*>(a.y) + row * a.y_stride + column;
  Pack<T, N> made{};
  if (column + N <= a.features)
    made = *reinterpret_cast<const Pack<T, N>*>(x);
  else
    for (int k = 0; k < N; ++k)
      if (column + k < a.features) made.at[k] = x[k];
  *reinterpret_cast<Pack<T, N>*>(y) = made;
}

/// A thread a pad.
template <class T>
__global__ void __launch_bounds__(kThreads) zero_ends(ZeroPadsArgs a) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x, pads = a.stride - a.features;
  if (i >= a.rows * pads) return;
  const int64_t row = i / pads;
  static_cast<T*>(a.y)[row * a.stride + a.features + (i - row * pads)] = from_float<T>(0);
}

}  // namespace

cudaError_t activate(const ActivateArgs& a, cudaStream_t stream) {
  return with_type(a.type, [&]<class T>(T) {
    return by_rule(a.activation, [&]<class Rule>(Rule) {
      return launch_map(Value<T, Rule>{}, a.x, /*b=*/nullptr, a.y, a.n, stream);
    });
  });
}

cudaError_t activation_grad(const ActivationGradArgs& a, cudaStream_t stream) {
  return with_type(a.type, [&]<class T>(T) {
    return by_rule(a.activation,
                   [&]<class Rule>(Rule) { return launch_map(Gradient<T, Rule>{}, a.x, a.dy, a.dx, a.n, stream); });
  });
}

cudaError_t add(const AddArgs& a, cudaStream_t stream) {
  return with_type(a.type, [&]<class T>(T) { return launch_map(Add<T>{}, a.a, a.b, a.y, a.n, stream); });
}

cudaError_t cast(const CastArgs& a, cudaStream_t stream) {
  return with_type(a.from, [&]<class From>(From) {
    return with_type(a.to,
                     [&]<class To>(To) { return launch_map(Cast<From, To>{}, a.x, /*b=*/nullptr, a.y, a.n, stream); });
  });
}

cudaError_t copy_rows(const CopyRowsArgs& a, cudaStream_t stream) {
  if (a.rows < 0 || a.features < 0 || a.x_stride < a.features || a.y_stride < a.features) return cudaErrorInvalidValue;
  return with_type(a.type, [&]<class T>(T) {
    constexpr int kWide = Pack<T>::kSize;
    const int64_t n = a.rows * a.y_stride;
    if (aligned_16(a.x, a.y) && a.x_stride % kWide == 0 && a.y_stride % kWide == 0)
      return launch(copy_groups<T, kWide>, blocks_for(n / kWide, kThreads), stream, a);
    return launch(copy_groups<T, 1>, blocks_for(n, kThreads), stream, a);
  });
}

cudaError_t zero_pads(const ZeroPadsArgs& a, cudaStream_t stream) {
  if (a.rows < 0 || a.features < 0 || a.stride < a.features) return cudaErrorInvalidValue;
  return with_type(a.type, [&]<class T>(T) {
    return launch(zero_ends<T>, blocks_for(a.rows * (a.stride - a.features), kThreads), stream, a);
  });
}

}  // namespace ct::kernels
