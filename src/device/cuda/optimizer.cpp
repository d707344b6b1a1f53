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
      check(in.shape(s.copy).numel() == form.n, "a copy of another length than its masters");
      form.copy_type = type_of(in.dtype(s.copy));
    }
    forms.push_back(form);
  }
  return forms;
}

const StepScalars* scalars_at(const Operands& at, ValueId id) { return at.at<const StepScalars>(id); }

// Of each optimizer: what is its own of a slice and of a launch.

static_assert(k::kBeta1 == Adam::beta1 && k::kBeta2 == Adam::beta2);
static_assert(k::kBiasCorrection1 == Adam::bias_correction1 && k::kBiasCorrection2 == Adam::bias_correction2);
static_assert(k::kMomentum == Sgd::momentum && k::kMomentum == RmsProp::momentum && k::kMomentum == Lars::momentum);
static_assert(k::kBeta1 == Lion::beta1 && k::kBeta2 == Lion::beta2);
static_assert(k::kBeta1 == Lamb::beta1 && k::kBeta2 == Lamb::beta2 && k::kLambRateFactor == Lamb::rate_factor);
static_assert(k::kAdagradRateFactor == Adagrad::rate_factor);

/// What a launch reads beside its slices: the ratios of trust, if it does.
struct Shared {
  const float* ratios = nullptr;
};
template <class Op>
Shared shared_of(const Op& op, const Operands& at) {
  if constexpr (std::derived_from<Op, TrustedUpdate>)
    return {at.f32(op.ratios)};
  else
    return {};
}

k::AdamSlice slice_of(const Adam&, const UpdateSlice& s, const Operands& at) {
  return {.exp_avg = at.f32(s.state(Adam::exp_avg)), .exp_avg_sq = at.f32(s.state(Adam::exp_avg_sq))};
}
cudaError_t launch(const Adam& op, const k::Slices<k::AdamSlice>& all, const Shared&, cudaStream_t stream) {
  return k::adam({all, op.eps, op.mode == AdamMode::decoupled}, stream);
}

k::SgdSlice slice_of(const Sgd&, const UpdateSlice& s, const Operands& at) {
  return {.momentum_buffer = at.f32(s.state(Sgd::momentum_buffer))};
}
cudaError_t launch(const Sgd& op, const k::Slices<k::SgdSlice>& all, const Shared&, cudaStream_t stream) {
  return k::sgd({all, op.nesterov}, stream);
}

k::RmsPropSlice slice_of(const RmsProp&, const UpdateSlice& s, const Operands& at) {
  return {.square_avg = at.f32(s.state(RmsProp::square_avg)),
          .momentum_buffer = at.f32(s.state(RmsProp::momentum_buffer)),
          .grad_avg = at.f32(s.state(RmsProp::grad_avg))};
}
cudaError_t launch(const RmsProp& op, const k::Slices<k::RmsPropSlice>& all, const Shared&, cudaStream_t stream) {
  return k::rmsprop({all, op.alpha, op.eps}, stream);
}

k::LionSlice slice_of(const Lion&, const UpdateSlice& s, const Operands& at) {
  return {.exp_avg = at.f32(s.state(Lion::exp_avg))};
}
cudaError_t launch(const Lion&, const k::Slices<k::LionSlice>& all, const Shared&, cudaStream_t stream) {
  return k::lion({all}, stream);
}

k::AdagradSlice slice_of(const Adagrad&, const UpdateSlice& s, const Operands& at) {
  return {.sum = at.f32(s.state(Adagrad::sum))};
}
cudaError_t launch(const Adagrad& op, const k::Slices<k::AdagradSlice>& all, const Shared&, cudaStream_t stream) {
  return k::adagrad({all, op.eps}, stream);
}

k::LarsSlice slice_of(const Lars&, const UpdateSlice& s, const Operands& at) {
  return {.tensor = static_cast<int32_t>(s.tensor), .momentum_buffer = at.f32(s.state(Lars::momentum_buffer))};
}
cudaError_t launch(const Lars& op, const k::Slices<k::LarsSlice>& all, const Shared& shared, cudaStream_t stream) {
  return k::lars({all, shared.ratios, op.nesterov}, stream);
}

k::LambSlice slice_of(const Lamb&, const UpdateSlice& s, const Operands& at) {
  return {.tensor = static_cast<int32_t>(s.tensor),
          .exp_avg = at.f32(s.state(Lamb::exp_avg)),
          .exp_avg_sq = at.f32(s.state(Lamb::exp_avg_sq))};
}
cudaError_t launch(const Lamb& op, const k::Slices<k::LambSlice>& all, const Shared& shared, cudaStream_t stream) {
  return k::lamb({all, shared.ratios, op.eps}, stream);
}

k::UpdateSlice slice_of(const Muon&, const UpdateSlice&, const Operands&) { return {}; }
cudaError_t launch(const Muon&, const k::Slices<k::UpdateSlice>& all, const Shared&, cudaStream_t stream) {
  return k::muon({all}, stream);
}

}  // namespace

template <std::derived_from<Update> Op>
std::unique_ptr<Kernel> prepare(const Op& op, const Context& in) {
  return make_plain_kernel(in.label(), [op, forms = forms_of(op, in), stream = in.stream()](const Operands& at) {
    std::vector<decltype(slice_of(op, op.slices[0], at))> slices;
    for (size_t i = 0; i < op.slices.size(); ++i) {
      const UpdateSlice& s = op.slices[i];
      auto& slice = slices.emplace_back(slice_of(op, s, at));
      slice.masters = at.f32(s.masters);
      slice.grads = at.f32(s.grads);
      slice.copy = at.at(s.copy);
      slice.copy_type = forms[i].copy_type;
      slice.n = forms[i].n;
      slice.weight_decay = s.weight_decay;
      slice.lr_scale = s.lr_scale;
    }
    return [op, stream, slices = std::move(slices), scalars = scalars_at(at, op.scalars), shared = shared_of(op, at)] {
      CT_CUDA(launch(op, {slices.data(), static_cast<int>(slices.size()), scalars}, shared, stream));
    };
  });
}
template std::unique_ptr<Kernel> prepare(const Adam&, const Context&);
template std::unique_ptr<Kernel> prepare(const Sgd&, const Context&);
template std::unique_ptr<Kernel> prepare(const RmsProp&, const Context&);
template std::unique_ptr<Kernel> prepare(const Lion&, const Context&);
template std::unique_ptr<Kernel> prepare(const Adagrad&, const Context&);
template std::unique_ptr<Kernel> prepare(const Lars&, const Context&);
template std::unique_ptr<Kernel> prepare(const Lamb&, const Context&);
template std::unique_ptr<Kernel> prepare(const Muon&, const Context&);

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
