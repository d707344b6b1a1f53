// The optimizers' updates: many tensors per launch, one pass over each tensor.
//
// All numbers that change from step to step are read from device memory (`scalars`): learning rate, coefficients, the
// factor of the gradients (mean over micro-batches, clipping and loss scale in one), and `skip` (if it is not 0,
// nothing is written). Masters, gradients, moments and all arithmetic are f32. Square root and division follow IEEE
// 754, and denormals are kept, so a CPU with the same arithmetic gives the same bits. An element's result depends on
// that element alone, not on the slices.
//
// A slice is a range of a tensor. `copy`, unless null, receives the new masters in its own element type, rounded to
// nearest even. Slices must not overlap; empty slices are allowed. Accesses are 16 bytes wide if a slice's f32 operands
// are aligned to 16 bytes and its copy to four elements, otherwise 4 bytes. A launch takes kSlicesPerLaunch slices
// (half as many with four states); more slices need more launches. Everything runs in the stream. Functions return
// errors of the launch, and cudaErrorInvalidValue as stated below.
#pragma once

#include <array>

#include "element.h"
#include "graph/optimizer_rules.h"
#include "plan/step_scalars.h"

namespace ct::kernels {

constexpr int kSlicesPerLaunch = 64;

/// A slice of an optimizer's update. Its rate is float(lr * lr_scale * rate_factor).
struct UpdateSlice {
  float* masters;
  const float* grads;
  void* copy = nullptr;
  Type copy_type = Type::f32;
  int64_t n;
  double weight_decay = 0;
  float lr_scale = 1;
  int32_t tensor = 0;                 // its index in `ratios`, for rules that read them
  std::array<float*, 4> states = {};  // in the rule's order; null: absent
};
/// An optimizer's update by its rule: the formula of graph/optimizer_rules-inl.h. Moves 12 bytes per element, 8 for
/// each state that the rule's form keeps (4 if it only reads them), and the copy's 2 or 4. cudaErrorInvalidValue: a
/// slice has different states from the rule's form.
struct UpdateArgs {
  rules::Any rule;
  const UpdateSlice* slices;  // on the host, like all slices below; may be reused on return
  int slice_count;
  const StepScalars* scalars;
  const float* ratios = nullptr;  // by tensor, on the device
};
cudaError_t update(const UpdateArgs& args, cudaStream_t stream);

/// Replaces gradients by Muon's directions (muon.h):
///   g = grad_scale grad;  b = fma(1 - momentum, g - b, b);  grad = nesterov ? fma(1 - momentum, g - b, b) : b
/// Moves 16 bytes per element.
struct MuonMomentumSlice {
  float *grads, *momentum_buffer;
  int64_t n;
};
struct MuonMomentumArgs {
  const MuonMomentumSlice* slices;
  int slice_count;
  const StepScalars* scalars;
  double momentum;
  bool nesterov;
};
cudaError_t muon_momentum(const MuonMomentumArgs& args, cudaStream_t stream);

/// Running statistics, where `sums` are sums over a step's micro-batches: p = p + momentum (sum (1 / micro_batches) -
/// p), each operation rounded. Moves 12 bytes per element and the copy's 2 or 4.
struct BlendSlice {
  float* masters;
  const float* sums;
  void* copy = nullptr;
  Type copy_type = Type::f32;
  int64_t n;
  double momentum;
};
struct BlendArgs {
  const BlendSlice* slices;
  int slice_count;
  int64_t micro_batches;       // at least 1
  const StepScalars* scalars;  // only `skip` is read
};
cudaError_t blend(const BlendArgs& args, cudaStream_t stream);

/// Exponential moving average of masters: a = fma(1 - decay, p - a, a), where 1 - decay is computed in f64 and then
/// rounded; a = p if scalars->applied, which includes this step, is at most `start`. Moves 12 bytes per element.
struct EmaSlice {
  const float* masters;
  float* average;
  int64_t n;
};
struct EmaArgs {
  const EmaSlice* slices;
  int slice_count;
  double decay;
  int64_t start;
  const StepScalars* scalars;  // only `skip` and `applied` are read
};
cudaError_t ema(const EmaArgs& args, cudaStream_t stream);

}  // namespace ct::kernels
