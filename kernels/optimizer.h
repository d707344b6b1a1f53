// Optimizers, many tensors a launch and every tensor in one pass.
//
// All numbers that change from step to step are read from device memory (`scalars`): learning rate, coefficients,
// the factor of the gradients (mean over micro-batches, clipping and loss scale in one), and `skip`: not 0 and nothing
// is written. Masters, gradients and moments are f32 and so is all arithmetic; products and sums are fused exactly
// where it is said below, square root and division are IEEE's, denormals are kept: a CPU that does the same gets the
// same bits, and an element's result depends on that element alone, never on how tensors are cut into slices.
//
// A slice is a range of a tensor. `copy`, unless null, gets the new masters in its own element type, rounded to nearest
// even. Slices must not overlap. 16-byte accesses where a slice's f32 operands are aligned to 16 bytes and its copy to
// four elements, 4-byte ones otherwise. Empty slices are allowed; kSlicesPerLaunch make a launch (half as many with
// four states), more make more launches.
// Everything runs in the stream. Errors: of the launch; cudaErrorInvalidValue where an argument says so.
#pragma once

#include "element.h"
#include "plan/step_scalars.h"

namespace ct::kernels {

constexpr int kSlicesPerLaunch = 64;

/// A slice of any optimizer. Its rate is float(lr * lr_scale).
struct UpdateSlice {
  float* masters;
  const float* grads;
  void* copy = nullptr;
  Type copy_type = Type::f32;
  int64_t n;
  double weight_decay = 0;
  float lr_scale = 1;
};
template <class Slice>
struct Slices {
  const Slice* slices;  // on the host, free for reuse on return; so are those below
  int slice_count;
  const StepScalars* scalars;
};

// Places among StepScalars' coefficients: Adam's, and the others'.
constexpr int kBeta1 = 0, kBeta2 = 1, kBiasCorrection1 = 2, kBiasCorrection2 = 3;  // 1 - beta^t
constexpr int kMomentum = 0;
constexpr int kAdagradRateFactor = 0, kLambRateFactor = 2;  // of the rate, before it is rounded

/// Adam (Kingma & Ba, 2015) with L2 regularisation, or AdamW (Loshchilov & Hutter, 2019) when decoupled, as PyTorch's:
///   g = grad_scale grad;  not decoupled: g = fma(weight_decay, p, g)
///   m = fma(beta1, m, (1 - beta1) g);  v = fma(beta2, v, (1 - beta2) (g g))
///   u = (m correct1) / fma(sqrt(v), correct2, eps);  decoupled: u = fma(weight_decay, p, u)
///   p = fma(-lr, u, p)
/// where correct1 = 1 / (1 - beta1^t), correct2 = 1 / sqrt(1 - beta2^t) and 1 - beta are formed in f64 and then
/// rounded. Moves 28 bytes an element and the copy's 2 or 4.
struct AdamSlice : UpdateSlice {
  float *exp_avg, *exp_avg_sq;
};
struct AdamArgs {
  Slices<AdamSlice> all;
  double eps;
  bool decoupled;
};
cudaError_t adam(const AdamArgs& args, cudaStream_t stream);

/// PyTorch's SGD, dampening 0; buffers start at zero, so that the first buffer is the gradient:
///   g = fma(weight_decay, p, grad_scale grad);  b = fma(momentum, b, g)
///   p = fma(-lr, nesterov ? fma(momentum, b, g) : b, p);  without buffer p = fma(-lr, g, p)
/// Moves 20 bytes an element, without momentum 12, and the copy's 2 or 4.
struct SgdSlice : UpdateSlice {
  float* momentum_buffer;  // null: no momentum; then all are, else cudaErrorInvalidValue
};
struct SgdArgs {
  Slices<SgdSlice> all;
  bool nesterov;
};
cudaError_t sgd(const SgdArgs& args, cudaStream_t stream);

/// PyTorch's RMSprop (Tieleman & Hinton, 2012):
///   g = fma(weight_decay, p, grad_scale grad);  v = fma(alpha, v, (1 - alpha) (g g))
///   centered: a = fma(alpha, a, (1 - alpha) g) and w = max(fma(-a, a, v), 0), else w = v
///   u = g / (sqrt(w) + eps);  with momentum: b = fma(momentum, b, u) and u = b;  p = fma(-lr, u, p)
/// Moves 20 bytes an element, 8 more for each buffer, and the copy's 2 or 4.
struct RmsPropSlice : UpdateSlice {
  float* square_avg;
  float* momentum_buffer;  // null: no momentum; then all are, else cudaErrorInvalidValue
  float* grad_avg;         // null: not centered; likewise
};
struct RmsPropArgs {
  Slices<RmsPropSlice> all;
  double alpha, eps;
};
cudaError_t rmsprop(const RmsPropArgs& args, cudaStream_t stream);

/// Lion (Chen et al., 2023): with sign(0) = 0,
///   g = grad_scale grad;  c = fma(beta1, m, (1 - beta1) g);  p = fma(-lr, fma(weight_decay, p, sign(c)), p)
///   m = fma(beta2, m, (1 - beta2) g)
/// Moves 20 bytes an element and the copy's 2 or 4.
struct LionSlice : UpdateSlice {
  float* exp_avg;
};
struct LionArgs {
  Slices<LionSlice> all;
};
cudaError_t lion(const LionArgs& args, cudaStream_t stream);

/// PyTorch's Adagrad (Duchi et al., 2011), its rate float(lr * lr_scale * rate_factor):
///   g = fma(weight_decay, p, grad_scale grad);  s = fma(g, g, s);  p = fma(-lr, g / (sqrt(s) + eps), p)
/// Moves 20 bytes an element and the copy's 2 or 4.
struct AdagradSlice : UpdateSlice {
  float* sum;
};
struct AdagradArgs {
  Slices<AdagradSlice> all;
  double eps;
};
cudaError_t adagrad(const AdagradArgs& args, cudaStream_t stream);

/// LARS (You et al., 2017), by the ratio of trust of each slice's tensor (trust.h): g = trust fma(weight_decay, p,
/// grad_scale grad), then as SGD. Moves what SGD does.
struct LarsSlice : UpdateSlice {
  int32_t tensor;
  float* momentum_buffer;  // null: no momentum; then all are, else cudaErrorInvalidValue
};
struct LarsArgs {
  Slices<LarsSlice> all;
  const float* ratios;  // by tensor
  bool nesterov;
};
cudaError_t lars(const LarsArgs& args, cudaStream_t stream);

/// LAMB (You et al., 2019), its second pass (trust.h has the first), its rate float(lr * lr_scale * rate_factor):
///   u = fma(weight_decay, p, m / (sqrt(v) + eps));  p = fma(-(lr trust), u, p)
/// Moves 16 bytes an element and the copy's 2 or 4; moments are only read.
struct LambSlice : UpdateSlice {  // of which grads are not looked at
  int32_t tensor;
  float *exp_avg, *exp_avg_sq;
};
struct LambArgs {
  Slices<LambSlice> all;
  const float* ratios;  // by tensor
  double eps;
};
cudaError_t lamb(const LambArgs& args, cudaStream_t stream);

/// Muon's directions (muon.h), in place of gradients:
///   g = grad_scale grad;  b = fma(1 - momentum, g - b, b);  grad = nesterov ? fma(1 - momentum, g - b, b) : b
/// Moves 16 bytes an element.
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

/// Muon, whose gradients are the orthogonalised directions: p = fma(-lr, fma(weight_decay, p, grad), p). Moves 12 bytes
/// an element and the copy's 2 or 4.
struct MuonArgs {
  Slices<UpdateSlice> all;
};
cudaError_t muon(const MuonArgs& args, cudaStream_t stream);

/// Running statistics, `sums` over a step's micro-batches: p = p + momentum (sum (1 / micro_batches) - p), each
/// operation rounded. Moves 12 bytes an element and the copy's 2 or 4.
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

/// Exponential moving average of masters: a = fma(1 - decay, p - a, a), where 1 - decay is formed in f64 and then
/// rounded; a = p where scalars->applied, which counts this step, is at most `start`. Moves 12 bytes an element.
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
