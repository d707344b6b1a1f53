#include "kernels/optimizer.h"

#include "device/cuda/cuda_kernel.h"
#include "device/cuda/layers.h"

namespace ct::cuda {
namespace {

namespace k = kernels;

/// What is known of a slice before it has addresses.
struct Form {
  int64_t n;
  k::Type copy_type;
};
template <class Op>
std::vector<Form> forms_of(const Op& op, const Context& in) {
  std::vector<Form> forms;
  for (const auto& s : op.slices) {
    Form form{in.shape(s.masters).numel(), k::Type::f32};
    if (s.copy != kNone) {
      check(in.shape(s.copy).numel() == form.n, "a copy whose length differs from its masters'");
      form.copy_type = type_of(in.dtype(s.copy));
    }
    forms.push_back(form);
  }
  return forms;
}

const StepScalars* scalars_at(const Operands& at, ValueId id) { return at.at<const StepScalars>(id); }

}  // namespace

std::unique_ptr<Kernel> prepare_update(const Update& op, const rules::Any& rule, const Context& in) {
  return make_plain_kernel(in.label(), [op, rule, forms = forms_of(op, in), stream = in.stream()](const Operands& at) {
    std::vector<k::UpdateSlice> slices;
    for (size_t i = 0; i < op.slices.size(); ++i) {
      const UpdateSlice& s = op.slices[i];
      auto& slice = slices.emplace_back(k::UpdateSlice{.masters = at.f32(s.masters),
                                                       .grads = at.f32(s.grads),
                                                       .copy = at.at(s.copy),
                                                       .copy_type = forms[i].copy_type,
                                                       .n = forms[i].n,
                                                       .weight_decay = s.weight_decay,
                                                       .lr_scale = s.lr_scale,
                                                       .tensor = static_cast<int32_t>(s.tensor)});
      for (size_t n = 0; n < s.states.size(); ++n) slice.states.at(n) = at.f32(s.states[n]);
    }
    return
        [rule, stream, slices = std::move(slices), scalars = scalars_at(at, op.scalars), ratios = at.f32(op.ratios)] {
          CT_CUDA(k::update({.rule = rule,
                             .slices = slices.data(),
                             .slice_count = static_cast<int>(slices.size()),
                             .scalars = scalars,
                             .ratios = ratios},
                            stream));
        };
  });
}

std::unique_ptr<Kernel> prepare(const Blend& op, const Context& in) {
  return make_plain_kernel(in.label(), [op, forms = forms_of(op, in), stream = in.stream()](const Operands& at) {
    std::vector<k::BlendSlice> slices;
    for (size_t i = 0; i < op.slices.size(); ++i) {
      const Blend::Slice& s = op.slices[i];
      slices.push_back({.masters = at.f32(s.masters),
                        .sums = at.f32(s.sums),
                        .copy = at.at(s.copy),
                        .copy_type = forms[i].copy_type,
                        .n = forms[i].n,
                        .momentum = s.momentum});
    }
    return [op, stream, slices = std::move(slices), scalars = scalars_at(at, op.scalars)] {
      CT_CUDA(k::blend({.slices = slices.data(),
                        .slice_count = static_cast<int>(slices.size()),
                        .micro_batches = op.micro_batches,
                        .scalars = scalars},
                       stream));
    };
  });
}

std::unique_ptr<Kernel> prepare(const Ema& op, const Context& in) {
  std::vector<int64_t> sizes;
  for (const Ema::Slice& s : op.slices) sizes.push_back(in.shape(s.masters).numel());
  return make_plain_kernel(in.label(), [op, sizes = std::move(sizes), stream = in.stream()](const Operands& at) {
    std::vector<k::EmaSlice> slices;
    for (size_t i = 0; i < op.slices.size(); ++i)
      slices.push_back(
          {.masters = at.f32(op.slices[i].masters), .average = at.f32(op.slices[i].average), .n = sizes[i]});
    return [op, stream, slices = std::move(slices), scalars = scalars_at(at, op.scalars)] {
      CT_CUDA(k::ema({.slices = slices.data(),
                      .slice_count = static_cast<int>(slices.size()),
                      .decay = op.decay,
                      .start = op.start,
                      .scalars = scalars},
                     stream));
    };
  });
}

}  // namespace ct::cuda
