#include "device/cpu/kernels/optimizer.h"

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
    check(s.copy == kNone || shape(s.copy).numel() == forms.back().n, "a copy whose length differs from its masters'");
  }
  return forms;
}

void copy_masters(const float* masters, float* copy, int64_t n) {
  if (copy != nullptr) std::memcpy(copy, masters, static_cast<size_t>(n) * sizeof(float));
}

}  // namespace

std::unique_ptr<Kernel> prepare_update(const Update& op, const rules::Any& rule, const Shapes& shape) {
  return make_kernel([op, rule, forms = forms_of(op, shape)](const Operands& at, float*) {
    struct Slice {
      UpdateArgs args;
      float* f32_copy;
    };
    std::vector<Slice> slices;
    for (size_t i = 0; i < op.slices.size(); ++i) {
      const UpdateSlice& s = op.slices[i];
      UpdateArgs args{.rule = rule,
                      .n = forms[i].n,
                      .grads = at.f32(s.grads),
                      .params = at.f32(s.masters),
                      .bf16_params = forms[i].bf16(at, s.copy),
                      .weight_decay = s.weight_decay,
                      .lr_scale = s.lr_scale};
      for (size_t k = 0; k < s.states.size(); ++k) args.states.at(k) = at.f32(s.states[k]);
      if (op.ratios != kNone) args.trust = at.f32(op.ratios) + s.tensor;
      slices.push_back({args, forms[i].f32(at, s.copy)});
    }
    return [slices = std::move(slices), s = at.at<const StepScalars>(op.scalars)] {
      if (s->skip) return;
      for (const auto& [args, f32_copy] : slices) {
        update(args, *s);
        copy_masters(args.params, f32_copy, args.n);
      }
    };
  });
}

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
