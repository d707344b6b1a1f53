#include "device/cuda/cuda_kernel.h"
#include "device/cuda/layers.h"
#include "kernels/elementwise.h"
#include "kernels/norm.h"
#include "kernels/optimizer.h"
#include "kernels/step_control.h"
#include "kernels/tree_sum.h"
#include "plan/flat.h"

namespace ct::cuda {
namespace {

namespace k = kernels;

static_assert(kChunk <= k::kSquareChunk);  // one sum a chunk

/// bind(operands) returns the launch function.
template <class Bind>
std::unique_ptr<Kernel> make_kernel(const Context& in, Bind bind) {
  auto without_workspace = [bind = std::move(bind)](const Operands& at, std::byte*) { return bind(at); };
  return std::make_unique<CudaKernel<decltype(without_workspace)>>(in.label(), 0, std::move(without_workspace));
}

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

const k::StepScalars* scalars_at(const Operands& at, ValueId id) { return at.at<const k::StepScalars>(id); }

}  // namespace

std::unique_ptr<Kernel> prepare(const Cast& op, const Context& in) {
  const k::CastArgs args{.from = type_of(in.dtype(op.x)), .to = type_of(in.dtype(op.y)), .n = in.shape(op.x).stored()};
  return make_kernel(in, [op, args, stream = in.stream()](const Operands& at) {
    auto a = args;
    a.x = at.at(op.x);
    a.y = at.at(op.y);
    return [=] { CT_CUDA(k::cast(a, stream)); };
  });
}

std::unique_ptr<Kernel> prepare(const TreePush& op, const Context& in) {
  return make_kernel(in, [op, n = in.shape(op.leaf).stored(), stream = in.stream()](const Operands& at) {
    std::vector<float*> levels;
    for (ValueId id : op.levels) levels.push_back(at.f32(id));
    return [=, leaf = at.f32(op.leaf), counter = at.i32(op.counter), last = op.last] {
      CT_CUDA(k::tree_push({.values = leaf,
                            .counter = counter,
                            .last = last,
                            .levels = levels.data(),
                            .level_count = static_cast<int>(levels.size()),
                            .out = leaf,
                            .n = n},
                           stream));
      CT_CUDA(k::count_leaf(counter, last, stream));
    };
  });
}

std::unique_ptr<Kernel> prepare(const SquareSums& op, const Context& in) {
  std::vector<k::SquareChunk> chunks;
  for (const SquareSums::Chunk& c : op.chunks) chunks.push_back({c.range.begin, c.range.end, c.sum});
  const auto table = std::make_shared<Memory>(in.backend.upload(chunks));
  return make_kernel(
      in, [op, table, count = static_cast<int64_t>(chunks.size()), stream = in.stream()](const Operands& at) {
        const k::SquareSumsArgs args{.grads = at.f32(op.grads),
                                     .chunks = reinterpret_cast<const k::SquareChunk*>(table->data()),
                                     .count = count,
                                     .sums = at.at<double>(op.sums)};
        return [=] {
          static_cast<void>(table);  // lives as long as what reads it
          CT_CUDA(k::square_sums(args, stream));
        };
      });
}

std::unique_ptr<Kernel> prepare(const StepControl& op, const Context& in) {
  const LossScaleOptions& scale = op.loss_scale_options;
  const k::LossScaleOptions options{.dynamic = scale.dynamic,
                                    .min = scale.min,
                                    .window = scale.window,
                                    .hysteresis = scale.hysteresis,
                                    .consecutive_hysteresis = scale.consecutive_hysteresis,
                                    .without_hysteresis = scale.without_hysteresis,
                                    .unscale_by_new = scale.unscale_by_new};
  return make_kernel(in, [op, options, count = in.shape(op.sums)[0], stream = in.stream()](const Operands& at) {
    const k::StepControlArgs args{.sums = at.at<const double>(op.sums),
                                  .count = count,
                                  .schedule = at.at<const k::ScheduleRow>(op.schedule),
                                  .scalars = at.at<k::StepScalars>(op.scalars),
                                  .clip = op.clip,
                                  .micro_batches = op.micro_batches,
                                  .loss_scale = at.at<k::LossScaleState>(op.loss_scale),
                                  .loss_scale_options = options};
    return [=] { CT_CUDA(k::step_control(args, stream)); };
  });
}

std::unique_ptr<Kernel> prepare(const Adam& op, const Context& in) {
  return make_kernel(in, [op, forms = forms_of(op, in), stream = in.stream()](const Operands& at) {
    std::vector<k::AdamSlice> slices;
    for (size_t i = 0; i < op.slices.size(); ++i) {
      const Adam::Slice& s = op.slices[i];
      slices.push_back({.masters = at.f32(s.masters),
                        .grads = at.f32(s.grads),
                        .exp_avg = at.f32(s.exp_avg),
                        .exp_avg_sq = at.f32(s.exp_avg_sq),
                        .copy = at.at(s.copy),
                        .copy_type = forms[i].copy_type,
                        .n = forms[i].n,
                        .weight_decay = s.weight_decay});
    }
    return [op, stream, slices = std::move(slices), scalars = scalars_at(at, op.scalars)] {
      CT_CUDA(k::adam({.slices = slices.data(),
                       .slice_count = static_cast<int>(slices.size()),
                       .beta1 = op.beta1,
                       .beta2 = op.beta2,
                       .eps = op.eps,
                       .decoupled = op.mode == AdamMode::decoupled,
                       .scalars = scalars},
                      stream));
    };
  });
}

std::unique_ptr<Kernel> prepare(const Sgd& op, const Context& in) {
  return make_kernel(in, [op, forms = forms_of(op, in), stream = in.stream()](const Operands& at) {
    std::vector<k::SgdSlice> slices;
    for (size_t i = 0; i < op.slices.size(); ++i) {
      const Sgd::Slice& s = op.slices[i];
      slices.push_back({.masters = at.f32(s.masters),
                        .grads = at.f32(s.grads),
                        .momentum_buffer = at.f32(s.momentum_buffer),
                        .copy = at.at(s.copy),
                        .copy_type = forms[i].copy_type,
                        .n = forms[i].n,
                        .weight_decay = s.weight_decay});
    }
    return [op, stream, slices = std::move(slices), scalars = scalars_at(at, op.scalars)] {
      CT_CUDA(k::sgd({.slices = slices.data(),
                      .slice_count = static_cast<int>(slices.size()),
                      .momentum = op.momentum,
                      .nesterov = op.nesterov,
                      .scalars = scalars},
                     stream));
    };
  });
}

std::unique_ptr<Kernel> prepare(const Blend& op, const Context& in) {
  return make_kernel(in, [op, forms = forms_of(op, in), stream = in.stream()](const Operands& at) {
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

}  // namespace ct::cuda
