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

template <class T, class Element = std::remove_const_t<T>>
PerExpert<T> per_expert(const Operands& at, const Ids& ids) {
  PerExpert<T> all = {};
  for (size_t e = 0; e < ids.size(); ++e) all[e] = at.at<Element>(ids[e]);
  return all;
}
/// Of `rows`, and of what one of the experts has.
ExpertsShape experts_shape(const Shape& rows, const Ids& experts, const Shapes& shape, int top_k) {
  return {rows[0], rows[1], static_cast<int64_t>(experts.size()), shape(experts.front())[0], top_k};
}

}  // namespace

std::unique_ptr<Kernel> prepare(const Route& op, const Shapes& shape) {
  const RouteShape s = route_shape(shape(op.logits), op.capacity, op.top_k);
  return make_kernel(route_workspace_bytes(s), [op, s](const Operands& at, float* workspace) {
    const RouteArgs args{.shape = s,
                         .sampled = op.sampled,
                         .number = op.number,
                         .logits = at.f32(op.logits),
                         .key = at.at<DropoutKey>(op.key),
                         .slots = at.i32(op.slots),
                         .sources = at.i32(op.sources),
                         .weights = at.f32(op.weights),
                         .load = at.f32(op.load),
                         .balance = at.f32(op.balance),
                         .workspace = reinterpret_cast<std::byte*>(workspace)};
    return [args] { route(args); };
  });
}

std::unique_ptr<Kernel> prepare(const RouteGrad& op, const Shapes& shape) {
  return make_kernel([op, s = route_shape(shape(op.logits), op.capacity, op.top_k)](const Operands& at, float*) {
    const RouteGradArgs args{.shape = s,
                             .logits = at.f32(op.logits),
                             .slots = at.i32(op.slots),
                             .load = at.f32(op.load),
                             .dweights = at.f32(op.dweights),
                             .balance_coefficient = op.balance_coefficient / op.predivide,
                             .dlogits = at.f32(op.dlogits)};
    return [args, scale = at.at<LossScaleState>(op.loss_scale)] {
      RouteGradArgs scaled = args;
      if (scale != nullptr) scaled.balance_coefficient *= scale->scale;
      route_grad(scaled);
    };
  });
}

std::unique_ptr<Kernel> prepare(const Dispatch& op, const Shapes& shape) {
  const ExpertsShape s = experts_shape(shape(op.x), op.to, shape, op.top_k);
  return by_type(shape.bf16(op.x), [&]<class T>(T) {
    return make_kernel([op, s](const Operands& at, float*) {
      const DispatchArgs<T> args{s, at.at<T>(op.x), at.i32(op.sources), at.f32(op.weights), per_expert<T>(at, op.to)};
      return [args] { dispatch(args); };
    });
  });
}

std::unique_ptr<Kernel> prepare(const Combine& op, const Shapes& shape) {
  const ExpertsShape s = experts_shape(shape(op.y), op.from, shape, op.top_k);
  return by_type(shape.bf16(op.y), [&]<class T>(T) {
    return make_kernel([op, s](const Operands& at, float*) {
      const CombineArgs<T> args{s, per_expert<const T>(at, op.from), at.i32(op.slots), at.f32(op.weights),
                                at.at<T>(op.y)};
      return [args] { combine(args); };
    });
  });
}

std::unique_ptr<Kernel> prepare(const CombineGradWeights& op, const Shapes& shape) {
  const ExpertsShape s = experts_shape(shape(op.dy), op.from, shape, op.top_k);
  return by_type(shape.bf16(op.dy), [&]<class T>(T) {
    return make_kernel([op, s](const Operands& at, float*) {
      const CombineGradWeightsArgs<T> args{s, per_expert<const T>(at, op.from), at.i32(op.slots), at.at<T>(op.dy),
                                           at.f32(op.dweights)};
      return [args] { combine_grad_weights(args); };
    });
  });
}

std::unique_ptr<Kernel> prepare(const Jitter& op, const Shapes& shape) {
  return by_type(shape.bf16(op.x), [&]<class T>(T) {
    return make_kernel([op, n = shape(op.x).stored()](const Operands& at, float*) {
      const JitterArgs<T> args{n, at.at<DropoutKey>(op.key), op.number, at.at<T>(op.x), at.at<T>(op.y)};
      return [args] { jitter(args); };
    });
  });
}

std::unique_ptr<Kernel> prepare(const SoftmaxMix& op, const Shapes& shape) {
  return by_type(shape.bf16(op.y), [&]<class T>(T) {
    return make_kernel([op, s = shape(op.y)](const Operands& at, float*) {
      const SoftmaxMixArgs<T> args{s[0], s[1], at.at<T>(op.a), at.at<T>(op.b), at.f32(op.scores), at.at<T>(op.y)};
      return [args] { softmax_mix(args); };
    });
  });
}

std::unique_ptr<Kernel> prepare(const SoftmaxMixGrad& op, const Shapes& shape) {
  return by_type(shape.bf16(op.dy), [&]<class T>(T) {
    return make_kernel([op, s = shape(op.dy)](const Operands& at, float*) {
      const SoftmaxMixGradArgs<T> args{.rows = s[0],
                                       .columns = s[1],
                                       .a = at.at<T>(op.a),
                                       .b = at.at<T>(op.b),
                                       .scores = at.f32(op.scores),
                                       .dy = at.at<T>(op.dy),
                                       .da = at.at<T>(op.da),
                                       .db = at.at<T>(op.db),
                                       .dscores = at.f32(op.dscores)};
      return [args] { softmax_mix_grad(args); };
    });
  });
}

}  // namespace ct::cpu
