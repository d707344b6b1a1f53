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
  float lr_scale = 1;
};

/// Slices of one launch, by value in its arguments; block b works on a chunk of the last with first_block <= b.
template <int kStates, bool kTrusted>
struct Batch {
  static constexpr int kMost = kStates + kTrusted < 4 ? kSlicesPerLaunch : kSlicesPerLaunch / 2;
  Slice<kStates> slices[kMost];
  int32_t tensor[kTrusted ? kMost : 1];
  uint32_t first_block[kMost];
  Type copy_type[kMost];
  bool aligned[kMost];
  int32_t count;
  int32_t chunk;  // elements a block works on
};

// ---- one element

__device__ __forceinline__ float minus_lr(const StepScalars& s, float lr_scale, double rate_factor = 1) {
  return -static_cast<float>(s.lr * lr_scale * rate_factor);
}

/// A rule that reads the ratio of trust of a slice's tensor has `ratios`, and step() takes the ratio.
template <class Rule>
constexpr bool kIsTrusted = requires {
  &Rule::ratios;
};
/// How many of a rule's states it changes: all, unless it says so.
template <class Rule, class = void>
constexpr int kWrittenStates = Rule::kStates;
template <class Rule>
constexpr int kWrittenStates<Rule, std::void_t<decltype(Rule::kWritten)>> = Rule::kWritten;
template <class Rule>
using BatchOf = Batch<Rule::kStates, kIsTrusted<Rule>>;

template <bool kDecoupled>
struct AdamRule {
  static constexpr int kStates = 3;
  float eps;

  struct Step {
    float scale, minus_lr, beta1, one_minus_beta1, beta2, one_minus_beta2, correct1, correct2;
  };
  __device__ Step step(const StepScalars& s, float lr_scale) const {
    const double beta1 = s.coefficients[kBeta1], beta2 = s.coefficients[kBeta2];
    return {.scale = static_cast<float>(s.grad_scale),
            .minus_lr = minus_lr(s, lr_scale),
            .beta1 = static_cast<float>(beta1),
            .one_minus_beta1 = static_cast<float>(1 - beta1),
            .beta2 = static_cast<float>(beta2),
            .one_minus_beta2 = static_cast<float>(1 - beta2),
            .correct1 = static_cast<float>(1 / s.coefficients[kBiasCorrection1]),
            .correct2 = static_cast<float>(1 / sqrt(s.coefficients[kBiasCorrection2]))};
  }
  __device__ __forceinline__ void operator()(const Step& step, float weight_decay, float grad, float* states) const {
    float p = states[0], g = grad * step.scale;
    if constexpr (!kDecoupled) g = __fmaf_rn(weight_decay, p, g);
    const float m = __fmaf_rn(step.beta1, states[1], step.one_minus_beta1 * g);
    const float v = __fmaf_rn(step.beta2, states[2], step.one_minus_beta2 * (g * g));
    float u = __fdiv_rn(m * step.correct1, __fmaf_rn(__fsqrt_rn(v), step.correct2, eps));
    if constexpr (kDecoupled) u = __fmaf_rn(weight_decay, p, u);
    states[0] = __fmaf_rn(step.minus_lr, u, p);
    states[1] = m;
    states[2] = v;
  }
};

enum class Momentum { none, plain, nesterov };
template <Momentum kKind>
struct SgdRule {
  static constexpr int kStates = kKind == Momentum::none ? 1 : 2;

  struct Step {
    float scale, minus_lr, momentum;
  };
  __device__ Step step(const StepScalars& s, float lr_scale) const {
    return {static_cast<float>(s.grad_scale), minus_lr(s, lr_scale), static_cast<float>(s.coefficients[kMomentum])};
  }
  __device__ __forceinline__ void operator()(const Step& step, float weight_decay, float grad, float* states) const {
    const float p = states[0];
    float g = __fmaf_rn(weight_decay, p, grad * step.scale);
    if constexpr (kKind != Momentum::none) {
      const float buffer = __fmaf_rn(step.momentum, states[1], g);
      states[1] = buffer;
      g = kKind == Momentum::nesterov ? __fmaf_rn(step.momentum, buffer, g) : buffer;
    }
    states[0] = __fmaf_rn(step.minus_lr, g, p);
  }
};

// States: masters, square_avg, grad_avg if centered, momentum_buffer if there is one.
template <bool kCentered, bool kBuffer>
struct RmsPropRule {
  static constexpr int kStates = 2 + kCentered + kBuffer;
  float alpha, one_minus_alpha, eps;

