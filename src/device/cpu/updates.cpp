#include <bit>
#include <cmath>

#include "device/cpu/cpu_kernel.h"
#include "device/cpu/kernels/update.h"
#include "device/cpu/layers.h"
#include "device/cpu/step_control.h"
#include "plan/flat.h"

namespace ct::cpu {

static_assert(kChunk <= kSquareChunk);  // one sum a chunk

/// A leaf merges with the levels that the counter's trailing ones name and becomes the next level; the last one merges
/// with every level that is left, lowest first, which is what merging from the right means.
std::unique_ptr<Kernel> prepare(const TreePush& op, const Shapes& shape) {
  return make_kernel([op, n = shape(op.leaf).stored()](const Operands& at, float*) {
    std::vector<float*> levels;
    for (ValueId id : op.levels) levels.push_back(at.f32(id));
    return [=, leaf = at.f32(op.leaf), counter = at.i32(op.counter),
            merged = std::vector<const float*>(levels.size())]() mutable {
      const unsigned index = static_cast<unsigned>(*counter);
      const int ones = std::countr_one(index);
      size_t count = 0;
      for (size_t k = 0; k < levels.size(); ++k) {
        const bool full = (index >> k & 1) != 0;
        if (full && (op.last || static_cast<int>(k) < ones)) merged[count++] = levels[k];
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
      for (size_t i = 0; i < op.chunks.size(); ++i)
        sum_of_squares(grads + op.chunks[i].begin, op.chunks[i].size(), sums + i);
    };
  });
}

std::unique_ptr<Kernel> prepare(const StepControl& op, const Shapes& shape) {
  return make_kernel([op, chunks = shape(op.sums)[0]](const Operands& at, float*) {
    return [op, sums = std::span<const double>(at.at<double>(op.sums), static_cast<size_t>(chunks)),
            schedule = at.at<ScheduleRow>(op.schedule), scalars = at.at<StepScalars>(op.scalars)] {
      step_control(*scalars, sums, schedule, op.clip, op.micro_batches);
    };
  });
}

std::unique_ptr<Kernel> prepare(const Adam& op, const Shapes&) {
  return make_kernel([op](const Operands& at, float*) {
    const int64_t begin = op.range.begin;
    AdamArgs args{.n = op.range.size(),
                  .grads = at.f32(op.grads) + begin,
                  .params = at.f32(op.params) + begin,
                  .exp_avg = at.f32(op.exp_avg) + begin,
                  .exp_avg_sq = at.f32(op.exp_avg_sq) + begin,
                  .bf16_params = nullptr,
                  .scalars = {.learning_rate = 0,
                              .beta1 = static_cast<float>(op.beta1),
                              .one_minus_beta1 = static_cast<float>(1 - op.beta1),
                              .beta2 = static_cast<float>(op.beta2),
                              .one_minus_beta2 = static_cast<float>(1 - op.beta2),
                              .eps = static_cast<float>(op.eps),
                              .weight_decay = static_cast<float>(op.weight_decay),
                              .bias_correction1 = 1,
                              .sqrt_bias_correction2 = 1,
                              .gradient_scale = 1,
                              .decoupled = op.mode == AdamMode::decoupled}};
    return [args, s = at.at<const StepScalars>(op.scalars)]() mutable {
      if (s->skip) return;
      args.scalars.learning_rate = static_cast<float>(s->lr);
      args.scalars.bias_correction1 = static_cast<float>(1 / s->bias_correction1);
      args.scalars.sqrt_bias_correction2 = static_cast<float>(1 / std::sqrt(s->bias_correction2));
      args.scalars.gradient_scale = static_cast<float>(s->grad_scale);
      adam(args);
    };
  });
}

std::unique_ptr<Kernel> prepare(const Sgd& op, const Shapes&) {
  return make_kernel([op](const Operands& at, float*) {
    const int64_t begin = op.range.begin;
    SgdArgs args{.n = op.range.size(),
                 .grads = at.f32(op.grads) + begin,
                 .params = at.f32(op.params) + begin,
                 .momentum_buffer = op.momentum_buffer == kNone ? nullptr : at.f32(op.momentum_buffer) + begin,
                 .bf16_params = nullptr,
                 .learning_rate = 0,
                 .momentum = static_cast<float>(op.momentum),
                 .weight_decay = static_cast<float>(op.weight_decay),
                 .gradient_scale = 1,
                 .nesterov = op.nesterov};
    return [args, s = at.at<const StepScalars>(op.scalars)]() mutable {
      if (s->skip) return;
      args.learning_rate = static_cast<float>(s->lr);
      args.gradient_scale = static_cast<float>(s->grad_scale);
      sgd(args);
    };
  });
}

}  // namespace ct::cpu
