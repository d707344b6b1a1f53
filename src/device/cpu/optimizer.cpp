#include "device/cpu/kernels/optimizer.h"

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "device/cpu/cpu_kernel.h"
#include "device/cpu/layers.h"
#include "plan/step_scalars.h"

namespace ct::cpu {
namespace {

/// What is known of a slice before it has addresses. The copy that layers compute with is written by the update itself
/// where it is bf16, and after it where it is f32, of vectors.
struct Form {
  int64_t n;
  bool bf16_copy;
  uint16_t* bf16(const Operands& at, ValueId copy) const { return bf16_copy ? at.at<uint16_t>(copy) : nullptr; }
  float* f32(const Operands& at, ValueId copy) const { return bf16_copy ? nullptr : at.f32(copy); }
};
template <class Op>
std::vector<Form> forms_of(const Op& op, const Shapes& shape) {
  std::vector<Form> forms;
  for (const auto& s : op.slices) {
    forms.push_back({shape(s.masters).numel(), s.copy != kNone && shape.bf16(s.copy)});
    check(s.copy == kNone || shape(s.copy).numel() == forms.back().n, "a copy of another length than its masters");
  }
  return forms;
}

void copy_masters(const float* masters, float* copy, int64_t n) {
  if (copy != nullptr) std::memcpy(copy, masters, static_cast<size_t>(n) * sizeof(float));
}

// Of each optimizer: what is known of a slice when it has addresses, and its step.

AdamArgs args_of(const Adam& op, const UpdateSlice& s, const Operands& at) {
  return {.exp_avg = at.f32(s.state(Adam::exp_avg)),
          .exp_avg_sq = at.f32(s.state(Adam::exp_avg_sq)),
          .eps = static_cast<float>(op.eps),
          .decoupled = op.mode == AdamMode::decoupled};
}
void step(AdamArgs& args, const StepScalars& s) {
  const auto& [beta1, beta2, bias_correction1, bias_correction2] = s.coefficients;
  args.beta1 = static_cast<float>(beta1);
  args.one_minus_beta1 = static_cast<float>(1 - beta1);
  args.beta2 = static_cast<float>(beta2);
  args.one_minus_beta2 = static_cast<float>(1 - beta2);
  args.bias_correction1 = static_cast<float>(1 / bias_correction1);
  args.sqrt_bias_correction2 = static_cast<float>(1 / std::sqrt(bias_correction2));
  adam(args);
}

SgdArgs args_of(const Sgd& op, const UpdateSlice& s, const Operands& at) {
  return {.momentum_buffer = at.f32(s.state(Sgd::momentum_buffer)), .nesterov = op.nesterov};
}
void step(SgdArgs& args, const StepScalars& s) {
  args.momentum = static_cast<float>(s.coefficients[Sgd::momentum]);
  sgd(args);
}

RmsPropArgs args_of(const RmsProp& op, const UpdateSlice& s, const Operands& at) {
  return {.square_avg = at.f32(s.state(RmsProp::square_avg)),
          .momentum_buffer = at.f32(s.state(RmsProp::momentum_buffer)),
          .grad_avg = at.f32(s.state(RmsProp::grad_avg)),
          .alpha = static_cast<float>(op.alpha),
          .one_minus_alpha = static_cast<float>(1 - op.alpha),
          .eps = static_cast<float>(op.eps)};
}
void step(RmsPropArgs& args, const StepScalars& s) {
  args.momentum = static_cast<float>(s.coefficients[RmsProp::momentum]);
  rmsprop(args);
}

LionArgs args_of(const Lion&, const UpdateSlice& s, const Operands& at) {
  return {.exp_avg = at.f32(s.state(Lion::exp_avg))};
}
void step(LionArgs& args, const StepScalars& s) {
  const double beta1 = s.coefficients[Lion::beta1], beta2 = s.coefficients[Lion::beta2];
  args.beta1 = static_cast<float>(beta1);
  args.one_minus_beta1 = static_cast<float>(1 - beta1);
  args.beta2 = static_cast<float>(beta2);
  args.one_minus_beta2 = static_cast<float>(1 - beta2);
  lion(args);
}

AdagradArgs args_of(const Adagrad& op, const UpdateSlice& s, const Operands& at) {
  return {.sum = at.f32(s.state(Adagrad::sum)), .eps = static_cast<float>(op.eps)};
}
void step(AdagradArgs& args, const StepScalars&) { adagrad(args); }

LarsArgs args_of(const Lars& op, const UpdateSlice& s, const Operands& at) {
  return {.momentum_buffer = at.f32(s.state(Lars::momentum_buffer)), .nesterov = op.nesterov};
}
void step(LarsArgs& args, const StepScalars& s) {
  args.momentum = static_cast<float>(s.coefficients[Lars::momentum]);
  lars(args);
}

LambArgs args_of(const Lamb& op, const UpdateSlice& s, const Operands& at) {
  return {.exp_avg = at.f32(s.state(Lamb::exp_avg)),
          .exp_avg_sq = at.f32(s.state(Lamb::exp_avg_sq)),
          .eps = static_cast<float>(op.eps)};
}
void step(LambArgs& args, const StepScalars&) { lamb(args); }

UpdateArgs args_of(const Muon&, const UpdateSlice&, const Operands&) { return {}; }
void step(UpdateArgs& args, const StepScalars&) { muon(args); }

/// What the rate of the step is multiplied by before it is rounded.
template <class Op>
double rate_factor(const StepScalars& s) {
  if constexpr (requires { Op::rate_factor; })
    return s.coefficients[Op::rate_factor];
  else
    return 1;
}
/// Where the ratio of trust of a slice's tensor lies.
template <class Op>
const float* trust_of(const Op& op, const UpdateSlice& s, const Operands& at) {
  if constexpr (std::derived_from<Op, TrustedUpdate>)
    return at.f32(op.ratios) + s.tensor;
  else
    return nullptr;
}

}  // namespace

template <std::derived_from<Update> Op>
std::unique_ptr<Kernel> prepare(const Op& op, const Shapes& shape) {
  return make_kernel([op, forms = forms_of(op, shape)](const Operands& at, float*) {
    struct Slice {
      decltype(args_of(op, op.slices[0], at)) args;
      float lr_scale, *f32_copy;
      const float* trust;
    };
    std::vector<Slice> slices;
    for (size_t i = 0; i < op.slices.size(); ++i) {
      const UpdateSlice& s = op.slices[i];
      Slice& slice =
          slices.emplace_back(Slice{args_of(op, s, at), s.lr_scale, forms[i].f32(at, s.copy), trust_of(op, s, at)});
      slice.args.n = forms[i].n;
      slice.args.grads = at.f32(s.grads);
      slice.args.params = at.f32(s.masters);
      slice.args.bf16_params = forms[i].bf16(at, s.copy);
      slice.args.weight_decay = static_cast<float>(s.weight_decay);
    }
    return [slices = std::move(slices), s = at.at<const StepScalars>(op.scalars)]() mutable {
      if (s->skip) return;
      for (auto& [args, lr_scale, f32_copy, trust] : slices) {
        args.learning_rate = static_cast<float>(s->lr * lr_scale * rate_factor<Op>(*s));
        args.gradient_scale = static_cast<float>(s->grad_scale);
        if constexpr (requires { args.trust; }) args.trust = *trust;
        step(args, *s);
        copy_masters(args.params, f32_copy, args.n);
      }
    };
  });
}
template std::unique_ptr<Kernel> prepare(const Adam&, const Shapes&);
template std::unique_ptr<Kernel> prepare(const Sgd&, const Shapes&);
template std::unique_ptr<Kernel> prepare(const RmsProp&, const Shapes&);
template std::unique_ptr<Kernel> prepare(const Lion&, const Shapes&);
template std::unique_ptr<Kernel> prepare(const Adagrad&, const Shapes&);
template std::unique_ptr<Kernel> prepare(const Lars&, const Shapes&);
template std::unique_ptr<Kernel> prepare(const Lamb&, const Shapes&);
template std::unique_ptr<Kernel> prepare(const Muon&, const Shapes&);

std::unique_ptr<Kernel> prepare(const Blend& op, const Shapes& shape) {
  return make_kernel([op, forms = forms_of(op, shape)](const Operands& at, float*) {
    struct Slice {
      int64_t n;
      float* masters;
      const float* sums;
      float *f32_copy, momentum;
    };
    std::vector<Slice> slices;
    for (size_t i = 0; i < op.slices.size(); ++i) {
      const Blend::Slice& s = op.slices[i];
      slices.push_back({.n = forms[i].n,
                        .masters = at.f32(s.masters),
                        .sums = at.f32(s.sums),
                        .f32_copy = forms[i].f32(at, s.copy),
                        .momentum = static_cast<float>(s.momentum)});
    }
    return [slices = std::move(slices), share = 1 / static_cast<float>(op.micro_batches),
            scalars = at.at<const StepScalars>(op.scalars)] {
      if (scalars->skip) return;
      for (const Slice& s : slices) {
        for (int64_t i = 0; i < s.n; ++i) s.masters[i] += s.momentum * (s.sums[i] * share - s.masters[i]);
        copy_masters(s.masters, s.f32_copy, s.n);
      }
    };
  });
}

std::unique_ptr<Kernel> prepare(const Ema& op, const Shapes& shape) {
  std::vector<int64_t> sizes;
  for (const Ema::Slice& s : op.slices) sizes.push_back(shape(s.masters).numel());
  return make_kernel([op, sizes = std::move(sizes)](const Operands& at, float*) {
    std::vector<EmaArgs> slices;
    for (size_t i = 0; i < op.slices.size(); ++i)
      slices.push_back({.n = sizes[i],
                        .params = at.f32(op.slices[i].masters),
                        .average = at.f32(op.slices[i].average),
                        .rest = static_cast<float>(1 - op.decay)});
    return [slices = std::move(slices), start = op.start, scalars = at.at<const StepScalars>(op.scalars)] {
      if (scalars->skip) return;
      for (const EmaArgs& s : slices) {
        if (scalars->applied <= start)
          copy_masters(s.params, s.average, s.n);
        else
          ema(s);
      }
    };
  });
}

}  // namespace ct::cpu
