#include <bit>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "device/cpu/cpu_kernel.h"
#include "device/cpu/kernels/plain.h"
#include "device/cpu/kernels/update.h"
#include "device/cpu/layers.h"
#include "device/cpu/step_control.h"
#include "plan/flat.h"

namespace ct::cpu {

static_assert(kChunk <= kSquareChunk);  // one sum a chunk

std::unique_ptr<Kernel> prepare(const Cast& op, const Shapes& shape) {
  return make_kernel([op, type = shape.dtype(op.y), n = shape(op.x).stored()](const Operands& at, float*) {
    return [=, x = at.f32(op.x), y = at.at<std::byte>(op.y)] {
      if (type == DType::bf16)
        convert(x, reinterpret_cast<uint16_t*>(y), n);
      else if (type == DType::f16)
        convert_to_f16(x, reinterpret_cast<uint16_t*>(y), n);
      else
        std::memcpy(y, x, static_cast<size_t>(n) * sizeof(float));
    };
  });
}

/// A leaf merges with the levels that the counter's trailing ones name and becomes the next level; the last one merges
/// with every level that is left, lowest first, which is what merging from the right means. A single level is either
/// that of two leaves or holds the sum so far.
std::unique_ptr<Kernel> prepare(const TreePush& op, const Shapes& shape) {
  return make_kernel([op, n = shape(op.leaf).stored()](const Operands& at, float*) {
    std::vector<float*> levels;
    for (ValueId id : op.levels) levels.push_back(at.f32(id));
    return [=, leaf = at.f32(op.leaf), counter = at.i32(op.counter),
            merged = std::vector<const float*>(levels.size())]() mutable {
      const unsigned index = static_cast<unsigned>(*counter);
      const bool running = levels.size() == 1 && index > 0;
      const int ones = running ? 0 : std::countr_one(index);
      size_t count = 0;
      for (size_t k = 0; k < levels.size(); ++k) {
        const bool full = running || (index >> k & 1) != 0;
        if (full && (op.last || running || static_cast<int>(k) < ones)) merged[count++] = levels[k];
      }
      float* out = op.last ? leaf : levels[static_cast<size_t>(ones)];
      tree_add(leaf, std::span(merged).first(count), out, n);
      *counter = op.last ? 0 : *counter + 1;
    };
  });
}

std::unique_ptr<Kernel> prepare(const SquareSums& op, const Shapes&) {
  return make_kernel([op](const Operands& at, float*) {
    return [op, grads = at.f32(op.grads), sums = at.at<double>(op.sums)] {
      for (const SquareSums::Chunk& c : op.chunks) sum_of_squares(grads + c.range.begin, c.range.size(), sums + c.sum);
    };
  });
}

std::unique_ptr<Kernel> prepare(const StepControl& op, const Shapes& shape) {
  check(op.loss_scale == kNone, "a loss scale on a CPU, which does not compute in fp16");
  return make_kernel([op, chunks = shape(op.sums)[0]](const Operands& at, float*) {
    return [op, sums = std::span<const double>(at.at<double>(op.sums), static_cast<size_t>(chunks)),
            schedule = at.at<ScheduleRow>(op.schedule), scalars = at.at<StepScalars>(op.scalars)] {
      step_control(*scalars, sums, schedule, op.clip, op.micro_batches);
    };
  });
}

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

}  // namespace

std::unique_ptr<Kernel> prepare(const Adam& op, const Shapes& shape) {
  return make_kernel([op, forms = forms_of(op, shape)](const Operands& at, float*) {
    struct Slice {
      AdamArgs args;
      float* f32_copy;
    };
    std::vector<Slice> slices;
    for (size_t i = 0; i < op.slices.size(); ++i) {
      const Adam::Slice& s = op.slices[i];
      slices.push_back({.args = {.n = forms[i].n,
                                 .grads = at.f32(s.grads),
                                 .params = at.f32(s.masters),
                                 .exp_avg = at.f32(s.exp_avg),
                                 .exp_avg_sq = at.f32(s.exp_avg_sq),
                                 .bf16_params = forms[i].bf16(at, s.copy),
                                 .scalars = {.learning_rate = 0,
                                             .beta1 = static_cast<float>(op.beta1),
                                             .one_minus_beta1 = static_cast<float>(1 - op.beta1),
                                             .beta2 = static_cast<float>(op.beta2),
                                             .one_minus_beta2 = static_cast<float>(1 - op.beta2),
                                             .eps = static_cast<float>(op.eps),
                                             .weight_decay = static_cast<float>(s.weight_decay),
                                             .bias_correction1 = 1,
                                             .sqrt_bias_correction2 = 1,
                                             .gradient_scale = 1,
                                             .decoupled = op.mode == AdamMode::decoupled}},
                        .f32_copy = forms[i].f32(at, s.copy)});
    }
    return [slices = std::move(slices), s = at.at<const StepScalars>(op.scalars)]() mutable {
      if (s->skip) return;
      for (auto& [args, f32_copy] : slices) {
        args.scalars.learning_rate = static_cast<float>(s->lr);
        args.scalars.bias_correction1 = static_cast<float>(1 / s->bias_correction1);
        args.scalars.sqrt_bias_correction2 = static_cast<float>(1 / std::sqrt(s->bias_correction2));
        args.scalars.gradient_scale = static_cast<float>(s->grad_scale);
        adam(args);
        copy_masters(args.params, f32_copy, args.n);
      }
    };
  });
}

std::unique_ptr<Kernel> prepare(const Sgd& op, const Shapes& shape) {
  return make_kernel([op, forms = forms_of(op, shape)](const Operands& at, float*) {
    struct Slice {
      SgdArgs args;
      float* f32_copy;
    };
    std::vector<Slice> slices;
    for (size_t i = 0; i < op.slices.size(); ++i) {
      const Sgd::Slice& s = op.slices[i];
      slices.push_back({.args = {.n = forms[i].n,
                                 .grads = at.f32(s.grads),
                                 .params = at.f32(s.masters),
                                 .momentum_buffer = at.f32(s.momentum_buffer),
                                 .bf16_params = forms[i].bf16(at, s.copy),
                                 .learning_rate = 0,
                                 .momentum = static_cast<float>(op.momentum),
                                 .weight_decay = static_cast<float>(s.weight_decay),
                                 .gradient_scale = 1,
                                 .nesterov = op.nesterov},
                        .f32_copy = forms[i].f32(at, s.copy)});
    }
    return [slices = std::move(slices), s = at.at<const StepScalars>(op.scalars)]() mutable {
      if (s->skip) return;
      for (auto& [args, f32_copy] : slices) {
        args.learning_rate = static_cast<float>(s->lr);
        args.gradient_scale = static_cast<float>(s->grad_scale);
        sgd(args);
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

}  // namespace ct::cpu