  struct Step {
    float scale, minus_lr, momentum;
  };
  __device__ Step step(const StepScalars& s, float lr_scale) const {
    return {static_cast<float>(s.grad_scale), minus_lr(s, lr_scale), static_cast<float>(s.coefficients[kMomentum])};
  }
  __device__ __forceinline__ void operator()(const Step& step, float weight_decay, float grad, float* states) const {
    const float p = states[0], g = __fmaf_rn(weight_decay, p, grad * step.scale);
    float v = __fmaf_rn(alpha, states[1], one_minus_alpha * (g * g));
    states[1] = v;
    if constexpr (kCentered) {
      const float mean = __fmaf_rn(alpha, states[2], one_minus_alpha * g);
      states[2] = mean;
      v = fmaxf(__fmaf_rn(-mean, mean, v), 0.0f);
    }
    float u = __fdiv_rn(g, __fsqrt_rn(v) + eps);
    if constexpr (kBuffer) states[kStates - 1] = u = __fmaf_rn(step.momentum, states[kStates - 1], u);
    states[0] = __fmaf_rn(step.minus_lr, u, p);
  }
};

struct LionRule {
  static constexpr int kStates = 2;

  struct Step {
    float scale, minus_lr, beta1, one_minus_beta1, beta2, one_minus_beta2;
  };
  __device__ Step step(const StepScalars& s, float lr_scale) const {
    const double beta1 = s.coefficients[kBeta1], beta2 = s.coefficients[kBeta2];
    return {.scale = static_cast<float>(s.grad_scale),
            .minus_lr = minus_lr(s, lr_scale),
            .beta1 = static_cast<float>(beta1),
            .one_minus_beta1 = static_cast<float>(1 - beta1),
            .beta2 = static_cast<float>(beta2),
            .one_minus_beta2 = static_cast<float>(1 - beta2)};
  }
  __device__ __forceinline__ void operator()(const Step& step, float weight_decay, float grad, float* states) const {
    const float p = states[0], g = grad * step.scale;
    const float c = __fmaf_rn(step.beta1, states[1], step.one_minus_beta1 * g);
    const float sign = c > 0 ? 1.0f : c < 0 ? -1.0f : c;  // 0, or NaN
    states[0] = __fmaf_rn(step.minus_lr, __fmaf_rn(weight_decay, p, sign), p);
    states[1] = __fmaf_rn(step.beta2, states[1], step.one_minus_beta2 * g);
  }
};

struct AdagradRule {
  static constexpr int kStates = 2;
  float eps;

  struct Step {
    float scale, minus_lr;
  };
  __device__ Step step(const StepScalars& s, float lr_scale) const {
    return {static_cast<float>(s.grad_scale), minus_lr(s, lr_scale, s.coefficients[kAdagradRateFactor])};
  }
  __device__ __forceinline__ void operator()(const Step& step, float weight_decay, float grad, float* states) const {
    const float p = states[0], g = __fmaf_rn(weight_decay, p, grad * step.scale);
    const float sum = __fmaf_rn(g, g, states[1]);
    states[0] = __fmaf_rn(step.minus_lr, __fdiv_rn(g, __fsqrt_rn(sum) + eps), p);
    states[1] = sum;
  }
};

template <Momentum kKind>
struct LarsRule {
  static constexpr int kStates = kKind == Momentum::none ? 1 : 2;
  const float* ratios;

  struct Step {
    float scale, minus_lr, momentum, trust;
  };
  __device__ Step step(const StepScalars& s, float lr_scale, float trust) const {
    return {static_cast<float>(s.grad_scale), minus_lr(s, lr_scale), static_cast<float>(s.coefficients[kMomentum]),
            trust};
  }
  __device__ __forceinline__ void operator()(const Step& step, float weight_decay, float grad, float* states) const {
    const float p = states[0];
    float g = step.trust * __fmaf_rn(weight_decay, p, grad * step.scale);
    if constexpr (kKind != Momentum::none) {
      const float buffer = __fmaf_rn(step.momentum, states[1], g);
      states[1] = buffer;
      g = kKind == Momentum::nesterov ? __fmaf_rn(step.momentum, buffer, g) : buffer;
    }
    states[0] = __fmaf_rn(step.minus_lr, g, p);
  }
};

