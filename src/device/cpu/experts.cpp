#include "device/cpu/kernels/experts.h"

#include "device/cpu/by_type.h"
#include "device/cpu/cpu_kernel.h"
#include "device/cpu/kernels/routing.h"
#include "device/cpu/layers.h"
#include "graph/loss_scale.h"

namespace ct::cpu {
namespace {

RouteShape route_shape(const Shape& logits, int64_t capacity, int top_k) {
  return {logits[0], logits[1], capacity, top_k};
}

/// Of `rows`, and of what one of the experts has.
ExpertsShape experts_shape(const Shape& rows, const Ids& experts, const Shapes& shape, int top_k) {
  return {rows[0], rows[1], static_cast<int64_t>(experts.size()), shape(experts.front())[0], top_k};
}

}  // namespace

std::unique_ptr<Kernel> prepare(const Route& op, const Shapes& shape) {
  const RouteShape s = route_shape(shape(op.logits), op.capacity, op.top_k);
  return one_call(route, op, {.shape = s, .sampled = op.sampled, .number = op.number}, route_workspace_bytes(s));
}

std::unique_ptr<Kernel> prepare(const RouteGrad& op, const Shapes& shape) {
  const RouteGradArgs args{.shape = route_shape(shape(op.logits), op.capacity, op.top_k),
                           .balance_coefficient = op.balance_coefficient / op.predivide};
  return make_kernel([=](const Operands& at, float*) {
    return [args = at.put(op, args), scale = at.at<LossScaleState>(op.loss_scale)] {
      RouteGradArgs scaled = args;
      if (scale != nullptr) scaled.balance_coefficient *= scale->scale;
      route_grad(scaled);
    };
  });
}

std::unique_ptr<Kernel> prepare(const Dispatch& op, const Shapes& shape) {
  return by_type(shape.bf16(op.x), [&]<class T>(T) {
    return one_call<DispatchArgs<T>>(dispatch, op, {.shape = experts_shape(shape(op.x), op.to, shape, op.top_k)});
  });
}

std::unique_ptr<Kernel> prepare(const Combine& op, const Shapes& shape) {
  return by_type(shape.bf16(op.y), [&]<class T>(T) {
    return one_call<CombineArgs<T>>(combine, op, {.shape = experts_shape(shape(op.y), op.from, shape, op.top_k)});
  });
}

std::unique_ptr<Kernel> prepare(const CombineGradWeights& op, const Shapes& shape) {
  return by_type(shape.bf16(op.dy), [&]<class T>(T) {
    return one_call<CombineGradWeightsArgs<T>>(combine_grad_weights, op,
                                               {.shape = experts_shape(shape(op.dy), op.from, shape, op.top_k)});
  });
}

std::unique_ptr<Kernel> prepare(const Jitter& op, const Shapes& shape) {
  return by_type(shape.bf16(op.x), [&]<class T>(T) {
    return one_call<JitterArgs<T>>(jitter, op, {.n = shape(op.x).stored(), .number = op.number});
  });
}

std::unique_ptr<Kernel> prepare(const SoftmaxMix& op, const Shapes& shape) {
  const Shape& s = shape(op.y);
  return by_type(shape.bf16(op.y), [&]<class T>(T) {
    return one_call<SoftmaxMixArgs<T>>(softmax_mix, op, {.rows = s[0], .columns = s[1]});
  });
}

std::unique_ptr<Kernel> prepare(const SoftmaxMixGrad& op, const Shapes& shape) {
  const Shape& s = shape(op.dy);
  return by_type(shape.bf16(op.dy), [&]<class T>(T) {
    return one_call<SoftmaxMixGradArgs<T>>(softmax_mix_grad, op, {.rows = s[0], .columns = s[1]});
  });
}

}  // namespace ct::cpu
