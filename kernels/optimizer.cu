#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "optimizer.h"

namespace ct::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kWidth = Pack<float>::kSize;

// What an element's update keeps between steps: masters first, then the rule's own.
template <int kStates>
struct Slice {
  float* states[kStates];
  const float* grads;
  void* copy;
  int64_t n;
  float factor;  // weight decay; of a statistic, its momentum
  Type copy_type;
  bool aligned = false;
};

/// By value in the launch's arguments; block b works on a chunk of the last slice whose first_block is <= b.
template <int kStates>
struct Batch {
  Slice<kStates> slices[kSlicesPerLaunch];
  uint32_t first_block[kSlicesPerLaunch];
  int32_t count;
  int32_t chunk;  // elements a block works on
};

// ---- one element

template <bool kDecoupled>
struct AdamRule {
  static constexpr int kStates = 3;
  float beta1, one_minus_beta1, beta2, one_minus_beta2, eps;

  struct Step {
    float scale, minus_lr, correct1, correct2;
  };
  __device__ Step step(const StepScalars& s) const {
    return {static_cast<float>(s.grad_scale), -static_cast<float>(s.lr), static_cast<float>(1 / s.bias_correction1),
            static_cast<float>(1 / sqrt(s.bias_correction2))};
  }
  __device__ __forceinline__ void operator()(const Step& step, float weight_decay, float grad, float* states) const {
    float p = states[0], g = grad * step.scale;
    if constexpr (!kDecoupled) g = __fmaf_rn(weight_decay, p, g);
    const float m = __fmaf_rn(beta1, states[1], one_minus_beta1 * g);
    const float v = __fmaf_rn(beta2, states[2], one_minus_beta2 * (g * g));
    float u = __fdiv_rn(m * step.correct1, __fmaf_rn(__fsqrt_rn(v), step.correct2, eps));
    if constexpr (kDecoupled) u = __fmaf_rn(weight_decay, p, u);
    states[0] = __fmaf_rn(step.minus_lr, u, p);
    states[1] = m;
    states[2] = v;
  }
};

enum class Momentum { none, plain, nesterov };
template <Momentum kMomentum>
struct SgdRule {
  static constexpr int kStates = kMomentum == Momentum::none ? 1 : 2;
  float momentum;

  struct Step {
    float scale, minus_lr;
  };
  __device__ Step step(const StepScalars& s) const {
    return {static_cast<float>(s.grad_scale), -static_cast<float>(s.lr)};
  }
  __device__ __forceinline__ void operator()(const Step& step, float weight_decay, float grad, float* states) const {
    const float p = states[0];
    float g = __fmaf_rn(weight_decay, p, grad * step.scale);
    if constexpr (kMomentum != Momentum::none) {
      const float buffer = __fmaf_rn(momentum, states[1], g);
      states[1] = buffer;
      g = kMomentum == Momentum::nesterov ? __fmaf_rn(momentum, buffer, g) : buffer;
    }
    states[0] = __fmaf_rn(step.minus_lr, g, p);
  }
};

struct BlendRule {
  static constexpr int kStates = 1;
  float share;

  struct Step {};
  __device__ Step step(const StepScalars&) const { return {}; }
  __device__ __forceinline__ void operator()(const Step&, float momentum, float sum, float* states) const {
    states[0] = states[0] + momentum * (sum * share - states[0]);
  }
};

// ---- all elements

// Accesses of kCount elements at once, 1 or kWidth; through a vector type, since the compiler splits a struct's.
template <class T>
using Word = std::conditional_t<sizeof(T) == sizeof(float), uint4, uint2>;

template <int kCount, class T>
__device__ __forceinline__ void load(const T* from, T* values) {
  if constexpr (kCount == 1) {
    *values = *from;
  } else {
    const Word<T> word = *reinterpret_cast<const Word<T>*>(from);
    memcpy(values, &word, sizeof word);
  }
}
template <int kCount, class T>
__device__ __forceinline__ void store(T* to, const T* values) {
  if constexpr (kCount == 1) {
    *to = *values;
  } else {
    Word<T> word;
    memcpy(&word, values, sizeof word);
    *reinterpret_cast<Word<T>*>(to) = word;
  }
}
template <int kCount, class T>
__device__ __forceinline__ void store_copy(void* copy, int64_t i, const float* masters) {
  T values[kCount];
#pragma unroll
  for (int k = 0; k < kCount; ++k) values[k] = from_float<T>(masters[k]);
  store<kCount>(static_cast<T*>(copy) + i, values);
}