struct LambRule {
  static constexpr int kStates = 3, kWritten = 1;
  const float* ratios;
  float eps;

  struct Step {
    float minus_rate;
  };
  __device__ Step step(const StepScalars& s, float lr_scale, float trust) const {
    return {minus_lr(s, lr_scale, s.coefficients[kLambRateFactor]) * trust};
  }
  __device__ __forceinline__ void operator()(const Step& step, float weight_decay, float, float* states) const {
    const float p = states[0];
    const float u = __fmaf_rn(weight_decay, p, __fdiv_rn(states[1], __fsqrt_rn(states[2]) + eps));
    states[0] = __fmaf_rn(step.minus_rate, u, p);
  }
};

// States: the gradient, which comes as such too, and the momentum.
struct MuonMomentumRule {
  static constexpr int kStates = 2;
  float rest;  // 1 - momentum
  bool nesterov;

  struct Step {
    float scale;
  };
  __device__ Step step(const StepScalars& s, float) const { return {static_cast<float>(s.grad_scale)}; }
  __device__ __forceinline__ void operator()(const Step& step, float, float grad, float* states) const {
    const float g = grad * step.scale, b = __fmaf_rn(rest, g - states[1], states[1]);
    states[0] = nesterov ? __fmaf_rn(rest, g - b, b) : b;
    states[1] = b;
  }
};

struct MuonRule {
  static constexpr int kStates = 1;

  struct Step {
    float minus_lr;
  };
  __device__ Step step(const StepScalars& s, float lr_scale) const { return {minus_lr(s, lr_scale)}; }
  __device__ __forceinline__ void operator()(const Step& step, float weight_decay, float grad, float* states) const {
    const float p = states[0];
    states[0] = __fmaf_rn(step.minus_lr, __fmaf_rn(weight_decay, p, grad), p);
  }
};

struct BlendRule {
  static constexpr int kStates = 1;
  float share;

  struct Step {};
  __device__ Step step(const StepScalars&, float) const { return {}; }
  __device__ __forceinline__ void operator()(const Step&, float momentum, float sum, float* states) const {
    states[0] = states[0] + momentum * (sum * share - states[0]);
  }
};

// State: the average; the masters come as gradients do.
struct EmaRule {
  static constexpr int kStates = 1;
  float rest;  // 1 - decay
  int64_t start;

