#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <utility>

#include "optimizer.h"
#include "optimizer_formulas.h"

namespace ct::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kWidth = Pack<float>::kSize;

// What an element's update keeps between steps: masters first, then the pass's own.
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
  int32_t chunk;  // elements that a block works on
};

// ---- one element. A pass has kStates, counted with the masters, how many of them it writes (kWritten), its numbers of
// a step (Step, by step()), and an operator for an element. One that is kTrusted reads trust ratios.

template <class Pass>
using BatchOf = Batch<Pass::kStates, Pass::kTrusted>;

/// A rule's update.
template <class Rule, int kForm>
struct RulePass {
  static constexpr int kKept = rules::kept_count<Rule>(kForm);
  static constexpr int kStates = 1 + kKept, kWritten = Rule::kWritesStates ? kStates : 1;
  static constexpr bool kTrusted = Rule::kTrusted;
  Rule rule;
  const float* ratios;

  struct Step {
    Formula<Rule, kForm> formula;
    StepNumbers step;
    float scale;
  };
  __device__ Step step(const StepScalars& s, float lr_scale, float trust = 1) const {
    return {Formula<Rule, kForm>::of(rule, rules::coefficients_in<Rule>(s.coefficients)),
            step_of<Rule>(s, 0, lr_scale, trust), static_cast<float>(s.grad_scale)};
  }
  __device__ __forceinline__ void operator()(const Step& step, float weight_decay, float grad, float* states) const {
    StepNumbers numbers = step.step;
    numbers.weight_decay = weight_decay;
    constexpr auto kIsKept = rules::kept_states<Rule>(kForm);
    typename Rule::template States<Register> values;
    auto* const value = reinterpret_cast<Register*>(&values);
#pragma unroll
    for (int i = 0, k = 1; i < static_cast<int>(Rule::kStates.size()); ++i)
      if (kIsKept[i]) value[i] = Register(states[k++]);
    Register w(states[0]);
    step.formula(numbers, Register(Rule::kScalesGradients ? grad * step.scale : grad), w, values);
    states[0] = w.v;
#pragma unroll
    for (int i = 0, k = 1; i < static_cast<int>(Rule::kStates.size()); ++i)
      if (kIsKept[i]) states[k++] = value[i].v;
  }
};

// States: the gradient, which comes as such too, and the momentum.
struct MuonMomentumPass {
  static constexpr int kStates = 2, kWritten = 2;
  static constexpr bool kTrusted = false;
  float rest;  // 1 - momentum
  bool nesterov;

  struct Step {
    float scale;
  };
  __device__ Step step(const StepScalars& s, float) const { return {static_cast<float>(s.grad_scale)}; }
  __device__ __forceinline__ void operator()(const Step& step, float, float grad, float* states) const {
    Register buffer(states[1]);
    states[0] = muon_direction(rest, nesterov, Register(grad * step.scale), buffer).v;
    states[1] = buffer.v;
  }
};

struct BlendPass {
  static constexpr int kStates = 1, kWritten = 1;
  static constexpr bool kTrusted = false;
  float share;

  struct Step {};
  __device__ Step step(const StepScalars&, float) const { return {}; }
  __device__ __forceinline__ void operator()(const Step&, float momentum, float sum, float* states) const {
    states[0] = states[0] + momentum * (sum * share - states[0]);
  }
};

// State: the average; the masters come as gradients do.
struct EmaPass {
  static constexpr int kStates = 1, kWritten = 1;
  static constexpr bool kTrusted = false;
  float rest;  // 1 - decay
  int64_t start;