/// Elements [i, i + kCount) of a slice.
template <int kCount, class Rule>
__device__ __forceinline__ void update_at(const Slice<Rule::kStates>& slice, int64_t i, const Rule& rule,
                                          const typename Rule::Step& step) {
  constexpr int kStates = Rule::kStates;
  float grads[kCount], states[kStates][kCount];
  load<kCount>(slice.grads + i, grads);
#pragma unroll
  for (int s = 0; s < kStates; ++s) load<kCount>(slice.states[s] + i, states[s]);
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    float element[kStates];
#pragma unroll
    for (int s = 0; s < kStates; ++s) element[s] = states[s][k];
    rule(step, slice.factor, grads[k], element);
#pragma unroll
    for (int s = 0; s < kStates; ++s) states[s][k] = element[s];
  }
#pragma unroll
  for (int s = 0; s < kStates; ++s) store<kCount>(slice.states[s] + i, states[s]);
  if (slice.copy == nullptr) return;
  switch (slice.copy_type) {
    case Type::f32:
      return store_copy<kCount, float>(slice.copy, i, states[0]);
    case Type::bf16:
      return store_copy<kCount, __nv_bfloat16>(slice.copy, i, states[0]);
    case Type::f16:
      return store_copy<kCount, __half>(slice.copy, i, states[0]);
  }
}

template <class Rule>
__global__ void __launch_bounds__(kThreads)
    update(Batch<Rule::kStates> batch, Rule rule, const StepScalars* __restrict__ scalars) {
  auto* shared_step = shared_memory<typename Rule::Step>();
  if (threadIdx.x == 0) *shared_step = rule.step(*scalars);  // one thread a block divides in f64
  const bool skip = scalars->skip != 0;
  __syncthreads();
  if (skip) return;
  const typename Rule::Step step = *shared_step;

  int at = 0;
#pragma unroll
  for (int jump = kSlicesPerLaunch / 2; jump > 0; jump /= 2)
    if (at + jump < batch.count && batch.first_block[at + jump] <= blockIdx.x) at += jump;
  const Slice<Rule::kStates> slice = batch.slices[at];
  const int64_t begin = static_cast<int64_t>(blockIdx.x - batch.first_block[at]) * batch.chunk;
  const int64_t end = begin + batch.chunk < slice.n ? begin + batch.chunk : slice.n;
  const int64_t scalar_begin = slice.aligned ? end - (end - begin) % kWidth : begin;
  for (int64_t i = begin + threadIdx.x * kWidth; i < scalar_begin; i += kThreads * kWidth)
    update_at<kWidth>(slice, i, rule, step);
  for (int64_t i = scalar_begin + threadIdx.x; i < end; i += kThreads) update_at<1>(slice, i, rule, step);
}

// ---- launches

bool copy_aligned(const void* copy, Type type) {
  return reinterpret_cast<uintptr_t>(copy) % (kWidth * (type == Type::f32 ? 4 : 2)) == 0;
}