  struct Step {
    bool copies;
  };
  __device__ Step step(const StepScalars& s, float) const { return {.copies = s.applied <= start}; }
  __device__ __forceinline__ void operator()(const Step& step, float, float master, float* states) const {
    states[0] = step.copies ? master : __fmaf_rn(rest, master - states[0], states[0]);
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
__device__ __forceinline__ void update_at(const Slice<Rule::kStates>& slice, Type copy_type, int64_t i,
                                          const Rule& rule, const typename Rule::Step& step) {
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
  for (int s = 0; s < kWrittenStates<Rule>; ++s) store<kCount>(slice.states[s] + i, states[s]);
  if (slice.copy == nullptr) return;
  switch (copy_type) {
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
    update(BatchOf<Rule> batch, Rule rule, const StepScalars* __restrict__ scalars) {
  int at = 0;
#pragma unroll
  for (int jump = BatchOf<Rule>::kMost / 2; jump > 0; jump /= 2)
    if (at + jump < batch.count && batch.first_block[at + jump] <= blockIdx.x) at += jump;
  const Slice<Rule::kStates> slice = batch.slices[at];

  auto* shared_step = shared_memory<typename Rule::Step>();
  if (threadIdx.x == 0) {  // one thread a block divides in f64
    if constexpr (kIsTrusted<Rule>)
      *shared_step = rule.step(*scalars, slice.lr_scale, rule.ratios[batch.tensor[at]]);
    else
      *shared_step = rule.step(*scalars, slice.lr_scale);
  }
  const bool skip = scalars->skip != 0;
  __syncthreads();
  if (skip) return;
  const typename Rule::Step step = *shared_step;

  const Type copy_type = batch.copy_type[at];
  const int64_t begin = static_cast<int64_t>(blockIdx.x - batch.first_block[at]) * batch.chunk;
  const int64_t end = begin + batch.chunk < slice.n ? begin + batch.chunk : slice.n;
  const int64_t scalar_begin = batch.aligned[at] ? end - (end - begin) % kWidth : begin;
  for (int64_t i = begin + threadIdx.x * kWidth; i < scalar_begin; i += kThreads * kWidth)
    update_at<kWidth>(slice, copy_type, i, rule, step);
  for (int64_t i = scalar_begin + threadIdx.x; i < end; i += kThreads) update_at<1>(slice, copy_type, i, rule, step);
}

// ---- launches

bool copy_aligned(const void* copy, Type type) {
  return reinterpret_cast<uintptr_t>(copy) % (kWidth * (type == Type::f32 ? 4 : 2)) == 0;
}

/// states_of(slice): masters first, then the rule's own.
template <class Rule, class S, class StatesOf>
cudaError_t update_all(const Rule& rule, const Slices<S>& all, cudaStream_t stream, StatesOf states_of) {
  constexpr int kStates = Rule::kStates;
  using Launch = BatchOf<Rule>;
  static_assert(sizeof(Launch) + sizeof(Rule) + sizeof(all.scalars) <= 4096);  // what a launch can take
  for (int first = 0; first < all.slice_count; first += Launch::kMost) {
    Launch batch = {};
    batch.count = std::min(all.slice_count - first, Launch::kMost);
    int64_t total = 0;
    for (int i = 0; i < batch.count; ++i) {
      const S& s = all.slices[first + i];
      Slice<kStates>& slice = batch.slices[i] = states_of(s);
      slice.n = s.n;
      if constexpr (requires { s.copy; }) {
        slice.copy = s.copy;
        batch.copy_type[i] = s.copy_type;
      }
      if constexpr (kIsTrusted<Rule>) batch.tensor[i] = s.tensor;
      batch.aligned[i] = aligned_16(slice.grads) && copy_aligned(slice.copy, batch.copy_type[i]) &&
                         std::all_of(slice.states, slice.states + kStates, [](float* p) { return aligned_16(p); });
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
    if (const cudaError_t error = launch(update<Rule>, grid, stream, batch, rule, all.scalars); error != cudaSuccess)
      return error;
  }
  return cudaSuccess;
}

/// The slice of any optimizer, with the states that its rule keeps.
template <class... States>
Slice<1 + sizeof...(States)> slice_of(const UpdateSlice& s, States... states) {
  return {.states = {s.masters, states...},
          .grads = s.grads,
          .factor = static_cast<float>(s.weight_decay),
          .lr_scale = s.lr_scale};
}

/// Is the state there in all slices (1), in none (0), in some (-1)?
template <class S>
int kept(const Slices<S>& all, float* S::*state) {
  const auto count =
      std::count_if(all.slices, all.slices + all.slice_count, [&](const S& s) { return s.*state != nullptr; });
  return count == 0 ? 0 : count == all.slice_count ? 1 : -1;
}

template <bool kDecoupled>
cudaError_t adam_all(const AdamArgs& args, cudaStream_t stream) {
  return update_all(AdamRule<kDecoupled>{static_cast<float>(args.eps)}, args.all, stream,
                    [](const AdamSlice& s) { return slice_of(s, s.exp_avg, s.exp_avg_sq); });
}

template <Momentum kKind>
cudaError_t sgd_all(const SgdArgs& args, cudaStream_t stream) {
  return update_all(SgdRule<kKind>{}, args.all, stream, [](const SgdSlice& s) {
    if constexpr (kKind == Momentum::none)
      return slice_of(s);
    else
      return slice_of(s, s.momentum_buffer);
  });
}

template <bool kCentered, bool kBuffer>
cudaError_t rmsprop_all(const RmsPropArgs& args, cudaStream_t stream) {
  const RmsPropRule<kCentered, kBuffer> rule{.alpha = static_cast<float>(args.alpha),
                                             .one_minus_alpha = static_cast<float>(1 - args.alpha),
                                             .eps = static_cast<float>(args.eps)};
  return update_all(rule, args.all, stream, [](const RmsPropSlice& s) {
    if constexpr (kCentered && kBuffer)
      return slice_of(s, s.square_avg, s.grad_avg, s.momentum_buffer);
    else if constexpr (kCentered || kBuffer)
      return slice_of(s, s.square_avg, kCentered ? s.grad_avg : s.momentum_buffer);
    else
      return slice_of(s, s.square_avg);
  });
}

template <Momentum kKind>
cudaError_t lars_all(const LarsArgs& args, cudaStream_t stream) {
  return update_all(LarsRule<kKind>{args.ratios}, args.all, stream, [](const LarsSlice& s) {
    if constexpr (kKind == Momentum::none)
      return slice_of(s);
    else
      return slice_of(s, s.momentum_buffer);
  });
}

}  // namespace

cudaError_t adam(const AdamArgs& args, cudaStream_t stream) {
  return args.decoupled ? adam_all</*kDecoupled=*/true>(args, stream) : adam_all</*kDecoupled=*/false>(args, stream);
}

cudaError_t sgd(const SgdArgs& args, cudaStream_t stream) {
  const int buffer = kept(args.all, &SgdSlice::momentum_buffer);
  if (buffer < 0) return cudaErrorInvalidValue;
  if (buffer == 0) return sgd_all<Momentum::none>(args, stream);
  return args.nesterov ? sgd_all<Momentum::nesterov>(args, stream) : sgd_all<Momentum::plain>(args, stream);
}

cudaError_t rmsprop(const RmsPropArgs& args, cudaStream_t stream) {
  const int buffer = kept(args.all, &RmsPropSlice::momentum_buffer), mean = kept(args.all, &RmsPropSlice::grad_avg);
  if (buffer < 0 || mean < 0) return cudaErrorInvalidValue;
  if (mean > 0) return buffer > 0 ? rmsprop_all<true, true>(args, stream) : rmsprop_all<true, false>(args, stream);
  return buffer > 0 ? rmsprop_all<false, true>(args, stream) : rmsprop_all<false, false>(args, stream);
}

cudaError_t lion(const LionArgs& args, cudaStream_t stream) {
  return update_all(LionRule{}, args.all, stream, [](const LionSlice& s) { return slice_of(s, s.exp_avg); });
}

cudaError_t adagrad(const AdagradArgs& args, cudaStream_t stream) {
  return update_all(AdagradRule{static_cast<float>(args.eps)}, args.all, stream,
                    [](const AdagradSlice& s) { return slice_of(s, s.sum); });
}

cudaError_t lars(const LarsArgs& args, cudaStream_t stream) {
  const int buffer = kept(args.all, &LarsSlice::momentum_buffer);
  if (buffer < 0) return cudaErrorInvalidValue;
  if (buffer == 0) return lars_all<Momentum::none>(args, stream);
  return args.nesterov ? lars_all<Momentum::nesterov>(args, stream) : lars_all<Momentum::plain>(args, stream);
}

cudaError_t lamb(const LambArgs& args, cudaStream_t stream) {
  const LambRule rule{.ratios = args.ratios, .eps = static_cast<float>(args.eps)};
  return update_all(rule, args.all, stream, [](const LambSlice& s) {
    Slice<3> slice = slice_of(s, s.exp_avg, s.exp_avg_sq);
    slice.grads = s.masters;  // something that may be read
    return slice;
  });
}

cudaError_t muon_momentum(const MuonMomentumArgs& args, cudaStream_t stream) {
  const MuonMomentumRule rule{.rest = static_cast<float>(1 - args.momentum), .nesterov = args.nesterov};
  const Slices<MuonMomentumSlice> all{args.slices, args.slice_count, args.scalars};
  return update_all(rule, all, stream, [](const MuonMomentumSlice& s) {
    return Slice<2>{.states = {s.grads, s.momentum_buffer}, .grads = s.grads};
  });
}

cudaError_t muon(const MuonArgs& args, cudaStream_t stream) {
  return update_all(MuonRule{}, args.all, stream, [](const UpdateSlice& s) { return slice_of(s); });
}

cudaError_t blend(const BlendArgs& args, cudaStream_t stream) {
  if (args.micro_batches < 1) return cudaErrorInvalidValue;
  const BlendRule rule{.share = 1 / static_cast<float>(args.micro_batches)};
  const Slices<BlendSlice> all{args.slices, args.slice_count, args.scalars};
  return update_all(rule, all, stream, [](const BlendSlice& s) {
    return Slice<1>{.states = {s.masters}, .grads = s.sums, .factor = static_cast<float>(s.momentum)};
  });
}

cudaError_t ema(const EmaArgs& args, cudaStream_t stream) {
  const EmaRule rule{.rest = static_cast<float>(1 - args.decay), .start = args.start};
  const Slices<EmaSlice> all{args.slices, args.slice_count, args.scalars};
  return update_all(rule, all, stream,
                    [](const EmaSlice& s) { return Slice<1>{.states = {s.average}, .grads = s.masters}; });
}

}  // namespace ct::kernels