  struct Step {
    bool copies;
  };
  __device__ Step step(const StepScalars& s, float) const { return {.copies = s.applied <= start}; }
  __device__ __forceinline__ void operator()(const Step& step, float, float master, float* states) const {
    states[0] = step.copies ? master : moving_average(rest, Register(master), Register(states[0])).v;
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
template <int kCount, class Pass>
__device__ __forceinline__ void update_at(const Slice<Pass::kStates>& slice, Type copy_type, int64_t i,
                                          const Pass& pass, const typename Pass::Step& step) {
  constexpr int kStates = Pass::kStates;
  float grads[kCount], states[kStates][kCount];
  load<kCount>(slice.grads + i, grads);
#pragma unroll
  for (int s = 0; s < kStates; ++s) load<kCount>(slice.states[s] + i, states[s]);
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    float element[kStates];
#pragma unroll
    for (int s = 0; s < kStates; ++s) element[s] = states[s][k];
    pass(step, slice.factor, grads[k], element);
#pragma unroll
    for (int s = 0; s < kStates; ++s) states[s][k] = element[s];
  }
#pragma unroll
  for (int s = 0; s < Pass::kWritten; ++s) store<kCount>(slice.states[s] + i, states[s]);
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

template <class Pass>
__global__ void __launch_bounds__(kThreads) update(BatchOf<Pass> batch, Pass pass, const StepScalars* scalars) {
  wait_for_previous();
  int at = 0;
#pragma unroll
  for (int jump = BatchOf<Pass>::kMost / 2; jump > 0; jump /= 2)
    if (at + jump < batch.count && batch.first_block[at + jump] <= blockIdx.x) at += jump;
  const Slice<Pass::kStates> slice = batch.slices[at];

  auto* shared_step = shared_memory<typename Pass::Step>();
  if (threadIdx.x == 0) {  // one thread per block divides in f64
    if constexpr (Pass::kTrusted)
      *shared_step = pass.step(*scalars, slice.lr_scale, pass.ratios[batch.tensor[at]]);
    else
      *shared_step = pass.step(*scalars, slice.lr_scale);
  }
  const bool skip = scalars->skip != 0;
  __syncthreads();
  if (skip) return;
  const typename Pass::Step step = *shared_step;

  const Type copy_type = batch.copy_type[at];
  const int64_t begin = static_cast<int64_t>(blockIdx.x - batch.first_block[at]) * batch.chunk;
  const int64_t end = begin + batch.chunk < slice.n ? begin + batch.chunk : slice.n;
  const int64_t scalar_begin = batch.aligned[at] ? end - (end - begin) % kWidth : begin;
  for (int64_t i = begin + threadIdx.x * kWidth; i < scalar_begin; i += kThreads * kWidth)
    update_at<kWidth>(slice, copy_type, i, pass, step);
  for (int64_t i = scalar_begin + threadIdx.x; i < end; i += kThreads) update_at<1>(slice, copy_type, i, pass, step);
}

// ---- launches

bool copy_aligned(const void* copy, Type type) {
  return reinterpret_cast<uintptr_t>(copy) % (kWidth * (type == Type::f32 ? 4 : 2)) == 0;
}

template <class S>
struct Slices {
  const S* slices;
  int slice_count;
  const StepScalars* scalars;
};

/// states_of(slice): masters first, then the pass's own.
template <class Pass, class S, class StatesOf>
cudaError_t update_all(const Pass& pass, const Slices<S>& all, cudaStream_t stream, StatesOf states_of) {
  constexpr int kStates = Pass::kStates;
  using Launch = BatchOf<Pass>;
  static_assert(sizeof(Launch) + sizeof(Pass) + sizeof(all.scalars) <= 4096);  // what a launch can take
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
      if constexpr (Pass::kTrusted) batch.tensor[i] = s.tensor;
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
        .blocks = static_cast<unsigned>(blocks), .threads = kThreads, .shared_bytes = sizeof(typename Pass::Step)};
    if (const cudaError_t error = launch_early(update<Pass>, grid, stream, batch, pass, all.scalars);
        error != cudaSuccess)
      return error;
  }
  return cudaSuccess;
}

/// Slices have the states that the form keeps, and no others.
template <class Rule, int kForm>
cudaError_t update_by(const Rule& rule, const UpdateArgs& args, cudaStream_t stream) {
  using Pass = RulePass<Rule, kForm>;
  std::array<bool, std::tuple_size_v<decltype(UpdateSlice::states)>> kept = {};
  std::ranges::copy(rules::kept_states<Rule>(kForm), kept.begin());
  for (int i = 0; i < args.slice_count; ++i)
    for (size_t k = 0; k < kept.size(); ++k)
      if ((args.slices[i].states[k] != nullptr) != kept[k]) return cudaErrorInvalidValue;
  const Slices<UpdateSlice> all{args.slices, args.slice_count, args.scalars};
  return update_all(Pass{rule, args.ratios}, all, stream, [](const UpdateSlice& s) {
    Slice<Pass::kStates> slice{.grads = Rule::kReadsGradients ? s.grads : s.masters,  // something that may be read
                               .factor = static_cast<float>(s.weight_decay),
                               .lr_scale = s.lr_scale};
    int count = 0;
    slice.states[count++] = s.masters;
    for (float* const state : s.states)
      if (state != nullptr) slice.states[count++] = state;
    return slice;
  });
}

template <class Rule, int... kForms>
cudaError_t update_by_form(const Rule& rule, const UpdateArgs& args, cudaStream_t stream,
                           std::integer_sequence<int, kForms...>) {
  cudaError_t result = cudaErrorInvalidValue;
  static_cast<void>(((rule.form == kForms && (result = update_by<Rule, kForms>(rule, args, stream), true)) || ...));
  return result;
}

}  // namespace

cudaError_t update(const UpdateArgs& args, cudaStream_t stream) {
  return std::visit(
      [&]<class Rule>(const Rule& rule) {
        return update_by_form(rule, args, stream, std::make_integer_sequence<int, Rule::kForms>());
      },
      args.rule);
}

cudaError_t muon_momentum(const MuonMomentumArgs& args, cudaStream_t stream) {
  const MuonMomentumPass pass{.rest = static_cast<float>(1 - args.momentum), .nesterov = args.nesterov};
  const Slices<MuonMomentumSlice> all{args.slices, args.slice_count, args.scalars};
  return update_all(pass, all, stream, [](const MuonMomentumSlice& s) {
    return Slice<2>{.states = {s.grads, s.momentum_buffer}, .grads = s.grads};
  });
}

cudaError_t blend(const BlendArgs& args, cudaStream_t stream) {
  if (args.micro_batches < 1) return cudaErrorInvalidValue;
  const BlendPass pass{.share = 1 / static_cast<float>(args.micro_batches)};
  const Slices<BlendSlice> all{args.slices, args.slice_count, args.scalars};
  return update_all(pass, all, stream, [](const BlendSlice& s) {
    return Slice<1>{.states = {s.masters}, .grads = s.sums, .factor = static_cast<float>(s.momentum)};
  });
}

cudaError_t ema(const EmaArgs& args, cudaStream_t stream) {
  const EmaPass pass{.rest = static_cast<float>(1 - args.decay), .start = args.start};
  const Slices<EmaSlice> all{args.slices, args.slice_count, args.scalars};
  return update_all(pass, all, stream,
                    [](const EmaSlice& s) { return Slice<1>{.states = {s.average}, .grads = s.masters}; });
}

}  // namespace ct::kernels