/// slice_of(i): the i-th of `count` slices.
template <class Rule, class SliceOf>
cudaError_t update_all(const Rule& rule, const StepScalars* scalars, int count, cudaStream_t stream, SliceOf slice_of) {
  static_assert(sizeof(Batch<Rule::kStates>) + sizeof(Rule) + sizeof(scalars) <= 4096);  // what a launch can take
  for (int first = 0; first < count; first += kSlicesPerLaunch) {
    Batch<Rule::kStates> batch = {};
    batch.count = std::min(count - first, kSlicesPerLaunch);
    int64_t total = 0;
    for (int i = 0; i < batch.count; ++i) {
      Slice<Rule::kStates>& slice = batch.slices[i] = slice_of(first + i);
      slice.aligned = aligned_16(slice.grads) && copy_aligned(slice.copy, slice.copy_type) &&
                      std::all_of(slice.states, slice.states + Rule::kStates, [](float* s) { return aligned_16(s); });
      total += slice.n;
    }
    // Small models are spread over the whole device; in large ones a block's preparations are shared by more elements.
    batch.chunk = (total > int64_t{1} << 20 ? 4 : 1) * kThreads * kWidth;
    int64_t blocks = 0;
    for (int i = 0; i < batch.count; ++i) {
      batch.first_block[i] = static_cast<uint32_t>(blocks);
      blocks += divide_up<int64_t>(batch.slices[i].n, batch.chunk);
    }
    const Grid grid{
        .blocks = static_cast<unsigned>(blocks), .threads = kThreads, .shared_bytes = sizeof(typename Rule::Step)};
    if (const cudaError_t error = launch(update<Rule>, grid, stream, batch, rule, scalars); error != cudaSuccess)
      return error;
  }
  return cudaSuccess;
}

template <bool kDecoupled>
cudaError_t adam_all(const AdamArgs& args, cudaStream_t stream) {
  const AdamRule<kDecoupled> rule{.beta1 = static_cast<float>(args.beta1),
                                  .one_minus_beta1 = static_cast<float>(1 - args.beta1),
                                  .beta2 = static_cast<float>(args.beta2),
                                  .one_minus_beta2 = static_cast<float>(1 - args.beta2),
                                  .eps = static_cast<float>(args.eps)};
  return update_all(rule, args.scalars, args.slice_count, stream, [&](int i) {
    const AdamSlice& s = args.slices[i];
    return Slice<3>{.states = {s.masters, s.exp_avg, s.exp_avg_sq},
                    .grads = s.grads,
                    .copy = s.copy,
                    .n = s.n,
                    .factor = static_cast<float>(s.weight_decay),
                    .copy_type = s.copy_type};
  });
}

template <Momentum kMomentum>
cudaError_t sgd_all(const SgdArgs& args, cudaStream_t stream) {
  using Rule = SgdRule<kMomentum>;
  return update_all(Rule{static_cast<float>(args.momentum)}, args.scalars, args.slice_count, stream, [&](int i) {
    const SgdSlice& s = args.slices[i];
    Slice<Rule::kStates> slice{.states = {s.masters},
                               .grads = s.grads,
                               .copy = s.copy,
                               .n = s.n,
                               .factor = static_cast<float>(s.weight_decay),
                               .copy_type = s.copy_type};
    if constexpr (kMomentum != Momentum::none) slice.states[1] = s.momentum_buffer;
    return slice;
  });
}

}  // namespace

cudaError_t adam(const AdamArgs& args, cudaStream_t stream) {
  return args.decoupled ? adam_all</*kDecoupled=*/true>(args, stream) : adam_all</*kDecoupled=*/false>(args, stream);
}

cudaError_t sgd(const SgdArgs& args, cudaStream_t stream) {
  const auto buffers = std::count_if(args.slices, args.slices + args.slice_count,
                                     [](const SgdSlice& s) { return s.momentum_buffer != nullptr; });
  if (buffers == 0) return sgd_all<Momentum::none>(args, stream);
  if (buffers != args.slice_count) return cudaErrorInvalidValue;
  return args.nesterov ? sgd_all<Momentum::nesterov>(args, stream) : sgd_all<Momentum::plain>(args, stream);
}

cudaError_t blend(const BlendArgs& args, cudaStream_t stream) {
  if (args.micro_batches < 1) return cudaErrorInvalidValue;
  const BlendRule rule{.share = 1 / static_cast<float>(args.micro_batches)};
  return update_all(rule, args.scalars, args.slice_count, stream, [&](int i) {
    const BlendSlice& s = args.slices[i];
    return Slice<1>{.states = {s.masters},
                    .grads = s.sums,
                    .copy = s.copy,
                    .n = s.n,
                    .factor = static_cast<float>(s.momentum),
                    .copy_type = s.copy_type};
  });
}

}  // namespace ct::kernels
